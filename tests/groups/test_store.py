"""SQL of groups and providers: what is found, in which order, and what is readable in the database."""

from dataclasses import replace

import pytest
from sqlalchemy import select, update

from billhook.accounts.installation import Installation
from billhook.groups import store
from billhook.groups.model import Group, Health, Provider, SigningSecret
from billhook.groups.store import groups, providers
from billhook.storage.ids import new_id
from billhook.storage.vault import WrongKey
from tests.groups.setting import NOW, TOKEN, URL, make_group, make_provider
from tests.support import another_organization


async def test_a_group_is_found_by_its_id_and_by_its_exact_name(installation: Installation) -> None:
    group = await make_group(installation, "Ops team")
    owner = group.organization_id
    async with installation.db.reading() as tx:
        assert await store.find_group(tx, group.id, owner) == group
        assert await store.find_group(tx, group.id, None) == group
        assert await store.find_group_by_name(tx, "Ops team", owner) == group
        assert await store.find_group_by_name(tx, "ops team", owner) is None
        assert await store.find_group(tx, new_id("grp"), owner) is None
        assert await store.find_group(tx, "\x00", owner) is None


async def test_another_organizations_are_as_good_as_absent(installation: Installation) -> None:
    elsewhere = await another_organization(installation)
    group = await make_group(installation)
    provider, _ = await make_provider(installation, group.id)
    async with installation.db.reading() as tx:
        assert await store.find_group(tx, group.id, elsewhere) is None
        assert await store.find_group_by_name(tx, group.name, elsewhere) is None
        assert await store.list_groups(tx, elsewhere) == []
        assert await store.count_groups(tx, elsewhere) == 0
        assert await store.find_provider(tx, provider.id, elsewhere) is None
        assert await store.list_providers(tx, elsewhere) == []


async def test_lists_come_newest_first_and_go_on_after_the_last_one_seen(installation: Installation) -> None:
    made = [await make_group(installation, name) for name in ("a", "b", "c")]
    group = made[0]
    added = [(await make_provider(installation, group.id, name=name))[0].id for name in ("x", "y", "z")]
    await make_provider(installation, made[1].id)
    owner = group.organization_id
    async with installation.db.reading() as tx:
        assert await store.list_groups(tx, owner, limit=2) == [made[2], made[1]]
        assert await store.list_groups(tx, owner, after=made[1].id, limit=2) == [made[0]]
        rows = await store.list_providers(tx, owner, group_id=group.id, limit=2)
        assert [row.id for row in rows] == [added[2], added[1]]
        rest = await store.list_providers(tx, owner, group_id=group.id, after=added[1])
        assert [row.id for row in rest] == [added[0]]
        assert len(await store.list_providers(tx, None)) == 4
        assert (await store.count_groups(tx, owner), await store.count_providers(tx, group.id)) == (3, 3)


async def test_what_is_deleted_is_not_found_and_keeps_no_secret(installation: Installation) -> None:
    group = await make_group(installation)
    provider, _ = await make_provider(installation, group.id)
    async with installation.db.transaction() as tx:
        assert await store.delete_providers(tx, providers.c.group_id == group.id, now=NOW) == [provider.id]
        await store.change_group(tx, group.id, {"deleted_at": NOW})
    async with installation.db.transaction() as tx:
        assert await store.delete_providers(tx, providers.c.group_id == group.id, now=NOW) == []
        assert await store.find_group(tx, group.id, None) is None
        assert await store.find_group_by_name(tx, group.name, group.organization_id) is None
        assert await store.list_groups(tx, None) == []
        assert await store.count_groups(tx, group.organization_id) == 0
        assert await store.find_provider(tx, provider.id, None) is None
        assert await store.list_providers(tx, None) == []
        assert await store.count_providers(tx, group.id) == 0
        row = (await tx.execute(select(providers))).one()
    assert (row.config, row.signing_secrets, row.deleted_at, row.name) == (b"", b"", NOW, "Pager")
    assert store.open_provider(installation.vault, row).config == {}


