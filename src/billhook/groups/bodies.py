"""Groups and providers as callers write them in request bodies. What makes a value valid is decided in `model`."""

from typing import TYPE_CHECKING, Any, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from billhook.groups import model
from billhook.groups.manage import COMMON, ProviderSpec
from billhook.providers.registry import any_changes, any_of, joined

NAME: dict[str, Any] = {"minLength": 1, "maxLength": model.LONGEST_NAME}
RATE_LIMIT: dict[str, Any] = {"minimum": 0, "maximum": model.FASTEST}
RATE_LIMIT_HELP = "Requests a second at most; 0: no limit."


class NewGroup(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: str = Field(json_schema_extra=NAME, description="No other group of the organization may have it.")


class GroupChanges(BaseModel):
    """What is left out, or null, stays as it is."""

    model_config = ConfigDict(extra="forbid")

    name: str | None = Field(default=None, json_schema_extra=NAME)


class NewProvider(BaseModel):
    model_config = ConfigDict(extra="forbid")

    type: str
    name: str = Field(json_schema_extra=NAME)
    rate_limit: int | None = Field(default=None, strict=True, json_schema_extra=RATE_LIMIT, description=RATE_LIMIT_HELP)

    def spec(self) -> ProviderSpec:
        fields = self.model_dump(exclude=set(COMMON))
        return ProviderSpec(type=self.type, name=self.name, fields=fields, rate_limit=self.rate_limit)


class ProviderChanges(BaseModel):
    """What is left out, or null, stays as it is."""

    model_config = ConfigDict(extra="forbid")

    type: str | None = Field(default=None, description="Cannot be changed.")
    name: str | None = Field(default=None, json_schema_extra=NAME)
    rate_limit: int | None = Field(default=None, strict=True, json_schema_extra=RATE_LIMIT, description=RATE_LIMIT_HELP)

    def values(self) -> dict[str, Any]:
        return self.model_dump(exclude_none=True)


# With the fields of the types there are, which nobody can know but the registry.
if TYPE_CHECKING:
    AnyNewProvider: TypeAlias = NewProvider
    AnyProviderChanges: TypeAlias = ProviderChanges
else:
    AnyNewProvider = any_of(joined(NewProvider))
    AnyProviderChanges = any_changes(ProviderChanges)
