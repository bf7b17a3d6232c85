"""Notifications, tests and recoveries as callers write them in request bodies."""

from typing import TYPE_CHECKING, Any

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from billhook.delivery import trial
from billhook.delivery.accept import LONGEST_TITLE, valid_message
from billhook.groups.bodies import NewProvider, ProviderChanges
from billhook.groups.manage import COMMON, ProviderSpec
from billhook.providers.kinds import Message
from billhook.providers.registry import any_changes, any_of, joined

SAID = {"title", "content"}


class NewNotification(BaseModel):
    model_config = ConfigDict(extra="forbid")

    title: str = Field(json_schema_extra={"minLength": 1, "maxLength": LONGEST_TITLE})
    content: str = Field(json_schema_extra={"minLength": 1}, description="At most 32 KiB, written as UTF-8.")

    @property
    def message(self) -> Message:
        return valid_message(self.title, self.content)


class Trial(ProviderChanges):
    """What is left out is as it is saved."""

    title: str = trial.TITLE
    content: str = trial.CONTENT

    @property
    def message(self) -> Message:
        return valid_message(self.title, self.content)

    def values(self) -> dict[str, Any]:
        return {name: value for name, value in super().values().items() if name not in SAID}


class NewTrial(NewProvider):
    name: str = "test"
    title: str = trial.TITLE
    content: str = trial.CONTENT

    @property
    def message(self) -> Message:
        return valid_message(self.title, self.content)

    def spec(self) -> ProviderSpec:
        fields = self.model_dump(exclude={*COMMON, *SAID})
        return ProviderSpec(type=self.type, name=self.name, fields=fields, rate_limit=None)


class NewRecovery(BaseModel):
    model_config = ConfigDict(extra="forbid")

    since: AwareDatetime = Field(description="What failed at this moment or later is delivered again.")


# With the fields of the types there are, which nobody can know but the registry.
if TYPE_CHECKING:
    AnyTrial = Trial
    AnyNewTrial = NewTrial
else:
    AnyTrial, AnyNewTrial = any_changes(Trial), any_of(joined(NewTrial))
