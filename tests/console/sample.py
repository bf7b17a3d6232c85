"""A provider that nobody has stored, for what is pure."""

from typing import Any

from billhook.groups.model import Health, Provider, ProviderState, SigningSecret
from billhook.providers.signing import new_signing_secret
from billhook.storage.ids import new_id
from tests.groups.setting import NOW

OWN = ("server_url", "request_method", "request_headers")


def a_provider(**fields: Any) -> Provider:
    config = {"server_url": "https://receiver.example/hook", "request_method": "POST", "request_headers": []}
    config |= {name: fields.pop(name) for name in OWN if name in fields}
    plain: dict[str, Any] = {
        "id": new_id("prv"),
        "organization_id": new_id("org"),
        "group_id": new_id("grp"),
        "type": "Webhook",
        "name": "Pager",
        "secrets": (SigningSecret(new_signing_secret(), None),),
        "rate_limit": None,
        "version": 1,
        "state": ProviderState.ACTIVE,
        "state_reason": None,
        "created_at": NOW,
        "changed_at": NOW,
        "deleted_at": None,
        "health": Health(),
    }
    return Provider(config=config, **plain | fields)