async def test_a_name_is_free_again_after_its_group_is_deleted(installation: Installation) -> None:
    group = await make_group(installation)
    async with installation.db.transaction() as tx:
        await store.change_group(tx, group.id, {"deleted_at": NOW})
    assert (await make_group(installation)).id != group.id


async def test_a_provider_comes_back_as_it_was(installation: Installation) -> None:
    group = await make_group(installation)
    made, _ = await make_provider(installation, group.id)
    secrets = (SigningSecret("whsec_bmV3", None), SigningSecret("whsec_b2xk", 5))
    health = Health(1, 2, 3, 4, 5, 6, 7, 8, 9)
    provider = replace(made, id=new_id("prv"), secrets=secrets, rate_limit=7, health=health, state_reason="why")
    async with installation.db.transaction() as tx:
        await store.insert_provider(tx, installation.vault, provider)
        row = await store.find_provider(tx, provider.id, group.organization_id, group_id=group.id)
    assert row is not None
    assert store.open_provider(installation.vault, row) == provider
    assert store.health_of(row) == health


async def test_a_new_row_is_well(installation: Installation) -> None:
    group = await make_group(installation)
    provider, _ = await make_provider(installation, group.id)
    assert provider.health == Health()


async def test_nothing_of_the_settings_or_secrets_is_readable_in_the_row(installation: Installation) -> None:
    group = await make_group(installation)
    provider, secret = await make_provider(installation, group.id)
    async with installation.db.reading() as tx:
        row = (await tx.execute(select(providers))).one()
    stored = b"".join(value if isinstance(value, bytes) else str(value).encode() for value in row)
    for hidden in (secret, TOKEN, "receiver.example", "very-secret-query"):
        assert hidden.encode() not in stored
    assert URL not in repr(provider)
    assert secret not in repr(provider)


async def test_what_is_sealed_for_one_provider_cannot_be_read_as_anothers(installation: Installation) -> None:
    group = await make_group(installation)
    one, two = [(await make_provider(installation, group.id))[0] for _ in range(2)]

    async def moved(column: str, source: Provider) -> None:
        async with installation.db.transaction() as tx:
            taken = (await tx.execute(select(providers.c[column]).where(providers.c.id == source.id))).scalar_one()
            await tx.execute(update(providers).where(providers.c.id == two.id).values({column: taken}))
            row = await store.find_provider(tx, two.id, None)
            assert row is not None
            store.open_provider(installation.vault, row)

    for column in ("config", "signing_secrets"):
        with pytest.raises(WrongKey):
            await moved(column, one)


async def test_two_groups_of_a_name_cannot_be_stored(installation: Installation) -> None:
    group = await make_group(installation)
    twin = Group(new_id("grp"), group.organization_id, group.name, NOW)
    with pytest.raises(Exception, match="(?i)unique"):
        async with installation.db.transaction() as tx:
            await store.insert_group(tx, twin)
    async with installation.db.reading() as tx:
        assert len((await tx.execute(select(groups))).all()) == 1


async def test_the_newest_members_of_several_groups_come_at_once(installation: Installation) -> None:
    full, empty, other = [await make_group(installation, name) for name in ("Full", "Empty", "Other")]
    made = [(await make_provider(installation, full.id))[0] for _ in range(4)]
    await make_provider(installation, other.id)
    async with installation.db.transaction() as tx:
        await store.delete_providers(tx, providers.c.id == made[3].id, now=NOW)
    async with installation.db.reading() as tx:
        members = await store.list_members(tx, [full.id, empty.id], most=2)
    assert [(row.id, row.total) for row in members[full.id]] == [(made[2].id, 3), (made[1].id, 3)]
    assert members[empty.id] == []
    assert members.keys() == {full.id, empty.id}


async def test_no_groups_have_no_members(installation: Installation) -> None:
    async with installation.db.reading() as tx:
        assert await store.list_members(tx, [], most=2) == {}
