"""The tables of groups and providers, and their SQL.

A deleted one stays as a row without its secrets, so that deliveries of its time can still say what they belong to.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from operator import attrgetter
from typing import Any

import orjson
from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    Row,
    Select,
    Table,
    Text,
    func,
    insert,
    select,
    text,
    update,
)

from billhook.groups.model import Group, Health, Provider, ProviderState, SigningSecret
from billhook.providers.kinds import Config
from billhook.storage.database import Transaction
from billhook.storage.ids import is_id
from billhook.storage.types import Moment, metadata
from billhook.storage.vault import Vault

groups = Table(
    "groups",
    metadata,
    Column("id", Text, primary_key=True),
    Column("organization_id", Text, ForeignKey("organizations.id"), nullable=False),
    Column("name", Text, nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("deleted_at", Moment),
    Index(
        "uq_groups_organization_id_name",
        "organization_id",
        "name",
        unique=True,
        sqlite_where=text("deleted_at IS NULL"),
        postgresql_where=text("deleted_at IS NULL"),
    ),
)

NOTHING = "[]"  # has happened in the last minute of a provider, or no failure

providers = Table(
    "providers",
    metadata,
    Column("id", Text, primary_key=True),
    Column("organization_id", Text, ForeignKey("organizations.id"), nullable=False),
    Column("group_id", Text, ForeignKey("groups.id"), nullable=False),
    Column("type", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("config", LargeBinary, nullable=False),  # all its settings, encrypted as a whole
    Column("signing_secrets", LargeBinary, nullable=False),  # encrypted as a whole
    Column("rate_limit", Integer),  # requests a second
    Column("version", Integer, nullable=False),  # moves with config and signing_secrets
    Column("state", Text, nullable=False),
    Column("state_reason", Text),
    Column("created_at", Moment, nullable=False),
    Column("changed_at", Moment, nullable=False),
    Column("deleted_at", Moment),
    # Its health, kept by whoever delivers. Moments are milliseconds of the database's clock.
    Column("failures", BigInteger, nullable=False, server_default="0"),  # in a row
    Column("failed_attempts", BigInteger, nullable=False, server_default="0"),  # since failing_since_ms
    Column("openings", BigInteger, nullable=False, server_default="0"),  # of the breaker, in a row
    Column("open_until_ms", BigInteger, nullable=False, server_default="0"),  # the breaker
    Column("waits_until_ms", BigInteger, nullable=False, server_default="0"),  # its Retry-After
    Column("next_slot_us", BigInteger, nullable=False, server_default="0"),  # its rate limit
    Column("failing_since_ms", BigInteger),
    Column("last_success_ms", BigInteger),
    Column("last_failure_ms", BigInteger),
    Column("recent", Text, nullable=False, server_default=NOTHING),  # its last minute, while there are failures in it
    Index("ix_providers_group_id", "group_id"),
)


async def insert_group(tx: Transaction, group: Group) -> None:
    await tx.execute(insert(groups).values(**asdict(group)))


async def find_group(tx: Transaction, group_id: str, organization_id: str | None) -> Group | None:
    """None as well when it is deleted, or another organization's. The operator passes no organization."""
    if not is_id(group_id):
        return None
    query = select(groups).where(groups.c.id == group_id, groups.c.deleted_at.is_(None))
    row = (await tx.execute(_of(query, groups, organization_id))).one_or_none()
    return _group(row) if row else None


async def find_group_by_name(tx: Transaction, name: str, organization_id: str) -> Group | None:
    query = select(groups).where(groups.c.name == name, groups.c.deleted_at.is_(None))
    row = (await tx.execute(_of(query, groups, organization_id))).one_or_none()
    return _group(row) if row else None


async def list_groups(
    tx: Transaction, organization_id: str | None, *, after: str | None = None, limit: int | None = None
) -> list[Group]:
    """The newest first; `after` is the id of the last one already seen."""
    query = _of(_page(groups, after, limit), groups, organization_id)
    return [_group(row) for row in await tx.execute(query)]


async def count_groups(tx: Transaction, organization_id: str) -> int:
    query = select(func.count()).select_from(groups).where(groups.c.deleted_at.is_(None))
    return int((await tx.execute(_of(query, groups, organization_id))).scalar_one())


async def change_group(tx: Transaction, group_id: str, values: Mapping[str, Any]) -> None:
    await tx.execute(update(groups).where(groups.c.id == group_id).values(**values))


async def insert_provider(tx: Transaction, vault: Vault, provider: Provider) -> None:
    await tx.execute(insert(providers).values(**provider_row(vault, provider)))


async def find_provider(
    tx: Transaction, provider_id: str, organization_id: str | None, *, group_id: str | None = None
) -> Row[Any] | None:
    """Its row, for `open_provider` or a Directory. None also for a deleted one, and for another organization's."""
    if not is_id(provider_id):
        return None
    query = select(providers).where(providers.c.id == provider_id, providers.c.deleted_at.is_(None))
    if group_id is not None:
        query = query.where(providers.c.group_id == group_id)
    row: Row[Any] | None = (await tx.execute(_of(query, providers, organization_id))).one_or_none()
    return row


async def list_providers(
    tx: Transaction,
    organization_id: str | None,
    *,
    group_id: str | None = None,
    after: str | None = None,
    limit: int | None = None,
) -> Sequence[Row[Any]]:
    """The newest first; `after` is the id of the last one already seen."""
    query = _page(providers, after, limit)
    if group_id is not None:
        query = query.where(providers.c.group_id == group_id)
    rows: Sequence[Row[Any]] = (await tx.execute(_of(query, providers, organization_id))).all()
    return rows


