"""The sample data as it is in an installation."""

from datetime import UTC, datetime, timedelta

import pytest

from billhook.accounts.installation import Installation
from billhook.accounts.invitations import list_invitations
from billhook.accounts.passwords import password_matches
from billhook.accounts.users import find_by_email, list_users
from billhook.auth.activity import recent_requests
from billhook.auth.model import ClientState
from billhook.auth.store import list_clients
from billhook.cli.demo_data import GROUPS, INVITED, KEYS, PEOPLE
from billhook.cli.demo_set_up import EMAIL, Placement, set_up
from billhook.groups.model import ProviderState
from billhook.groups.store import list_groups, list_providers, open_provider

PASSWORD = "a password of the tests"
NOW = datetime(2026, 3, 5, 14, 30, tzinfo=UTC)


@pytest.fixture
async def placement(installation: Installation) -> Placement:
    return await set_up(installation, password=PASSWORD, receiver="http://127.0.0.1:1", now=NOW)


async def test_only_who_was_told_the_password_can_sign_in(installation: Installation, placement: Placement) -> None:
    async with installation.db.reading() as tx:
        found = await list_users(tx, placement.organization_id, limit=10)
        hashes = {user.email: (await find_by_email(tx, user.email) or ("", ""))[1] for user in found}
        invited = await list_invitations(tx, placement.organization_id, now=NOW)
    assert hashes.keys() == {EMAIL, *(person.email for person in PEOPLE)}
    assert password_matches(PASSWORD, hashes.pop(EMAIL))
    assert not any(password_matches(guess, hashed) for hashed in hashes.values() for guess in ("", "!", PASSWORD))
    assert [invitation.email for invitation in invited] == [INVITED.email]


async def test_every_provider_is_where_it_belongs(installation: Installation, placement: Placement) -> None:
    async with installation.db.reading() as tx:
        rows = await list_providers(tx, placement.organization_id)
    found = {row.id: open_provider(installation.vault, row) for row in rows}
    assert found.keys() == {placed.id for placed in placement.providers}
    assert placement.group_ids.keys() == {group.name for group in GROUPS}
    for placed in placement.providers:
        provider = found[placed.id]
        assert (provider.name, provider.group_id) == (placed.sample.name, placed.group_id)
        assert provider.config["server_url"] == f"http://127.0.0.1:1{placed.sample.path}"
        assert (provider.state is ProviderState.PAUSED) == (placed.sample.paused is not None)


async def test_lists_begin_with_what_the_sample_begins_with(installation: Installation, placement: Placement) -> None:
    async with installation.db.reading() as tx:
        groups = await list_groups(tx, placement.organization_id)
        keys = await list_clients(tx, placement.organization_id)
        providers = await list_providers(tx, placement.organization_id, group_id=groups[0].id)
    assert [group.name for group in groups] == [group.name for group in GROUPS]
    assert [key.name for key in keys] == [key.name for key in KEYS]
    assert [provider.name for provider in providers] == [provider.name for provider in GROUPS[0].providers]


async def test_keys_have_been_used_rotated_refused_and_revoked(
    installation: Installation, placement: Placement
) -> None:
    async with installation.db.reading() as tx:
        found = {client.name: client for client in await list_clients(tx, placement.organization_id)}
        outcomes = {
            name: {each.outcome for each in await recent_requests(tx, client.id, limit=1000)}
            for name, client in found.items()
        }
    assert found.keys() == {key.name for key in KEYS}
    for key in KEYS:
        client = found[key.name]
        assert (client.last_used_at is not None) == (key.every is not None)
        assert client.last_used_at is None or client.last_used_at <= NOW - (key.revoked or timedelta(0))
        assert (client.state is ClientState.REVOKED) == (key.revoked is not None)
        assert len(client.secrets) == (2 if key.rotated else 1)
        assert outcomes[key.name] == {each.reason for each in key.refusals} | ({"issued"} if key.every else set())
