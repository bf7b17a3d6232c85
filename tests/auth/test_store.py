"""Clients as they are looked for."""

import pytest

from billhook.accounts.installation import Installation
from billhook.auth.store import list_clients
from tests.support import another_organization, register

NAMES = ["Nightly report", "nightly import", "50% off", "a_b", "axb", "C:\\robots", "Ünïcode"]


async def names(installation: Installation, search: str) -> list[str]:
    async with installation.db.reading() as tx:
        return [client.name for client in await list_clients(tx, None, search=search)]


@pytest.mark.parametrize(
    ("search", "found"),
    [
        ("NIGHTLY", ["nightly import", "Nightly report"]),
        ("report", ["Nightly report"]),
        ("%", ["50% off"]),
        ("_b", ["a_b"]),
        ("\\", ["C:\\robots"]),
        ("/", []),
        ("nïc", ["Ünïcode"]),
        ("' OR 1=1 --", []),
        ("", NAMES[::-1]),
    ],
)
async def test_a_search_finds_a_part_of_the_name_to_the_letter(
    installation: Installation, search: str, found: list[str]
) -> None:
    for name in NAMES:
        await register(installation, name=name)
    assert await names(installation, search) == found


async def test_a_search_finds_a_client_by_its_id_and_by_a_part_of_it(installation: Installation) -> None:
    await register(installation, name="other")
    wanted = (await register(installation, name="wanted")).client
    for search in (wanted.id, wanted.id.upper(), wanted.id[-8:], wanted.id[-8:].upper()):
        assert await names(installation, search) == ["wanted"]


async def test_a_search_goes_on_after_the_last_one_seen_and_within_one_organization(installation: Installation) -> None:
    await register(installation, name="robot", organization_id=await another_organization(installation))
    ours = [(await register(installation, name=f"robot {number}")).client for number in range(3)]
    async with installation.db.reading() as tx:
        owner = ours[0].organization_id
        first = await list_clients(tx, owner, search="robot", limit=2)
        rest = await list_clients(tx, owner, search="robot", limit=2, after=first[-1].id)
    assert [client.name for client in first + rest] == ["robot 2", "robot 1", "robot 0"]
    assert all(len(client.secrets) == 1 for client in first + rest)
