"""Links that make a user: the set-up link of an installation without users, and invitations by an admin."""

import hmac
import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256

from sqlalchemy import Column, ForeignKey, Row, Table, Text, delete, insert, select

from billhook.accounts.audit import Actor, note
from billhook.accounts.organizations import find_organization
from billhook.accounts.sessions import digest_of
from billhook.accounts.users import Role, User, are_there_users, create_user, find_by_email, normal_email
from billhook.errors import InvitationNotFound, UserConflict
from billhook.storage import feed
from billhook.storage.database import Transaction
from billhook.storage.ids import is_id, new_id
from billhook.storage.types import Moment, metadata
from billhook.storage.vault import Vault

GOOD_FOR = timedelta(days=7)
MOST_OPEN = 200  # of one organization

invitations = Table(
    "invitations",
    metadata,
    Column("id", Text, primary_key=True),
    Column("digest", Text, nullable=False, unique=True),
    Column("organization_id", Text, ForeignKey("organizations.id"), nullable=False, index=True),
    Column("email", Text, nullable=False),
    Column("role", Text, nullable=False),
    Column("invited_by", Text, nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("expires_at", Moment, nullable=False, index=True),
)


@dataclass(frozen=True)
class Invitation:
    id: str
    organization_id: str
    email: str
    role: Role
    created_at: datetime
    expires_at: datetime


def set_up_token(vault: Vault) -> str:
    """The same in every process, and good for as long as the installation has no user."""
    return vault.derive("set-up link").hex()


async def may_set_up(tx: Transaction, vault: Vault, token: str) -> bool:
    is_right = hmac.compare_digest(digest_of(token), sha256(set_up_token(vault).encode()).hexdigest())
    return is_right and not await are_there_users(tx)


async def set_up(tx: Transaction, vault: Vault, token: str, *, email: str, password_hash: str, now: datetime) -> User:
    """The first admin; InvitationNotFound when somebody was faster."""
    await feed.advance(tx)  # one at a time
    if not await may_set_up(tx, vault, token):
        raise InvitationNotFound()
    owner = await find_organization(tx, None)
    actor = Actor("system", owner.id)
    return await create_user(
        tx, owner.id, email=email, password_hash=password_hash, role=Role.ADMIN, actor=actor, now=now
    )


async def invite(
    tx: Transaction, organization_id: str, *, email: str, role: Role, actor: Actor, now: datetime
) -> tuple[Invitation, str]:
    """The invitation and the token of its link. An earlier one to the same address ends.

    Whether the address belongs to somebody of another organization is told only to who opens the link.
    """
    await feed.advance(tx)
    address = normal_email(email)
    found = await find_by_email(tx, address)
    if found is not None and found[0].organization_id == organization_id:
        raise UserConflict(f"there is already a user {address}")
    same = (invitations.c.organization_id == organization_id, invitations.c.email == address)
    await tx.execute(delete(invitations).where(*same))
    if len(await list_invitations(tx, organization_id, now=now)) >= MOST_OPEN:
        raise UserConflict(f"there are {MOST_OPEN} open invitations; withdraw some first")
    made, token = (
        Invitation(new_id("inv"), organization_id, address, role, now, now + GOOD_FOR),
        secrets.token_urlsafe(32),
    )
    row = {"organization_id": organization_id, "email": address, "role": role, "invited_by": actor.name}
    moments = {"created_at": now, "expires_at": made.expires_at}
    await tx.execute(insert(invitations).values(id=made.id, digest=digest_of(token), **row, **moments))
    await note(tx, actor, "user.invited", subject=made.id, now=now, email=address, role=role)
    return made, token


async def find_invitation(tx: Transaction, token: str, *, now: datetime) -> Invitation:
    is_open = (invitations.c.digest == digest_of(token), invitations.c.expires_at > now)
    row = (await tx.execute(select(invitations).where(*is_open))).one_or_none()
    if row is None:
        raise InvitationNotFound()
    return _invitation(row)


async def accept_invitation(tx: Transaction, token: str, *, password_hash: str, now: datetime) -> User:
    """The user that was invited; the link is used up."""
    await feed.advance(tx)  # one at a time: whoever is second finds it gone
    found = await find_invitation(tx, token, now=now)
    if not (await tx.execute(delete(invitations).where(invitations.c.id == found.id))).rowcount:
        raise InvitationNotFound()
    actor = Actor("system", found.organization_id)
    return await create_user(
        tx, found.organization_id, email=found.email, password_hash=password_hash, role=found.role, actor=actor, now=now
    )


async def list_invitations(tx: Transaction, organization_id: str, *, now: datetime) -> list[Invitation]:
    is_open = (invitations.c.organization_id == organization_id, invitations.c.expires_at > now)
    query = select(invitations).where(*is_open).order_by(invitations.c.email).limit(MOST_OPEN)
    return [_invitation(row) for row in await tx.execute(query)]


async def withdraw(tx: Transaction, organization_id: str, invitation_id: str, *, actor: Actor, now: datetime) -> None:
    is_it = (invitations.c.id == invitation_id, invitations.c.organization_id == organization_id)
    if is_id(invitation_id) and (await tx.execute(delete(invitations).where(*is_it))).rowcount:
        await note(tx, actor, "user.invitation-withdrawn", subject=invitation_id, now=now)


async def withdraw_all_by(tx: Transaction, actor: Actor) -> None:
    """Of somebody who may no longer invite."""
    await tx.execute(delete(invitations).where(invitations.c.invited_by == actor.name))


async def purge(tx: Transaction, *, now: datetime, limit: int) -> int:
    old = select(invitations.c.id).where(invitations.c.expires_at <= now).limit(limit)
    return (await tx.execute(delete(invitations).where(invitations.c.id.in_(old)))).rowcount


def _invitation(row: Row[tuple[object, ...]]) -> Invitation:
    return Invitation(row.id, row.organization_id, row.email, Role(row.role), row.created_at, row.expires_at)
