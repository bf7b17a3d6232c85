"""The master key is rotated: all is readable under the new one and nothing under the old, whenever it was killed."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import SecretStr
from sqlalchemy import select

from billhook.accounts import keyring, sessions
from billhook.accounts.audit import Actor, read_trail
from billhook.accounts.installation import open_installation
from billhook.accounts.keyring import kept_secrets, outdated, read_standing
from billhook.accounts.organizations import find_organization
from billhook.accounts.users import Role, create_user
from billhook.app import App, running_app
from billhook.auth.keystore import reseal_keys, signing_keys
from billhook.cli import rotation
from billhook.cli.rotation import rotate_master
from billhook.errors import Refusal
from billhook.groups import store
from billhook.groups.store import providers
from billhook.settings import Settings
from billhook.storage.database import Database, Transaction, open_database
from billhook.storage.master_key import next_file, previous_file
from billhook.storage.types import metadata
from billhook.storage.vault import Vault, WrongKey
from billhook.storage.watch import watching
from tests.cli.conftest import Billhook
from tests.support import BASE_URL, Registered, bearer, register, token_for

OLD, NEW, THIRD = ("old" * 12, "new" * 12, "third" * 8)
ACTOR = Actor("cli:test")


def with_keys(location: str, folder: Path, key: str = "", other: str = "") -> Settings:
    return Settings(
        data_dir=folder,
        database_url=SecretStr(location),
        base_url=BASE_URL,
        master_key=SecretStr(key),
        other_master_key=SecretStr(other),
    )


@pytest.fixture
def old(location: str, tmp_path: Path) -> Settings:
    return with_keys(location, tmp_path, OLD)


@pytest.fixture
def both(location: str, tmp_path: Path) -> Settings:
    return with_keys(location, tmp_path, NEW, OLD)


@pytest.fixture
def new(location: str, tmp_path: Path) -> Settings:
    return with_keys(location, tmp_path, NEW)


@asynccontextmanager
async def serving(settings: Settings) -> AsyncIterator[tuple[App, httpx.AsyncClient]]:
    async with open_installation(settings) as installation, running_app(installation, with_worker=False) as app:
        transport = httpx.ASGITransport(app.asgi, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url=BASE_URL) as http:
            yield app, http


async def add_provider(http: httpx.AsyncClient, headers: dict[str, str], name: str = "Ops") -> dict[str, Any]:
    group = (await http.post("/api/v1/groups", json={"name": name}, headers=headers)).json()
    body: dict[str, Any] = {
        "type": "Webhook",
        "name": name,
        "server_url": "https://example.com/",
        "request_method": "POST",
    }
    body |= {"request_headers": [{"key": "X-Key", "value": "hunter2"}]}
    path = f"/api/v1/groups/{group['data']['id']}/providers"
    made = await http.post(path, json=body, headers=headers)
    assert made.status_code == 201, made.text
    return {"path": f"{path}/{made.json()['data']['id']}", **made.json()["data"]}


async def populate(settings: Settings) -> tuple[Registered, str]:
    """A client, a token and a provider, made under that key."""
    async with open_installation(settings) as installation:
        robot = await register(installation)
    async with serving(settings) as (_, http):
        token = await token_for(http, robot)
        await add_provider(http, bearer(token))
    return robot, token


async def sealed_values(settings: Settings) -> list[tuple[bytes, str]]:
    """Everything that is stored encrypted, each with the context that belongs to it."""
    db = open_database(settings.database_location)
    try:
        async with db.reading() as tx:
            keys = [(row.private_key, f"signing key {row.kid}") for row in await tx.execute(select(signing_keys))]
            found = (await tx.execute(select(providers).where(providers.c.deleted_at.is_(None)))).all()
            kept = [(row.sealed, f"kept secret {row.purpose}") for row in await tx.execute(select(kept_secrets))]
    finally:
        await db.close()
    configs = [(row.config, f"provider {row.id} config") for row in found]
    return keys + configs + [(row.signing_secrets, f"provider {row.id} signing") for row in found] + kept


def opens(key: str, values: list[tuple[bytes, str]]) -> list[bool]:
    def can(sealed: bytes, context: str) -> bool:
        try:
            Vault(key).decrypt(sealed, context=context)
        except WrongKey:
            return False
        return True

    return [can(sealed, context) for sealed, context in values]


async def test_all_opens_under_the_new_key_and_nothing_under_the_old(old: Settings, both: Settings) -> None:
    await populate(old)
    done = await rotate_master(both, actor=ACTOR)
    assert (done.signing_keys, done.providers, done.was_done) == (1, 1, False)
    values = await sealed_values(both)
    assert len(values) == 1 + 2 + 1
    assert opens(NEW, values) == [True] * len(values)
    assert opens(OLD, values) == [False] * len(values)


async def test_every_column_of_bytes_is_one_that_is_rotated_or_a_digest() -> None:
    """A table that learns to hold something encrypted must be taken into the rotation."""
    binary = {
        f"{table.name}.{column.name}"
        for table in metadata.tables.values()
        for column in table.columns
        if column.type.python_type is bytes
    }
    rotated = {"signing_keys.private_key", "providers.config", "providers.signing_secrets", "kept_secrets.sealed"}
    assert binary == rotated | {"client_secrets.digest"}


async def test_secrets_tokens_and_signatures_go_on(old: Settings, both: Settings, new: Settings) -> None:
    robot, token = await populate(old)
    async with open_installation(old) as before, before.db.reading() as tx:
        signed_with = await secrets_of_providers(tx, before.vault)
    await rotate_master(both, actor=ACTOR)
    async with open_installation(new) as after:
        async with after.db.reading() as tx:
            assert await secrets_of_providers(tx, after.vault) == signed_with
        newer = await register(after, name="newer")
    async with serving(new) as (_, http):
        assert (await http.get("/api/v1/clients", headers=bearer(token))).status_code == 200
        assert await token_for(http, robot)
        assert await token_for(http, newer)


async def secrets_of_providers(tx: Transaction, vault: Vault) -> list[Any]:
    opened = [store.open_provider(vault, row) for row in await store.list_providers(tx, None)]
    return [(each.secrets, each.config) for each in opened]


async def test_a_second_rotation_keeps_the_first_pepper(
    old: Settings, both: Settings, location: str, tmp_path: Path
) -> None:
    robot, _ = await populate(old)
    await rotate_master(both, actor=ACTOR)
    await rotate_master(with_keys(location, tmp_path, THIRD, NEW), actor=ACTOR)
    values = await sealed_values(both)
    assert opens(THIRD, values) == [True] * len(values)
    assert opens(NEW, values) == [False] * len(values)
    async with serving(with_keys(location, tmp_path, THIRD)) as (_, http):
        assert (await http.post("/auth", json=robot.credentials)).status_code == 201


async def test_processes_with_both_keys_serve_before_while_and_after(
    old: Settings, both: Settings, location: str, tmp_path: Path
) -> None:
    """In the order of the how-to: all read both and write the old; then all write the new; then it is rotated."""
    robot, token = await populate(old)
    headers = bearer(token)
    async with (
        serving(with_keys(location, tmp_path, OLD, NEW)) as (_, first),
        serving(both) as (_, second),
    ):
        of_first, of_second = await add_provider(first, headers, "First"), await add_provider(second, headers, "Second")
        for http in (first, second):
            for made in (of_first, of_second):
                assert (await http.get(made["path"], headers=headers)).status_code == 200
        await rotate_master(both, actor=ACTOR)
        for http in (first, second):
            for made in (of_first, of_second):
                assert (await http.get(made["path"], headers=headers)).status_code == 200
            assert (await http.post("/auth", json=robot.credentials)).status_code == 201
    values = await sealed_values(both)
    assert opens(NEW, values) == [True] * len(values)


class Killed(Exception):
    """Stands for the end of the process at that point."""


Step = Callable[..., Awaitable[Any]]


def killed_after(step: Step, calls: int) -> Step:
    left = calls

    async def once_more(*given: Any, **named: Any) -> Any:
        nonlocal left
        if left == 0:
            raise Killed
        left -= 1
        return await step(*given, **named)

    return once_more


@pytest.mark.parametrize(("step", "calls"), [("reseal_keys", 0), ("reseal_providers", 0), ("reseal_providers", 1)])
async def test_killed_in_the_middle_it_is_run_again(
    old: Settings, both: Settings, new: Settings, step: str, calls: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    robot, token = await populate(old)
    async with serving(old) as (_, http):
        await add_provider(http, bearer(token), "Another")
    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(rotation, "STEP", 1)
        patch.setattr(rotation, step, killed_after(getattr(rotation, step), calls))
        await rotate_master(both, actor=ACTOR)
    for half in (old, new):
        with pytest.raises(Refusal, match="is being rotated, and one of the two keys is not here"):
            async with open_installation(half):
                pass
    async with serving(both) as (_, http):  # with both keys all goes on meanwhile
        assert (await http.post("/auth", json=robot.credentials)).status_code == 201
        assert (await http.get("/api/v1/groups", headers=bearer(token))).status_code == 200
    await rotate_master(both, actor=ACTOR)
    values = await sealed_values(both)
    assert opens(NEW, values) == [True] * len(values)
    async with serving(new) as (_, http):
        assert (await http.post("/auth", json=robot.credentials)).status_code == 201


async def test_what_is_under_way_is_finished_with_the_same_key(
    old: Settings, both: Settings, location: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await populate(old)
    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(rotation, "reseal_keys", killed_after(reseal_keys, 0))
        await rotate_master(both, actor=ACTOR)
    with pytest.raises(Refusal, match="a rotation to another master key is under way"):
        await rotate_master(with_keys(location, tmp_path, THIRD, OLD), actor=ACTOR)
    with pytest.raises(Refusal, match="a rotation to another master key is under way"):
        await rotate_master(with_keys(location, tmp_path, OLD, NEW), actor=ACTOR)


@pytest.mark.parametrize(
    ("key", "other", "words"),
    [
        (NEW, "", "there is but one master key here"),
        (OLD, "", "there is but one master key here"),
        (OLD, OLD, "there is but one master key here"),
        (NEW, THIRD, "neither of the two master keys is the one"),
        (NEW, "short", "BILLHOOK_OTHER_MASTER_KEY: .* at least 32 characters"),
        ("short", OLD, "BILLHOOK_MASTER_KEY: .* at least 32 characters"),
    ],
)
async def test_wrong_keys_are_refused_and_nothing_is_changed(
    old: Settings, location: str, tmp_path: Path, key: str, other: str, words: str
) -> None:
    await populate(old)
    before = await sealed_values(old)
    with pytest.raises(Refusal, match=words):
        await rotate_master(with_keys(location, tmp_path, key, other), actor=ACTOR)
    assert await sealed_values(old) == before
    async with open_installation(old) as installation, installation.db.reading() as tx:
        assert await read_standing(tx) == keyring.Standing(Vault(OLD).fingerprint, None)


async def test_keys_the_wrong_way_round_change_nothing_and_are_told(
    old: Settings, location: str, tmp_path: Path
) -> None:
    await populate(old)
    done = await rotate_master(with_keys(location, tmp_path, OLD, NEW), actor=ACTOR)
    assert done.was_done
    values = await sealed_values(old)
    assert opens(OLD, values) == [True] * len(values)


async def test_what_a_straggler_wrote_under_the_old_key_is_found_by_running_it_again(
    old: Settings, both: Settings
) -> None:
    _, token = await populate(old)
    async with serving(old) as (_, straggler):
        await rotate_master(both, actor=ACTOR)
        await add_provider(straggler, bearer(token), "Late")
    assert False in opens(NEW, await sealed_values(both))
    assert (await rotate_master(both, actor=ACTOR)).was_done
    values = await sealed_values(both)
    assert opens(NEW, values) == [True] * len(values)


async def test_who_is_signed_in_stays_signed_in(old: Settings, both: Settings, new: Settings) -> None:
    now = datetime.now(UTC)
    async with open_installation(old) as installation, installation.db.transaction() as tx:
        owner = await find_organization(tx, None)
        given: dict[str, Any] = {"email": "ada@example.com", "password_hash": "-", "role": Role.ADMIN}
        user = await create_user(tx, owner.id, **given, actor=ACTOR, now=now)
        token = await sessions.begin(tx, user, address="192.0.2.1", agent="", now=now)
    await rotate_master(both, actor=ACTOR)
    async with open_installation(new) as installation, installation.db.reading() as tx:
        found = await sessions.find(tx, token, now=now)
    assert found is not None
    assert found[1].id == user.id


@pytest.mark.parametrize("other", ["", NEW])
async def test_a_process_that_still_writes_under_the_old_key_is_stopped(
    old: Settings, both: Settings, location: str, tmp_path: Path, other: str
) -> None:
    await populate(old)
    stopped = asyncio.Event()
    async with open_installation(with_keys(location, tmp_path, OLD, other)) as running:
        reason = outdated(running.vault, running.standing)
        async with watching(running.db, stopped.set, also=reason, every_seconds=0.01) as watch:
            await rotate_master(both, actor=ACTOR)
            await stopped.wait()
    with pytest.raises(Refusal, match="was rotated, and this process works with the old one"):
        watch.refuse_if_outgrown()


async def test_a_process_that_writes_under_the_new_key_goes_on(old: Settings, both: Settings) -> None:
    await populate(old)
    async with open_installation(both) as running:
        reason = outdated(running.vault, running.standing)
        async with running.db.reading() as tx:
            assert await reason(tx) is None
        await rotate_master(both, actor=ACTOR)
        async with running.db.reading() as tx:
            assert await reason(tx) is None


async def test_it_is_in_the_audit_trail(old: Settings, both: Settings) -> None:
    await populate(old)
    await rotate_master(both, actor=ACTOR)
    async with open_installation(both) as installation, installation.db.reading() as tx:
        entries = await read_trail(tx, subject=keyring.SUBJECT)
    assert [(entry.actor, entry.action) for entry in entries] == [
        ("cli:test", "master-key.rotated"),
        ("cli:test", "master-key.rotation-begun"),
    ]
    assert entries[0].detail == {"signing_keys": 1, "providers": 1}


async def test_nothing_is_rotated_where_nothing_is(both: Settings) -> None:
    with pytest.raises(Refusal, match="there is nothing to rotate yet"):
        await rotate_master(both, actor=ACTOR)


@pytest.mark.parametrize("command", [("api", "--port", "0"), ("worker",), ("serve", "--port", "0"), ("client", "list")])
def test_whoever_starts_with_the_old_key_is_told_in_one_line(
    on_engine: Billhook, command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BILLHOOK_MASTER_KEY", OLD)
    on_engine.json("client", "list")
    monkeypatch.setenv("BILLHOOK_MASTER_KEY", NEW)
    monkeypatch.setenv("BILLHOOK_OTHER_MASTER_KEY", OLD)
    assert on_engine.json("keys", "rotate-master")["was_done"] is False
    monkeypatch.setenv("BILLHOOK_MASTER_KEY", OLD)
    monkeypatch.delenv("BILLHOOK_OTHER_MASTER_KEY")
    ran = on_engine(*command)
    assert ran.status == 1
    assert [line for line in ran.err.splitlines() if line.startswith("billhook: ")] == [
        "billhook: the master key is not the one this database was made with: what it holds cannot be read"
    ]


def test_a_key_in_a_file_is_followed_by_the_next_file(on_engine: Billhook, data_dir: Path) -> None:
    made = on_engine.json("client", "create", "--name", "Reports", "--scope", "notifications:send")
    before = (data_dir / "master.key").read_text()
    ran = on_engine("keys", "rotate-master")
    assert ran.status == 0, ran
    previous = data_dir / "master.key.previous"
    assert f"delete {previous}" in ran.out
    assert previous.read_text() == before
    assert (data_dir / "master.key").read_text() != before
    assert (data_dir / "master.key").stat().st_mode & 0o777 == 0o600
    assert not (data_dir / "master.key.next").exists()
    previous.unlink()
    assert on_engine.json("client", "list")[0]["client_id"] == made["client_id"]


@pytest.mark.parametrize("files_were_moved", ["none", "one", "both"])
async def test_killed_between_files_and_database_it_is_run_again(
    location: str, tmp_path: Path, files_were_moved: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = with_keys(location, tmp_path)
    await populate(settings)
    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(keyring, "finish", killed_after(keyring.finish, 0))
        await rotate_master(settings, actor=ACTOR)
    key, previous, following = settings.master_key_file, previous_file(settings), next_file(settings)
    if files_were_moved != "both":
        key.rename(following)
    if files_were_moved == "none":
        previous.rename(key)
    async with open_installation(settings):  # whoever starts meanwhile finds both
        pass
    await rotate_master(settings, actor=ACTOR)
    assert key.exists()
    assert not following.exists()
    previous.unlink()
    values = await sealed_values(settings)
    assert opens(key.read_text().strip(), values) == [True] * len(values)


async def test_rotations_at_once_end_in_one_state(old: Settings, both: Settings, new: Settings) -> None:
    await populate(old)
    await asyncio.gather(*(rotate_master(both, actor=ACTOR) for _ in range(3)))
    values = await sealed_values(both)
    assert opens(NEW, values) == [True] * len(values)
    async with open_installation(new) as installation:
        assert await standing_of(installation.db) == keyring.Standing(Vault(NEW).fingerprint, None)


async def standing_of(db: Database) -> keyring.Standing | None:
    async with db.reading() as tx:
        return await read_standing(tx)


def test_the_command_says_what_to_do_next(on_engine: Billhook, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BILLHOOK_MASTER_KEY", OLD)
    on_engine.json("client", "list")
    refused = on_engine("keys", "rotate-master")
    assert refused.status == 1
    assert "set BILLHOOK_MASTER_KEY to the new key" in refused.err
    monkeypatch.setenv("BILLHOOK_MASTER_KEY", NEW)
    monkeypatch.setenv("BILLHOOK_OTHER_MASTER_KEY", OLD)
    assert "Restart whatever serves without BILLHOOK_OTHER_MASTER_KEY" in on_engine("keys", "rotate-master").out
    again = on_engine("keys", "rotate-master")
    assert "was the master key already" in again.out
    assert NEW not in again.out + refused.err
