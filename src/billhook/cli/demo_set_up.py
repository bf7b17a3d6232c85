"""Put the people, API keys, groups and providers of the demo into an installation, by the functions that people use."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from billhook.accounts import invitations, users
from billhook.accounts.audit import Actor
from billhook.accounts.installation import Installation
from billhook.accounts.organizations import find_organization
from billhook.accounts.passwords import hash_aside
from billhook.accounts.users import Role
from billhook.auth import manage as clients
from billhook.auth import model
from billhook.auth.activity import Activity
from billhook.auth.manage import Author, ClientSpec
from billhook.cli import demo_data as data
from billhook.delivery import control
from billhook.groups import manage as groups
from billhook.groups.manage import ProviderSpec
from billhook.storage.database import Transaction

EMAIL = "demo@example.com"
NO_PASSWORD = "!"  # noqa: S105 - no hash of anything: nobody can sign in with it
GRACE = model.GRACES["24h"]


@dataclass(frozen=True)
class Placed:
    """A provider of the demo, and where it is in the installation."""

    sample: data.Provider
    id: str
    group_id: str


@dataclass(frozen=True)
class Placement:
    organization_id: str
    sender: str  # of the notifications, as the API names it
    group_ids: dict[str, str]  # by name
    providers: tuple[Placed, ...]


@dataclass(frozen=True)
class SetUp:
    """One transaction in which all is made, and who makes it."""

    tx: Transaction
    installation: Installation
    organization_id: str
    now: datetime

    @property
    def author(self) -> Author:
        return Author(Actor("cli:demo", self.organization_id), self.organization_id)

    def at(self, ago: timedelta, name: str) -> datetime:
        """About that long ago: not everything that people do is done at the same minute of the day."""
        return self.now - ago * random.Random(name).uniform(1.0, 1.02)


async def set_up(installation: Installation, *, password: str, receiver: str, now: datetime) -> Placement:
    """`receiver` is the address that the paths of the providers stand behind."""
    activity, password_hash = Activity(), await hash_aside(password)
    async with installation.db.transaction() as tx:
        work = SetUp(tx, installation, (await find_organization(tx, None)).id, now)
        await _add_people(work, password_hash)
        # The newest are listed first, so the first are made last.
        client_ids = {key.name: await _add_key(work, key, activity) for key in reversed(data.KEYS)}
        group_ids = {group.name: await _add_group(work, group) for group in reversed(data.GROUPS)}
        placed = [
            Placed(
                provider, await _add_provider(work, group_ids[group.name], provider, receiver), group_ids[group.name]
            )
            for group in data.GROUPS
            for provider in reversed(group.providers)
        ]
    await activity.flush(installation.db)
    return Placement(work.organization_id, f"client:{client_ids[data.PIPELINE]}", group_ids, tuple(placed))


async def _add_people(work: SetUp, password_hash: str) -> None:
    known = [(data.Person(EMAIL, Role.ADMIN, data.DAY), password_hash)]
    known += [(person, NO_PASSWORD) for person in data.PEOPLE]
    for person, hashed in known:
        await users.create_user(
            work.tx,
            work.organization_id,
            email=person.email,
            password_hash=hashed,
            role=person.role,
            actor=work.author.actor,
            now=work.at(person.age, person.email),
        )
    await invitations.invite(
        work.tx,
        work.organization_id,
        email=data.INVITED.email,
        role=data.INVITED.role,
        actor=work.author.actor,
        now=work.at(data.INVITED.age, data.INVITED.email),
    )


async def _add_key(work: SetUp, key: data.Key, activity: Activity) -> str:
    tx, author, vault = work.tx, work.author, work.installation.vault
    spec = ClientSpec(key.name, key.scopes, key.description, key.lifespan, model.parse_networks(key.networks))
    made = work.at(key.age, key.name)
    client, secret = await clients.create(
        tx, vault, spec, organization_id=work.organization_id, author=author, now=made
    )
    ended = work.now
    if key.rotated is not None:
        await clients.rotate(tx, vault, client.id, grace=GRACE, author=author, now=work.at(key.rotated, key.name))
    if key.revoked is not None:
        ended = work.at(key.revoked, key.name)
        await clients.revoke(tx, client.id, author=author, now=ended)
    for moment in uses(key, ended):
        activity.issued(client.id, secret.id, address=key.address, now=moment.timestamp())
    for refusal in key.refusals:
        moment = work.at(refusal.ago, key.name)
        for _ in range(refusal.times):
            activity.refused(client.id, refusal.reason, address=refusal.address, now=moment.timestamp())
    return client.id


def uses(key: data.Key, ended: datetime) -> Iterator[datetime]:
    """When it asked for tokens in the week before; the oldest first."""
    if key.every is None:
        return
    dice = random.Random(key.name)
    for back in reversed(range(7 * data.DAY // key.every)):
        yield ended - (back + dice.uniform(0.05, 0.3)) * key.every


async def _add_group(work: SetUp, group: data.Group) -> str:
    most = work.installation.settings.max_groups
    made = await groups.create_group(
        work.tx,
        group.name,
        organization_id=work.organization_id,
        most=most,
        author=work.author,
        now=work.at(60 * data.DAY, group.name),
    )
    return made.id


async def _add_provider(work: SetUp, group_id: str, provider: data.Provider, receiver: str) -> str:
    tx, author, vault = work.tx, work.author, work.installation.vault
    fields = {
        "server_url": receiver + provider.path,
        "request_method": provider.method,
        "request_headers": [{"key": key, "value": value} for key, value in provider.headers],
    }
    spec = ProviderSpec("Webhook", provider.name, fields, provider.rate_limit)
    most, made = work.installation.settings.max_providers, work.at(55 * data.DAY, provider.name)
    added, _ = await groups.create_provider(tx, vault, group_id, spec, most=most, author=author, now=made)
    if provider.paused is not None:
        await control.pause(tx, vault, group_id, added.id, author=author, now=work.at(provider.paused, provider.name))
    return added.id
