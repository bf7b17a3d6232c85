"""Accept notifications, each with a delivery per provider, in one commit for all that come together."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from sqlalchemy import BigInteger, Insert, Integer, Select, Text, delete, insert, select

from billhook.delivery.store import State, deliveries, idempotency_keys, notifications
from billhook.errors import BillhookError, FieldError, GroupNotFound, InvalidParameters, NotificationConflict
from billhook.groups.directory import Directory
from billhook.groups.model import Provider, ProviderState
from billhook.groups.store import groups, providers
from billhook.providers.kinds import Message
from billhook.providers.registry import provider_type
from billhook.storage.clock import now_ms
from billhook.storage.database import Transaction
from billhook.storage.ids import is_id, new_id
from billhook.storage.rows import pack, rows

LONGEST_TITLE = 256  # characters
LARGEST_CONTENT = 32 * 1024  # bytes
LONGEST_KEY = 255
KEY_KEPT_MS = 24 * 3600 * 1000

NOBODY = "the group has no active provider: nobody will be told"
LATER = "the group has no active provider: nobody will be told before one is resumed"


@dataclass(frozen=True, slots=True)
class Send:
    """What somebody asks to be sent."""

    organization_id: str
    group_id: str
    sender: str
    message: Message
    idempotency_key: str | None = None

    @property
    def fingerprint(self) -> str:
        """Tells whether two sends ask for the same."""
        asked = (self.organization_id, self.group_id, self.message.title, self.message.content)
        return hashlib.sha256("\0".join(asked).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Queued:
    """One delivery of an accepted notification."""

    id: str
    provider_id: str
    state: str


@dataclass(frozen=True, slots=True)
class Accepted:
    id: str
    group_id: str
    created_ms: int
    deliveries: tuple[Queued, ...]
    is_repeated: bool = False  # the same send was accepted before, under the same key

    @property
    def warning(self) -> str | None:
        if not self.deliveries:
            return NOBODY
        return LATER if all(each.state == State.HELD for each in self.deliveries) else None


Answer = Accepted | BillhookError


def valid_message(title: str, content: str) -> Message:
    """Exactly what was given, or InvalidParameters: nothing is trimmed, nothing is cut."""
    errors = []
    if not 1 <= len(title) <= LONGEST_TITLE:
        errors.append(FieldError("title", f"must have 1 to {LONGEST_TITLE} characters"))
    if not 1 <= len(content.encode("utf-8", "surrogatepass")) <= LARGEST_CONTENT:
        errors.append(FieldError("content", "must have 1 byte to 32 KiB, written as UTF-8"))
    for field, text in (("title", title), ("content", content)):
        if "\0" in text or not _is_unicode(text):
            errors.append(FieldError(field, "must not have NUL characters or broken Unicode"))
    if errors:
        raise InvalidParameters(errors=errors)
    return Message(title, content)


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def valid_key(key: str | None) -> str | None:
    if key is not None and not (1 <= len(key) <= LONGEST_KEY and key.isascii() and key.isprintable()):
        raise InvalidParameters.of("Idempotency-Key", f"must have 1 to {LONGEST_KEY} printable ASCII characters")
    return key


async def accept(tx: Transaction, directory: Directory, sends: Sequence[Send]) -> list[Answer]:
    """Write them all, or say for each why not. Nothing counts before the transaction is committed."""
    now, of_group = await _groups(tx, directory, sends)
    before = await _repeated(tx, sends)
    answers: list[Answer] = []
    fresh: list[tuple[Send, Accepted]] = []
    for send in sends:
        answer = _repeat(before, send) or _judge(of_group, send) or _queue(of_group, send, now)
        answers.append(answer)
        if isinstance(answer, Accepted) and not answer.is_repeated:
            fresh.append((send, answer))
            if send.idempotency_key is not None:
                before[send.sender, send.idempotency_key] = (send.fingerprint, answer)
    if fresh:
        await _write(tx, fresh)
    return answers


GroupKey = tuple[str, str]  # organization and group


async def _groups(
    tx: Transaction, directory: Directory, sends: Sequence[Send]
) -> tuple[int, dict[GroupKey, list[Provider]]]:
    """The providers of the groups that are asked for; a group that does not exist is not in it."""
    wanted = {send.group_id for send in sends if is_id(send.group_id)}
    found = await tx.execute(_members(tx.dialect.name), {"wanted": pack([{"id": each} for each in wanted])})
    now, members = 0, dict[GroupKey, list[Provider]]()
    for row in found:
        now = int(row.now_ms)
        listed = members.setdefault((row.owner, row.its_group), [])
        if row.id is not None:
            listed.append(directory.open(row))
    return now, members


@cache
def _members(dialect: str) -> Select[Any]:
    wanted = rows(dialect, "wanted", id=Text())
    alive = (providers.c.group_id == groups.c.id) & providers.c.deleted_at.is_(None)
    return (
        select(
            groups.c.organization_id.label("owner"), groups.c.id.label("its_group"), now_ms().label("now_ms"), providers
        )
        .select_from(wanted.join(groups, groups.c.id == wanted.c.id).outerjoin(providers, alive))
        .where(groups.c.deleted_at.is_(None))
        .order_by(providers.c.id)
    )


def _judge(of_group: dict[GroupKey, list[Provider]], send: Send) -> BillhookError | None:
    members = of_group.get((send.organization_id, send.group_id))
    if members is None:
        return GroupNotFound()
    for provider in members:
        reason = provider_type(provider.type).check(provider.config, send.message)
        if reason is not None:
            return InvalidParameters.of("content", f"provider {provider.id} ({provider.name}): {reason}")
    return None


def _queue(of_group: dict[GroupKey, list[Provider]], send: Send, now: int) -> Accepted:
    members = of_group[send.organization_id, send.group_id]
    queued = (
        Queued(new_id("dlv"), each.id, State.PENDING if each.state is ProviderState.ACTIVE else State.HELD)
        for each in members
    )
    return Accepted(new_id("ntf"), send.group_id, now, tuple(queued))


async def _write(tx: Transaction, fresh: Sequence[tuple[Send, Accepted]]) -> None:
    said = [
        {
            "id": accepted.id,
            "organization_id": send.organization_id,
            "group_id": send.group_id,
            "sender": send.sender,
            "title": send.message.title,
            "content": send.message.content,
            "created_ms": accepted.created_ms,
        }
        for send, accepted in fresh
    ]
    await tx.execute(_insert_notifications(tx.dialect.name), {"said": pack(said)})
    queued = [row for send, accepted in fresh for row in _delivery_rows(send, accepted)]
    if queued:
        await tx.execute(_insert_deliveries(tx.dialect.name), {"queued": pack(queued)})
    await _keep_keys(tx, fresh)


def _delivery_rows(send: Send, accepted: Accepted) -> list[dict[str, Any]]:
    shared = {
        "organization_id": send.organization_id,
        "group_id": send.group_id,
        "notification_id": accepted.id,
        "attempts": 0,
        "charged": 0,
        "created_ms": accepted.created_ms,
        "since_ms": accepted.created_ms,
        "due_ms": accepted.created_ms,
    }
    return [
        shared | {"id": each.id, "provider_id": each.provider_id, "state": each.state} for each in accepted.deliveries
    ]


@cache
def _insert_notifications(dialect: str) -> Insert:
    names = ("id", "organization_id", "group_id", "sender", "title", "content")
    said = rows(dialect, "said", **{name: Text() for name in names}, created_ms=BigInteger())
    return insert(notifications).from_select([column.name for column in said.c], select(*said.c))


@cache
def _insert_deliveries(dialect: str) -> Insert:
    texts = {name: Text() for name in ("id", "organization_id", "group_id", "provider_id", "notification_id", "state")}
    numbers = {name: Integer() for name in ("attempts", "charged")}
    moments = {name: BigInteger() for name in ("created_ms", "since_ms", "due_ms")}
    queued = rows(dialect, "queued", **texts, **numbers, **moments)
    return insert(deliveries).from_select([column.name for column in queued.c], select(*queued.c))


Repeats = dict[tuple[str, str], tuple[str, Accepted]]  # by sender and key: the fingerprint, and what was answered


def _repeat(before: Repeats, send: Send) -> Answer | None:
    if send.idempotency_key is None or (send.sender, send.idempotency_key) not in before:
        return None
    fingerprint, accepted = before[send.sender, send.idempotency_key]
    if fingerprint != send.fingerprint:
        return NotificationConflict("this Idempotency-Key was used for another notification")
    return Accepted(accepted.id, accepted.group_id, accepted.created_ms, accepted.deliveries, is_repeated=True)


async def _repeated(tx: Transaction, sends: Sequence[Send]) -> Repeats:
    """What these senders have sent under these keys within the last day."""
    keys = [{"sender": each.sender, "key": each.idempotency_key} for each in sends if each.idempotency_key is not None]
    if not keys:
        return {}
    found = (await tx.execute(_known_keys(tx.dialect.name), {"keys": pack(keys)})).all()
    repeats: Repeats = {}
    for row in found:
        queued = await tx.execute(select(deliveries).where(deliveries.c.notification_id == row.notification_id))
        told = tuple(Queued(each.id, each.provider_id, each.state) for each in queued)
        accepted = Accepted(row.notification_id, row.group_id, row.created_ms, told)
        repeats[row.sender, row.key] = (row.fingerprint, accepted)
    return repeats


@cache
def _known_keys(dialect: str) -> Select[Any]:
    asked = rows(dialect, "keys", sender=Text(), key=Text())
    known = idempotency_keys
    same = (known.c.sender == asked.c.sender) & (known.c.key == asked.c.key) & (known.c.expires_ms > now_ms())
    joined = asked.join(known, same).join(notifications, notifications.c.id == known.c.notification_id)
    return select(known, notifications.c.group_id, notifications.c.created_ms).select_from(joined).distinct()


async def _keep_keys(tx: Transaction, fresh: Sequence[tuple[Send, Accepted]]) -> None:
    """Of a key that another process has just used, the database says so, and this whole commit is done again."""
    kept = [
        {
            "sender": send.sender,
            "key": send.idempotency_key,
            "fingerprint": send.fingerprint,
            "notification_id": accepted.id,
            "expires_ms": accepted.created_ms + KEY_KEPT_MS,
        }
        for send, accepted in fresh
        if send.idempotency_key is not None
    ]
    for values in kept:
        same = (idempotency_keys.c.sender == values["sender"]) & (idempotency_keys.c.key == values["key"])
        await tx.execute(delete(idempotency_keys).where(same, idempotency_keys.c.expires_ms <= now_ms()))
    if kept:
        await tx.execute(insert(idempotency_keys), kept)
