"""Providers from their rows, each decrypted once."""

from typing import Any

import pytest
from sqlalchemy import Row, select

from billhook.accounts.installation import Installation
from billhook.groups import manage, store
from billhook.groups.directory import Directory
from billhook.groups.store import providers
from billhook.storage.vault import Vault
from tests.groups.setting import NOW, make_group, make_provider
from tests.support import OPERATOR


class CountingVault(Vault):
    """The same vault, which counts how often it is opened."""

    def __init__(self, vault: Vault) -> None:
        self._vault, self.opened = vault, 0

    def decrypt(self, sealed: bytes, *, context: str) -> bytes:
        self.opened += 1
        return self._vault.decrypt(sealed, context=context)


@pytest.fixture
def vault(installation: Installation) -> CountingVault:
    return CountingVault(installation.vault)


async def rows(installation: Installation) -> list[Row[Any]]:
    async with installation.db.reading() as tx:
        return list((await tx.execute(select(providers).order_by(providers.c.id))).all())


async def test_a_row_is_decrypted_once(installation: Installation, vault: CountingVault) -> None:
    provider, _ = await make_provider(installation, (await make_group(installation)).id)
    directory, (row,) = Directory(vault), await rows(installation)
    assert [directory.open(row) for _ in range(3)] == [provider] * 3
    assert vault.opened == 2  # its config and its secrets


async def test_state_health_and_name_are_those_of_the_row(installation: Installation, vault: CountingVault) -> None:
    made, _ = await make_provider(installation, (await make_group(installation)).id)
    directory = Directory(vault)
    directory.open((await rows(installation))[0])
    async with installation.db.transaction() as tx:
        await store.change_provider(tx, made.id, {"failures": 3, "name": "other", "state": "disabled"})
    seen = directory.open((await rows(installation))[0])
    assert (seen.health.failures, seen.name, seen.state) == (3, "other", "disabled")
    assert vault.opened == 2


async def test_a_change_of_config_or_secrets_is_seen_with_its_row(installation: Installation) -> None:
    made, _ = await make_provider(installation, (await make_group(installation)).id)
    directory, (before,) = Directory(installation.vault), await rows(installation)
    directory.open(before)
    async with installation.db.transaction() as tx:
        vault, to = installation.vault, {"request_method": "GET"}
        changed = await manage.change_provider(tx, vault, None, made.id, to, author=OPERATOR, now=NOW)
    assert directory.open((await rows(installation))[0]) == changed
    async with installation.db.transaction() as tx:
        rotated, _ = await manage.rotate_signing_secret(tx, vault, None, made.id, author=OPERATOR, now=NOW)
    assert directory.open((await rows(installation))[0]) == rotated
    assert directory.open(before) == made


async def test_a_deleted_provider_is_open_and_empty(installation: Installation) -> None:
    made, _ = await make_provider(installation, (await make_group(installation)).id)
    directory = Directory(installation.vault)
    directory.open((await rows(installation))[0])
    async with installation.db.transaction() as tx:
        await manage.delete_provider(tx, None, made.id, author=OPERATOR, now=NOW)
    seen = directory.open((await rows(installation))[0])
    assert (seen.id, seen.config, seen.secrets, seen.deleted_at) == (made.id, {}, (), NOW)


async def test_the_one_not_used_for_longest_is_forgotten(installation: Installation, vault: CountingVault) -> None:
    group = await make_group(installation)
    for _ in range(3):
        await make_provider(installation, group.id)
    directory, (one, two, three) = Directory(vault, largest=2), await rows(installation)
    for row in (one, two, one, three):
        directory.open(row)
    assert vault.opened == 6
    directory.open(one)
    assert vault.opened == 6
    directory.open(two)
    assert vault.opened == 8
