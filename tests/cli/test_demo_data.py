"""What the demo begins with is as people could have made it."""

from collections import Counter

import pytest

from billhook.accounts.users import normal_email
from billhook.auth.model import parse_lifespan, parse_networks, spell_lifespan, valid_scopes
from billhook.cli.demo_data import GROUPS, INVITED, KEYS, PEOPLE, PIPELINE, Key, Provider
from billhook.cli.demo_receiver import PATHS
from billhook.providers.webhook import Webhook

PROVIDERS = [provider for group in GROUPS for provider in group.providers]


@pytest.mark.parametrize("provider", PROVIDERS, ids=lambda provider: provider.name)
def test_every_provider_is_valid_and_the_receiver_knows_its_path(provider: Provider) -> None:
    headers = [{"key": key, "value": value} for key, value in provider.headers]
    fields = {"server_url": f"http://127.0.0.1:1{provider.path}", "request_method": provider.method}
    assert Webhook().configure(fields | {"request_headers": headers}, None)["request_headers"] == headers
    assert provider.path.partition("?")[0] in PATHS


def test_the_receiver_does_nothing_that_nobody_sees() -> None:
    assert {provider.path.partition("?")[0] for provider in PROVIDERS} == PATHS.keys()


@pytest.mark.parametrize("key", KEYS, ids=lambda key: key.name)
def test_every_key_is_valid(key: Key) -> None:
    assert valid_scopes(key.scopes) == key.scopes
    assert parse_lifespan(spell_lifespan(key.lifespan)) == key.lifespan
    assert tuple(map(str, parse_networks(key.networks))) == key.networks
    assert bool(key.address) == (key.every is not None)
    assert not any(ago and ago > key.age for ago in (key.rotated, key.revoked, *(each.ago for each in key.refusals)))


def test_no_name_is_given_twice() -> None:
    for names in ([group.name for group in GROUPS], [each.name for each in PROVIDERS], [key.name for key in KEYS]):
        assert max(Counter(names).values()) == 1


def test_the_sender_is_one_of_the_keys() -> None:
    (pipeline,) = (key for key in KEYS if key.name == PIPELINE)
    assert "notifications:send" in pipeline.scopes


def test_everybody_has_an_address_that_nobody_really_has() -> None:
    emails = [person.email for person in (*PEOPLE, INVITED)]
    assert [normal_email(email) for email in emails] == emails
    assert all(email.endswith("@example.com") for email in emails)
