"""Clients as the API, the command line and the documents show them."""

from datetime import UTC, datetime

from pydantic import BaseModel, Field

from billhook.auth.authenticate import Caller
from billhook.auth.model import Client, Secret, spell_lifespan
from billhook.auth.secret import NewSecret
from billhook.web.documents import Meta


class SecretView(BaseModel):
    id: str
    hint: str = Field(description="The last four characters.")
    created_at: datetime
    ends_at: datetime | None
    last_used_at: datetime | None
    last_used_address: str | None


class ClientView(BaseModel):
    client_id: str
    organization_id: str
    name: str
    description: str
    scope: str = Field(description="Space-separated.")
    lifespan: str = Field(description="How long its tokens live, such as `1h`.")
    networks: list[str] = Field(description="Where it may come from; empty: anywhere.")
    state: str = Field(description="`active` or `revoked`.")
    not_before: int = Field(description="Unix seconds; tokens issued earlier do not count. 0: all count.")
    created_at: datetime
    revoked_at: datetime | None
    last_used_at: datetime | None
    last_used_address: str | None
    secrets: list[SecretView] = Field(description="The live ones.")


class NewClientView(ClientView):
    client_secret: str = Field(description="Shown this once.")


class ListEnvelope(BaseModel):
    code: str = "success"
    data: list[ClientView]
    meta: Meta


class Me(BaseModel):
    client_id: str
    organization_id: str
    scope: str
    issued_at: datetime
    expires_at: datetime
    expires_in: int = Field(description="Seconds left.")

    @classmethod
    def of(cls, caller: Caller) -> "Me":
        left = int((caller.expires_at - datetime.now(UTC)).total_seconds())
        return cls(
            client_id=caller.client_id,
            organization_id=caller.organization_id,
            scope=" ".join(caller.scopes),
            issued_at=caller.issued_at,
            expires_at=caller.expires_at,
            expires_in=max(left, 0),
        )


def client_view(client: Client) -> ClientView:
    return ClientView(**_fields(client))


def new_client_view(client: Client, secret: NewSecret) -> NewClientView:
    return NewClientView(**_fields(client), client_secret=secret.text)


def _fields(client: Client) -> dict[str, object]:
    now = datetime.now(UTC)
    return {
        "client_id": client.id,
        "organization_id": client.organization_id,
        "name": client.name,
        "description": client.description,
        "scope": " ".join(client.scopes),
        "lifespan": spell_lifespan(client.lifespan),
        "networks": [str(network) for network in client.networks],
        "state": str(client.state),
        "not_before": client.not_before,
        "created_at": client.created_at,
        "revoked_at": client.revoked_at,
        "last_used_at": client.last_used_at,
        "last_used_address": client.last_used_address,
        "secrets": [_secret_view(secret) for secret in client.secrets if secret.is_live(now)],
    }


def _secret_view(secret: Secret) -> SecretView:
    return SecretView(
        id=secret.id,
        hint=secret.hint,
        created_at=secret.created_at,
        ends_at=secret.ends_at,
        last_used_at=secret.last_used_at,
        last_used_address=secret.last_used_address,
    )