async def list_members(tx: Transaction, group_ids: Sequence[str], *, most: int) -> dict[str, Sequence[Row[Any]]]:
    """Of each group its newest providers, `most` of them, each row with `total`: how many the group has."""
    place = func.row_number().over(partition_by=providers.c.group_id, order_by=providers.c.id.desc()).label("place")
    total = func.count().over(partition_by=providers.c.group_id).label("total")
    is_theirs = (providers.c.group_id.in_(group_ids), providers.c.deleted_at.is_(None))
    ranked = select(providers.c.id, place, total).where(*is_theirs).subquery()
    query = select(providers, ranked.c.total).join(ranked, ranked.c.id == providers.c.id)
    members: dict[str, list[Row[Any]]] = {group_id: [] for group_id in group_ids}
    for row in await tx.execute(query.where(ranked.c.place <= most).order_by(providers.c.id.desc())):
        members[row.group_id].append(row)
    return dict(members)


async def count_providers(tx: Transaction, group_id: str) -> int:
    query = (
        select(func.count())
        .select_from(providers)
        .where(providers.c.group_id == group_id, providers.c.deleted_at.is_(None))
    )
    return int((await tx.execute(query)).scalar_one())


async def change_provider(tx: Transaction, provider_id: str, values: Mapping[str, Any]) -> None:
    await tx.execute(update(providers).where(providers.c.id == provider_id).values(**values))


async def delete_providers(tx: Transaction, *which: ColumnElement[bool], now: datetime) -> list[str]:
    """Their ids. The rows stay, without what was secret in them."""
    erased = {"config": b"", "signing_secrets": b"", "version": providers.c.version + 1}
    changed = update(providers).where(providers.c.deleted_at.is_(None), *which)
    done = await tx.execute(changed.values(**erased, deleted_at=now, changed_at=now).returning(providers.c.id))
    return sorted(done.scalars())


async def reseal_providers(tx: Transaction, vault: Vault, *, after: str, limit: int) -> list[str]:
    """Encrypt the next ones again, under the master key that the vault writes with. Their ids, in order.

    What they say stays, and so does their version. Deleted ones have nothing left that is encrypted.
    """
    sealed = (providers.c.id, providers.c.config, providers.c.signing_secrets)
    query = select(*sealed).where(providers.c.id > after, providers.c.deleted_at.is_(None))
    rows = (await tx.execute(query.order_by(providers.c.id).limit(limit).with_for_update())).all()
    for row in rows:
        config = vault.reseal(row.config, context=_config_of(row.id))
        signing = vault.reseal(row.signing_secrets, context=_signing_of(row.id))
        await change_provider(tx, row.id, {"config": config, "signing_secrets": signing})
    return [row.id for row in rows]


def provider_row(vault: Vault, provider: Provider) -> dict[str, Any]:
    plain = ("id", "organization_id", "group_id", "type", "name", "rate_limit", "version", "state", "state_reason")
    moments = ("created_at", "changed_at", "deleted_at")
    return {
        **{name: getattr(provider, name) for name in plain + moments},
        "config": seal_config(vault, provider.id, provider.config),
        "signing_secrets": seal_secrets(vault, provider.id, provider.secrets),
        **provider.health._asdict(),
    }


def open_provider(vault: Vault, row: Row[Any]) -> Provider:
    return provider_of(row, *unseal(vault, row))


def provider_of(row: Row[Any], config: Config, secrets: tuple[SigningSecret, ...]) -> Provider:
    return Provider(
        id=row.id,
        organization_id=row.organization_id,
        group_id=row.group_id,
        type=row.type,
        name=row.name,
        config=config,
        secrets=secrets,
        rate_limit=row.rate_limit,
        version=row.version,
        state=ProviderState(row.state),
        state_reason=row.state_reason,
        created_at=row.created_at,
        changed_at=row.changed_at,
        deleted_at=row.deleted_at,
        health=health_of(row),
    )


_health_of = attrgetter(*Health._fields)


def health_of(row: Row[Any]) -> Health:
    return Health(*_health_of(row))


def seal_config(vault: Vault, provider_id: str, config: Config) -> bytes:
    return vault.encrypt(orjson.dumps(dict(config)), context=_config_of(provider_id))


def seal_secrets(vault: Vault, provider_id: str, secrets: Sequence[SigningSecret]) -> bytes:
    return vault.encrypt(orjson.dumps([asdict(secret) for secret in secrets]), context=_signing_of(provider_id))


def unseal(vault: Vault, row: Row[Any]) -> tuple[Config, tuple[SigningSecret, ...]]:
    """What was sealed in the row; nothing when it is deleted."""
    if row.deleted_at is not None:
        return {}, ()
    config: Config = orjson.loads(vault.decrypt(row.config, context=_config_of(row.id)))
    secrets = orjson.loads(vault.decrypt(row.signing_secrets, context=_signing_of(row.id)))
    return config, tuple(SigningSecret(**secret) for secret in secrets)


def _config_of(provider_id: str) -> str:
    return f"provider {provider_id} config"


def _signing_of(provider_id: str) -> str:
    return f"provider {provider_id} signing"


def _of(query: Select[Any], table: Table, organization_id: str | None) -> Select[Any]:
    return query if organization_id is None else query.where(table.c.organization_id == organization_id)


def _page(table: Table, after: str | None, limit: int | None) -> Select[Any]:
    query = select(table).where(table.c.deleted_at.is_(None)).order_by(table.c.id.desc()).limit(limit)
    return query if after is None else query.where(table.c.id < after)


def _group(row: Row[Any]) -> Group:
    return Group(row.id, row.organization_id, row.name, row.created_at)
