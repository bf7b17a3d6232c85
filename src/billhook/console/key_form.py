"""The form of an API key: what was typed, and what it comes to."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from billhook.auth import model
from billhook.auth.model import Client
from billhook.console.forms import Form, wrong
from billhook.errors import FieldError, InvalidParameters

UNITS = {"m": "minutes", "h": "hours"}
DEFAULT_LIFESPAN = model.spell_lifespan(model.DEFAULT_LIFESPAN)


@dataclass(frozen=True)
class Typed:
    """The fields as they stand in the form, right or wrong."""

    name: str = ""
    description: str = ""
    scopes: tuple[str, ...] = ()
    lifespan: str = DEFAULT_LIFESPAN[:-1]
    unit: str = DEFAULT_LIFESPAN[-1]
    networks: str = ""

    @classmethod
    def of_client(cls, client: Client) -> "Typed":
        lifespan, networks = model.spell_lifespan(client.lifespan), "\n".join(map(str, client.networks))
        return cls(client.name, client.description, client.scopes, lifespan[:-1], lifespan[-1], networks)

    @classmethod
    def of_form(cls, form: Form) -> "Typed":
        scopes = tuple(form.all("scope"))
        return cls(form["name"], form["description"], scopes, form["lifespan"], form["unit"], form["networks"])


def read_key(form: Form) -> dict[str, Any]:
    """The fields of a ClientSpec, checked; all mistakes are told at once."""
    values: dict[str, Any] = {}
    mistakes: list[FieldError] = []
    for field, read in READERS.items():
        try:
            values[field] = read(form)
        except InvalidParameters as error:
            mistakes += error.errors
    if mistakes:
        raise InvalidParameters(errors=mistakes)
    return values


def _scopes(form: Form) -> tuple[str, ...]:
    if not form.all("scope"):
        raise wrong("scope", "tick at least one")
    return model.valid_scopes(form.all("scope"))


def _lifespan(form: Form) -> timedelta:
    try:
        if form["unit"] in UNITS:
            return model.parse_lifespan(form["lifespan"].strip() + form["unit"])
    except InvalidParameters:
        pass
    raise wrong("lifespan", "must be a whole number: 1 to 55 minutes, or 1 to 24 hours")


READERS: dict[str, Callable[[Form], Any]] = {
    "name": lambda form: model.valid_name(form["name"]),
    "description": lambda form: model.valid_description(form["description"]),
    "scopes": _scopes,
    "lifespan": _lifespan,
    "networks": lambda form: model.parse_networks([form["networks"]]),
}
