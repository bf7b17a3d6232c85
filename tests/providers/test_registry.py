"""The types of providers, and the models made from them."""

import pytest
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from billhook.errors import InvalidParameters
from billhook.providers import registry
from billhook.providers.registry import TYPES, any_changes, any_of, joined, provider_type
from billhook.providers.webhook import Webhook

WEBHOOK = {"type": "Webhook", "name": "x", "server_url": "https://x.example/", "request_method": "GET"}


class NewProvider(BaseModel):
    model_config = ConfigDict(extra="forbid")

    type: str
    name: str


class Changes(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: str | None = None


class PagerFields(BaseModel):
    number: str


class Pager(Webhook):
    """Another type, as it may come one day."""

    name = "Pager"
    fields: type[BaseModel] = PagerFields


@pytest.fixture
def two_types(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry.TYPES, "Pager", Pager())


def test_every_type_is_known_under_its_own_name() -> None:
    assert {name: kind.name for name, kind in TYPES.items()} == {name: name for name in TYPES}
    assert provider_type("Webhook") is TYPES["Webhook"]


@pytest.mark.parametrize("name", ["webhook", "Email", ""])
def test_an_unknown_type_is_refused_with_those_known(name: str) -> None:
    with pytest.raises(InvalidParameters, match="type: must be one of Webhook"):
        provider_type(name)


def test_a_body_has_the_fields_of_its_type_and_no_others() -> None:
    model = any_of(joined(NewProvider))
    assert model.__name__ == "NewWebhookProvider"
    assert model(**WEBHOOK).model_dump() == WEBHOOK | {"request_headers": []}
    for wrong in (WEBHOOK | {"colour": "red"}, WEBHOOK | {"type": "Pager"}, {"type": "Webhook", "name": "x"}):
        with pytest.raises(ValidationError):
            model(**wrong)


def test_changes_have_the_fields_of_all_types_and_need_none() -> None:
    model = any_changes(Changes)
    assert model().model_dump(exclude_none=True) == {}
    given = {"server_url": "https://x.example/", "request_headers": [{"key": "a", "value": "b"}]}
    assert model.model_validate(given).model_dump(exclude_none=True) == given
    with pytest.raises(ValidationError):
        model.model_validate({"colour": "red"})


def test_several_types_are_told_apart_by_their_name(two_types: None) -> None:
    either = TypeAdapter[NewProvider](any_of(joined(NewProvider)))
    assert either.validate_python(WEBHOOK).model_dump() == WEBHOOK | {"request_headers": []}
    pager = {"type": "Pager", "name": "x", "number": "112"}
    assert either.validate_python(pager).model_dump() == pager
    with pytest.raises(ValidationError):
        either.validate_python(WEBHOOK | {"type": "Pager"})
    assert {"number", "server_url", "name"} <= any_changes(Changes).model_fields.keys()
