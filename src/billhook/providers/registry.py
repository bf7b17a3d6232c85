"""The types of providers there are."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar, Union, cast

from pydantic import BaseModel, Discriminator, Field, create_model

from billhook.errors import InvalidParameters
from billhook.providers.kinds import ProviderType
from billhook.providers.webhook import Webhook

Model = TypeVar("Model", bound=BaseModel)

TYPES: dict[str, ProviderType] = {
    "Webhook": Webhook(),
}


def provider_type(name: str) -> ProviderType:
    if name not in TYPES:
        raise InvalidParameters.of("type", f"must be one of {', '.join(TYPES)}")
    return TYPES[name]


def joined(base: type[Model]) -> dict[str, type[Model]]:
    """`base` together with the fields of each type, by the type's name."""
    return {name: _join(base, kind) for name, kind in TYPES.items()}


def any_of(models: Mapping[str, type[BaseModel]]) -> Any:
    """One model for all of them: the only one, or a union that `type` tells apart."""
    first, *others = models.values()
    return Annotated[Union[tuple(models.values())], Discriminator("type")] if others else first  # noqa: UP007


def any_changes(base: type[Model]) -> type[Model]:
    """`base` together with the fields of all types, none of them required."""
    fields: dict[str, Any] = {
        name: (field.annotation | None, Field(default=None, description=field.description))  # type: ignore[operator]
        for kind in TYPES.values()
        for name, field in kind.fields.model_fields.items()
    }
    return create_model(base.__name__, __base__=base, **fields)


def _join(base: type[Model], kind: ProviderType) -> type[Model]:
    name = base.__name__.replace("Provider", f"{kind.name}Provider")
    bases: Any = (kind.fields, base)  # in this order, the fields that all have come first
    only_this: Any = Literal[kind.name]
    made: Any = create_model(name, __base__=bases, type=(only_this, ...))
    return cast("type[Model]", made)
