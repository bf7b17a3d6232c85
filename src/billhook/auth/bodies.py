"""Clients as callers write them in request bodies. What makes a value valid is decided in `model`."""

from collections.abc import Callable
from typing import Annotated, Any

from pydantic import AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from billhook.auth import model

Scopes = Annotated[
    list[str],
    BeforeValidator(lambda given: [given] if isinstance(given, str) else given),
    WithJsonSchema(
        {
            "anyOf": [{"type": "string"}, {"type": "array", "items": {"enum": list(model.SCOPES)}, "minItems": 1}],
            "description": "Space-separated, or a list.",
        }
    ),
]

Lifespan = Annotated[
    str,
    BeforeValidator(lambda given: str(given) if type(given) is int else given),
    WithJsonSchema(
        {
            "anyOf": [{"type": "string"}, {"type": "integer", "minimum": 60, "maximum": 86400}],
            "description": "How long its tokens live: `1m` to `55m`, `1h` to `24h`, or the same in seconds.",
        }
    ),
]

SCOPE_NAMES = AliasChoices("scope", "scopes")


class ClientChanges(BaseModel):
    """What is left out, or null, stays as it is."""

    model_config = ConfigDict(extra="forbid")

    name: str | None = Field(default=None, min_length=1, max_length=model.LONGEST_NAME)
    description: str | None = Field(default=None, max_length=model.LONGEST_DESCRIPTION)
    scope: Scopes | None = Field(default=None, validation_alias=SCOPE_NAMES)
    lifespan: Lifespan | None = None
    networks: list[str] | None = Field(default=None, description="Where it may come from; empty: anywhere.")

    def values(self) -> dict[str, Any]:
        """The given fields, checked, under the names that a ClientSpec has for them."""
        given = self.model_dump(exclude_none=True)
        return {READERS[name][0]: READERS[name][1](value) for name, value in given.items()}


class NewClient(ClientChanges):
    name: str = Field(min_length=1, max_length=model.LONGEST_NAME)
    scope: Scopes = Field(validation_alias=SCOPE_NAMES)


class Rotation(BaseModel):
    model_config = ConfigDict(extra="forbid")

    grace: str = Field(default="now", description=f"When the old secret ends: {', '.join(model.GRACES)}.")


READERS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "name": ("name", model.valid_name),
    "description": ("description", model.valid_description),
    "scope": ("scopes", model.valid_scopes),
    "lifespan": ("lifespan", model.parse_lifespan),
    "networks": ("networks", model.parse_networks),
}
