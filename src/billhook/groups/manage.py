"""What one can do with groups and providers. Each is one transaction with its audit entry, for API, console and CLI."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from sqlalchemy import Row

from billhook.accounts.audit import note
from billhook.auth.manage import Author
from billhook.errors import GroupConflict, GroupNotFound, InvalidParameters, ProviderConflict, ProviderNotFound
from billhook.groups import model, store
from billhook.groups.model import Group, Health, Provider, ProviderState, SigningSecret
from billhook.groups.store import NOTHING, providers, seal_config, seal_secrets
from billhook.providers.checks import checked
from billhook.providers.registry import provider_type
from billhook.providers.signing import new_signing_secret
from billhook.storage import feed
from billhook.storage.database import Transaction
from billhook.storage.ids import new_id
from billhook.storage.vault import Vault

OVERLAP = timedelta(hours=24)  # how long the secret before the newest still signs: time to change every receiver
COMMON = ("type", "name", "rate_limit")  # what providers of all types have; the rest is their type's affair
WELL = {
    "failures": 0,
    "failed_attempts": 0,
    "openings": 0,
    "open_until_ms": 0,
    "waits_until_ms": 0,
    "failing_since_ms": None,
    "recent": NOTHING,
}


@dataclass(frozen=True)
class ProviderSpec:
    type: str
    name: str
    fields: Mapping[str, Any] = field(repr=False)  # its type's own
    rate_limit: int | None = None


async def create_group(
    tx: Transaction, name: str, *, organization_id: str, most: int, author: Author, now: datetime
) -> Group:
    """`most`: how many an organization may have."""
    await feed.advance(tx)  # one at a time, so that two cannot both be the last one, or have one name
    group = Group(new_id("grp"), organization_id, model.valid_name(name), now)
    if await store.count_groups(tx, organization_id) >= most:
        raise GroupConflict(f"the organization has as many groups as it may have: {most}")
    await _must_be_free(tx, group.name, group)
    await store.insert_group(tx, group)
    await _note(tx, author, group, "group.created", now=now)
    return group


async def get_group(tx: Transaction, group_id: str, *, author: Author) -> Group:
    group = await store.find_group(tx, group_id, author.organization_id)
    if group is None:
        raise GroupNotFound()
    return group


async def rename_group(tx: Transaction, group_id: str, name: str, *, author: Author, now: datetime) -> Group:
    await feed.advance(tx)
    group = await get_group(tx, group_id, author=author)
    renamed = replace(group, name=model.valid_name(name))
    await _must_be_free(tx, renamed.name, group)
    await store.change_group(tx, group_id, {"name": renamed.name})
    await _note(tx, author, renamed, "group.renamed", now=now, before=group.name)
    return renamed


async def delete_group(tx: Transaction, group_id: str, *, author: Author, now: datetime) -> list[str]:
    """The ids of its providers, which go with it."""
    await feed.advance(tx)
    group = await get_group(tx, group_id, author=author)
    gone = await store.delete_providers(tx, providers.c.group_id == group_id, now=now)
    await store.change_group(tx, group_id, {"deleted_at": now})
    await _note(tx, author, group, "group.deleted", now=now, providers=gone)
    return gone


async def create_provider(
    tx: Transaction, vault: Vault, group_id: str, spec: ProviderSpec, *, most: int, author: Author, now: datetime
) -> tuple[Provider, str]:
    """The provider and its signing secret. `most`: how many a group may have."""
    await feed.advance(tx)
    group = await get_group(tx, group_id, author=author)
    valid = _checked_spec(spec)
    if await store.count_providers(tx, group_id) >= most:
        raise ProviderConflict(f"the group has as many providers as it may have: {most}")
    secret = new_signing_secret()
    provider = Provider(
        id=new_id("prv"),
        organization_id=group.organization_id,
        group_id=group.id,
        type=spec.type,
        name=valid["name"],
        config=valid["config"],
        secrets=(SigningSecret(secret, None),),
        rate_limit=valid["rate_limit"],
        version=1,
        state=ProviderState.ACTIVE,
        state_reason=None,
        created_at=now,
        changed_at=now,
        deleted_at=None,
        health=Health(),
    )
    await store.insert_provider(tx, vault, provider)
    await _note(tx, author, provider, "provider.created", now=now, group=group.id, type=spec.type)
    return provider, secret


async def get_provider(
    tx: Transaction, vault: Vault, group_id: str | None, provider_id: str, *, author: Author
) -> Provider:
    """`group_id` None: in whatever group it is."""
    return store.open_provider(vault, await _find(tx, group_id, provider_id, author))


async def list_providers(
    tx: Transaction,
    vault: Vault,
    group_id: str,
    *,
    author: Author,
    after: str | None = None,
    limit: int | None = None,
) -> list[Provider]:
    group = await get_group(tx, group_id, author=author)
    rows = await store.list_providers(tx, group.organization_id, group_id=group.id, after=after, limit=limit)
    return [store.open_provider(vault, row) for row in rows]


async def change_provider(
    tx: Transaction,
    vault: Vault,
    group_id: str | None,
    provider_id: str,
    changes: Mapping[str, Any],
    *,
    author: Author,
    now: datetime,
) -> Provider:
    """`changes` holds what shall differ: `name`, `rate_limit` (0: none) and the fields of its type."""
    await feed.advance(tx)
    provider = await get_provider(tx, vault, group_id, provider_id, author=author)
    values = _checked_changes(provider, changes)
    if "config" in values:
        values["config"] = seal_config(vault, provider.id, values["config"])
        values["version"] = provider.version + 1
    changed = await _change(tx, vault, provider, values, author=author, now=now)
    await _note(tx, author, changed, "provider.changed", now=now, fields=sorted(changes))
    return changed


async def delete_provider(
    tx: Transaction, group_id: str | None, provider_id: str, *, author: Author, now: datetime
) -> None:
    """Its row stays, without what was secret in it."""
    await feed.advance(tx)
    row = await _find(tx, group_id, provider_id, author)
    await store.delete_providers(tx, providers.c.id == row.id, now=now)
    await _note(tx, author, row, "provider.deleted", now=now, group=row.group_id)


async def pause(
    tx: Transaction, vault: Vault, group_id: str | None, provider_id: str, *, author: Author, now: datetime
) -> Provider:
    await feed.advance(tx)
    provider = await get_provider(tx, vault, group_id, provider_id, author=author)
    values = {"state": ProviderState.PAUSED, "state_reason": None}
    paused = await _change(tx, vault, provider, values, author=author, now=now)
    await _note(tx, author, paused, "provider.paused", now=now)
    return paused


async def resume(
    tx: Transaction, vault: Vault, group_id: str | None, provider_id: str, *, author: Author, now: datetime
) -> Provider:
    """Whether it was paused or disabled; it starts anew, as if it had never failed."""
    await feed.advance(tx)
    provider = await get_provider(tx, vault, group_id, provider_id, author=author)
    values = {"state": ProviderState.ACTIVE, "state_reason": None, **WELL}
    resumed = await _change(tx, vault, provider, values, author=author, now=now)
    await _note(tx, author, resumed, "provider.resumed", now=now)
    return resumed


async def rotate_signing_secret(
    tx: Transaction, vault: Vault, group_id: str | None, provider_id: str, *, author: Author, now: datetime
) -> tuple[Provider, str]:
    """A new secret. The one before it goes on signing beside it for a while; any older one ends now."""
    await feed.advance(tx)
    provider = await get_provider(tx, vault, group_id, provider_id, author=author)
    secret, end = new_signing_secret(), int((now + OVERLAP).timestamp() * 1000)
    secrets = (SigningSecret(secret, None), replace(provider.secrets[0], ends_ms=end))
    values = {"signing_secrets": seal_secrets(vault, provider.id, secrets), "version": provider.version + 1}
    rotated = await _change(tx, vault, provider, values, author=author, now=now)
    await _note(tx, author, rotated, "provider.signing-secret-rotated", now=now)
    return rotated, secret


def _checked_spec(spec: ProviderSpec) -> dict[str, Any]:
    kind = provider_type(spec.type)
    return checked(
        name=partial(model.valid_name, spec.name),
        config=partial(kind.configure, spec.fields, None),
        rate_limit=partial(model.valid_rate_limit, spec.rate_limit),
    )


def _checked_changes(provider: Provider, changes: Mapping[str, Any]) -> dict[str, Any]:
    """The columns to change, with the config still open."""
    if changes.get("type", provider.type) != provider.type:
        raise InvalidParameters.of("type", "cannot be changed: add another provider, and delete this one")
    checks: dict[str, Any] = {}
    if "name" in changes:
        checks["name"] = partial(model.valid_name, changes["name"])
    if "rate_limit" in changes:
        checks["rate_limit"] = partial(model.valid_rate_limit, changes["rate_limit"])
    if its_own := {name: value for name, value in changes.items() if name not in COMMON}:
        checks["config"] = partial(provider_type(provider.type).configure, its_own, provider.config)
    return checked(**checks)


async def _must_be_free(tx: Transaction, name: str, group: Group) -> None:
    taken = await store.find_group_by_name(tx, name, group.organization_id)
    if taken is not None and taken.id != group.id:
        raise GroupConflict("another group has this name")


async def _find(tx: Transaction, group_id: str | None, provider_id: str, author: Author) -> Row[Any]:
    if group_id is not None:
        await get_group(tx, group_id, author=author)  # so that it is named when it is the group that is missing
    row = await store.find_provider(tx, provider_id, author.organization_id, group_id=group_id)
    if row is None:
        raise ProviderNotFound()
    return row


async def _change(
    tx: Transaction, vault: Vault, provider: Provider, values: Mapping[str, Any], *, author: Author, now: datetime
) -> Provider:
    await store.change_provider(tx, provider.id, {**values, "changed_at": now})
    return store.open_provider(vault, await _find(tx, None, provider.id, author))


async def _note(
    tx: Transaction, author: Author, subject: Group | Provider | Row[Any], action: str, *, now: datetime, **detail: Any
) -> None:
    actor = replace(author.actor, organization_id=subject.organization_id)
    await note(tx, actor, action, subject=subject.id, now=now, name=subject.name, **detail)
