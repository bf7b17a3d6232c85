"""What one can do with groups and providers: each a transaction with its audit entry."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import select

from billhook.accounts.audit import Actor, audit, read_trail
from billhook.accounts.installation import Installation
from billhook.auth.manage import Author
from billhook.errors import (
    GroupConflict,
    GroupNotFound,
    InvalidParameters,
    ProviderConflict,
    ProviderNotFound,
)
from billhook.groups import manage, store
from billhook.groups.manage import ProviderSpec
from billhook.groups.model import Group, Health, Provider, ProviderState
from billhook.providers.kinds import MASK
from billhook.storage.database import Transaction
from billhook.storage.ids import new_id
from tests.groups.setting import FIELDS, NOW, NOW_MS, TOKEN, make_group, make_provider
from tests.support import OPERATOR, another_organization

HOUR = timedelta(hours=1)
DAY_MS = 24 * 3600 * 1000


async def do(installation: Installation, work: Callable[[Transaction], Awaitable[Any]]) -> Any:
    async with installation.db.transaction() as tx:
        return await work(tx)


async def change(installation: Installation, provider: Provider, **changes: Any) -> Provider:
    async with installation.db.transaction() as tx:
        return await manage.change_provider(
            tx, installation.vault, provider.group_id, provider.id, changes, author=OPERATOR, now=NOW + HOUR
        )


async def rotate(installation: Installation, provider: Provider, *, after: timedelta) -> tuple[Provider, str]:
    async with installation.db.transaction() as tx:
        return await manage.rotate_signing_secret(
            tx, installation.vault, provider.group_id, provider.id, author=OPERATOR, now=NOW + after
        )


async def test_a_group_can_be_renamed(installation: Installation) -> None:
    group = await make_group(installation, " Ops ")
    renamed: Group = await do(
        installation, lambda tx: manage.rename_group(tx, group.id, "Night shift", author=OPERATOR, now=NOW)
    )
    assert renamed == replace(group, name="Night shift")
    async with installation.db.reading() as tx:
        assert await manage.get_group(tx, group.id, author=OPERATOR) == renamed


async def test_a_name_is_taken_once_in_an_organization(installation: Installation) -> None:
    await make_group(installation, "Ops")
    other = await make_group(installation, "Other")
    with pytest.raises(GroupConflict, match="another group has this name"):
        await make_group(installation, " Ops ")
    with pytest.raises(GroupConflict, match="another group has this name"):
        await do(installation, lambda tx: manage.rename_group(tx, other.id, "Ops", author=OPERATOR, now=NOW))
    await do(installation, lambda tx: manage.rename_group(tx, other.id, "Other", author=OPERATOR, now=NOW))
    await make_group(installation, "Ops", organization_id=await another_organization(installation))


async def test_an_organization_has_no_more_groups_than_it_may(installation: Installation) -> None:
    first = await make_group(installation, "a", most=2)
    await make_group(installation, "b", most=2)
    with pytest.raises(GroupConflict, match="as many groups as it may have: 2"):
        await make_group(installation, "c", most=2)
    await do(installation, lambda tx: manage.delete_group(tx, first.id, author=OPERATOR, now=NOW))
    await make_group(installation, "c", most=2)
    await make_group(installation, "a", most=2, organization_id=await another_organization(installation))


async def test_two_at_once_do_not_pass_the_limit_or_share_a_name(installation: Installation) -> None:
    same = [make_group(installation, "Ops") for _ in range(8)]
    made = await asyncio.gather(*same, return_exceptions=True)
    assert sum(isinstance(result, Group) for result in made) == 1
    assert sum(isinstance(result, GroupConflict) for result in made) == 7
    more = [make_group(installation, f"group {number}", most=3) for number in range(8)]
    made = await asyncio.gather(*more, return_exceptions=True)
    assert sum(isinstance(result, Group) for result in made) == 2


async def test_two_at_once_do_not_fill_a_group_beyond_its_limit(installation: Installation) -> None:
    group = await make_group(installation)
    adding = [make_provider(installation, group.id, most=3) for _ in range(8)]
    made = await asyncio.gather(*adding, return_exceptions=True)
    assert sum(isinstance(result, tuple) for result in made) == 3
    assert sum(isinstance(result, ProviderConflict) for result in made) == 5


async def test_changes_at_once_do_not_undo_each_other(installation: Installation) -> None:
    provider, _ = await make_provider(installation, (await make_group(installation)).id)
    await asyncio.gather(
        change(installation, provider, request_method="GET"),
        change(installation, provider, server_url="https://receiver.example/other"),
        rotate(installation, provider, after=HOUR),
        change(installation, provider, name="other"),
    )
    async with installation.db.reading() as tx:
        seen = await manage.get_provider(tx, installation.vault, None, provider.id, author=OPERATOR)
    assert (seen.name, seen.version, len(seen.secrets)) == ("other", 4, 2)
    assert seen.config == FIELDS | {"request_method": "GET", "server_url": "https://receiver.example/other"}


async def test_deleting_a_group_deletes_its_providers_and_names_them(installation: Installation) -> None:
    group, other = await make_group(installation, "a"), await make_group(installation, "b")
    theirs = [(await make_provider(installation, group.id))[0].id for _ in range(2)]
    kept, _ = await make_provider(installation, other.id)
    gone = await do(installation, lambda tx: manage.delete_group(tx, group.id, author=OPERATOR, now=NOW))
    assert gone == sorted(theirs)
    async with installation.db.reading() as tx:
        assert [row.id for row in await store.list_providers(tx, None)] == [kept.id]
        for provider_id in theirs:
            with pytest.raises(ProviderNotFound):
                await manage.get_provider(tx, installation.vault, None, provider_id, author=OPERATOR)
        with pytest.raises(GroupNotFound):
            await manage.list_providers(tx, installation.vault, group.id, author=OPERATOR)
    with pytest.raises(GroupNotFound):
        await do(installation, lambda tx: manage.delete_group(tx, group.id, author=OPERATOR, now=NOW))


async def test_a_new_provider_is_active_and_signs_with_the_secret_shown(installation: Installation) -> None:
    group = await make_group(installation)
    provider, secret = await make_provider(installation, group.id)
    assert (provider.group_id, provider.organization_id) == (group.id, group.organization_id)
    assert (provider.state, provider.version, provider.rate_limit) == (ProviderState.ACTIVE, 1, None)
    assert provider.live_secrets(NOW_MS) == (secret,)
    assert provider.config == FIELDS


async def test_every_problem_of_a_new_provider_is_named(installation: Installation) -> None:
    group = await make_group(installation)
    spec = ProviderSpec(type="Webhook", name=" ", fields={"server_url": "x"}, rate_limit=5000)
    with pytest.raises(InvalidParameters) as refused:
        async with installation.db.transaction() as tx:
            await manage.create_provider(tx, installation.vault, group.id, spec, most=9, author=OPERATOR, now=NOW)
    fields = {error.field for error in refused.value.errors}
    assert fields == {"name", "server_url", "request_method", "rate_limit"}
    with pytest.raises(InvalidParameters, match="type"):
        async with installation.db.transaction() as tx:
            unknown = replace(spec, type="Pigeon")
            await manage.create_provider(tx, installation.vault, group.id, unknown, most=9, author=OPERATOR, now=NOW)


async def test_a_group_has_no_more_providers_than_it_may(installation: Installation) -> None:
    group = await make_group(installation)
    first, _ = await make_provider(installation, group.id, most=1)
    with pytest.raises(ProviderConflict, match="as many providers as it may have: 1"):
        await make_provider(installation, group.id, most=1)
    await do(installation, lambda tx: manage.delete_provider(tx, group.id, first.id, author=OPERATOR, now=NOW))
    await make_provider(installation, group.id, most=1)


async def test_only_what_is_given_changes(installation: Installation) -> None:
    made, _ = await make_provider(installation, (await make_group(installation)).id)
    renamed = await change(installation, made, name="Other", type="Webhook")
    assert renamed == replace(made, name="Other", changed_at=NOW + HOUR)
    limited = await change(installation, made, rate_limit=5)
    assert (limited.rate_limit, limited.version) == (5, 1)
    assert (await change(installation, made, rate_limit=0)).rate_limit is None
    moved = await change(installation, made, server_url="https://receiver.example/other")
    assert (moved.config, moved.version) == (FIELDS | {"server_url": "https://receiver.example/other"}, 2)
    assert moved.secrets == made.secrets


async def test_a_masked_header_keeps_its_value(installation: Installation) -> None:
    made, _ = await make_provider(installation, (await make_group(installation)).id)
    headers = [{"key": "X-New", "value": "1"}, {"key": "authorization", "value": MASK}]
    changed = await change(installation, made, request_headers=headers)
    assert changed.config["request_headers"] == [headers[0], {"key": "authorization", "value": TOKEN}]


KEEPING = [{"key": "Authorization", "value": MASK}]


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"type": "Pigeon"}, "type"),
        ({"name": ""}, "name"),
        ({"rate_limit": -1}, "rate_limit"),
        ({"server_url": "x"}, "server_url"),
        ({"server_url": "https://other.example/"}, "request_headers"),
        ({"server_url": "https://other.example/", "request_headers": KEEPING}, "request_headers[0].value"),
        ({"request_headers": [{"key": "X", "value": MASK}]}, "request_headers[0].value"),
        ({"colour": "red"}, "colour"),
    ],
)
async def test_a_bad_change_is_named_and_changes_nothing(
    installation: Installation, changes: dict[str, Any], field: str
) -> None:
    made, _ = await make_provider(installation, (await make_group(installation)).id)
    with pytest.raises(InvalidParameters) as refused:
        await change(installation, made, **changes)
    assert [error.field for error in refused.value.errors] == [field]
    async with installation.db.reading() as tx:
        assert await manage.get_provider(tx, installation.vault, None, made.id, author=OPERATOR) == made


async def test_a_rotated_secret_signs_beside_the_old_one_for_a_day(installation: Installation) -> None:
    made, first = await make_provider(installation, (await make_group(installation)).id)
    rotated, second = await rotate(installation, made, after=timedelta(0))
    assert rotated.version == made.version + 1
    assert rotated.live_secrets(NOW_MS) == (second, first)
    assert rotated.live_secrets(NOW_MS + DAY_MS - 1) == (second, first)
    assert rotated.live_secrets(NOW_MS + DAY_MS) == (second,)


async def test_no_more_than_two_secrets_are_ever_live(installation: Installation) -> None:
    made, first = await make_provider(installation, (await make_group(installation)).id)
    _, second = await rotate(installation, made, after=timedelta(0))
    rotated, third = await rotate(installation, made, after=HOUR)
    assert rotated.live_secrets(NOW_MS + 3_600_000) == (third, second)
    assert first not in [secret.secret for secret in rotated.secrets]


async def test_resuming_makes_a_provider_well(installation: Installation) -> None:
    made, _ = await make_provider(installation, (await make_group(installation)).id)
    ill = {name: 9 for name in ("failures", "failed_attempts", "openings", "open_until_ms", "waits_until_ms")}
    kept = {"failing_since_ms": 9, "last_success_ms": 7, "last_failure_ms": 8, "next_slot_us": 6}
    disabled = {"state": "disabled", "state_reason": "it only failed", "recent": "[[1, 20, 20]]"}
    await do(installation, lambda tx: store.change_provider(tx, made.id, ill | kept | disabled))
    resumed: Provider = await do(
        installation,
        lambda tx: manage.resume(tx, installation.vault, made.group_id, made.id, author=OPERATOR, now=NOW),
    )
    assert (resumed.state, resumed.state_reason) == (ProviderState.ACTIVE, None)
    assert resumed.health == Health(last_success_ms=7, last_failure_ms=8, next_slot_us=6)
    (row,) = await do(installation, lambda tx: store.list_providers(tx, made.organization_id))
    assert row.recent == store.NOTHING


async def test_a_paused_provider_keeps_its_health(installation: Installation) -> None:
    made, _ = await make_provider(installation, (await make_group(installation)).id)
    await do(installation, lambda tx: store.change_provider(tx, made.id, {"failures": 3}))
    paused: Provider = await do(
        installation,
        lambda tx: manage.pause(tx, installation.vault, made.group_id, made.id, author=OPERATOR, now=NOW),
    )
    assert (paused.state, paused.health.failures, paused.version) == (ProviderState.PAUSED, 3, made.version)


async def test_what_is_not_there_is_named_by_what_is_missing(installation: Installation) -> None:
    group, other = await make_group(installation, "a"), await make_group(installation, "b")
    provider, _ = await make_provider(installation, group.id)
    strangers = Author(Actor("client:x"), await another_organization(installation))
    vault = installation.vault
    absent: list[tuple[str | None, str, Author, type[Exception]]] = [
        (group.id, new_id("prv"), OPERATOR, ProviderNotFound),
        (group.id, "\x00", OPERATOR, ProviderNotFound),
        (other.id, provider.id, OPERATOR, ProviderNotFound),
        (new_id("grp"), provider.id, OPERATOR, GroupNotFound),
        (group.id, provider.id, strangers, GroupNotFound),
        (None, provider.id, strangers, ProviderNotFound),
    ]
    for group_id, provider_id, author, kind in absent:
        with pytest.raises(kind):
            async with installation.db.transaction() as tx:
                await manage.get_provider(tx, vault, group_id, provider_id, author=author)
        for attempt in (manage.pause, manage.resume, manage.rotate_signing_secret):
            with pytest.raises(kind):
                async with installation.db.transaction() as tx:
                    await attempt(tx, vault, group_id, provider_id, author=author, now=NOW)
        with pytest.raises(kind):
            async with installation.db.transaction() as tx:
                await manage.delete_provider(tx, group_id, provider_id, author=author, now=NOW)


async def test_every_change_is_in_the_audit_trail_and_no_secret_is(installation: Installation) -> None:
    group = await make_group(installation)
    provider, secret = await make_provider(installation, group.id)
    await change(installation, provider, server_url="https://receiver.example/?token=very-secret-query", name="n")
    _, second = await rotate(installation, provider, after=HOUR)
    async with installation.db.transaction() as tx:
        vault = installation.vault
        await manage.pause(tx, vault, group.id, provider.id, author=OPERATOR, now=NOW)
        await manage.resume(tx, vault, group.id, provider.id, author=OPERATOR, now=NOW)
        await manage.delete_provider(tx, group.id, provider.id, author=OPERATOR, now=NOW)
        await manage.rename_group(tx, group.id, "other", author=OPERATOR, now=NOW)
        await manage.delete_group(tx, group.id, author=OPERATOR, now=NOW)
    async with installation.db.reading() as tx:
        of_group, of_provider = [await read_trail(tx, subject=id) for id in (group.id, provider.id)]
        trail = repr([tuple(row) for row in await tx.execute(select(audit))])
        owners = {row.organization_id for row in await tx.execute(select(audit))}
    assert [entry.action for entry in reversed(of_group)] == ["group.created", "group.renamed", "group.deleted"]
    assert [entry.action.removeprefix("provider.") for entry in reversed(of_provider)] == [
        "created",
        "changed",
        "signing-secret-rotated",
        "paused",
        "resumed",
        "deleted",
    ]
    assert of_provider[-2].detail == {"name": "n", "fields": ["name", "server_url"]}
    assert owners == {group.organization_id}
    for hidden in (secret, second, TOKEN, "very-secret-query", "receiver.example"):
        assert hidden not in trail
