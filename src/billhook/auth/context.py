"""What the handlers of this package work with; made once by the composition root."""

from dataclasses import dataclass

from starlette.requests import Request

from billhook.accounts.installation import Installation
from billhook.auth.activity import Activity
from billhook.auth.issuer import Issuer
from billhook.auth.registry import Registry
from billhook.settings import Settings
from billhook.storage.database import Database
from billhook.storage.vault import Vault
from billhook.web.failures import Failures
from billhook.web.metrics import Metrics
from billhook.web.requests import caller_address


@dataclass(frozen=True)
class Auth:
    settings: Settings
    db: Database
    vault: Vault
    registry: Registry
    activity: Activity
    failures: Failures  # of clients and of people
    issuer: Issuer

    @classmethod
    def build(cls, installation: Installation, metrics: Metrics) -> "Auth":
        settings, vault = installation.settings, installation.vault
        registry, activity, failures = Registry(installation.db, vault), Activity(), Failures(vault)
        issuer = Issuer(
            registry, vault, base_url=settings.base_url, activity=activity, failures=failures, metrics=metrics
        )
        return cls(settings, installation.db, vault, registry, activity, failures, issuer)


def auth_of(request: Request) -> Auth:
    auth: Auth = request.app.state.auth
    return auth


def address_of(request: Request) -> str:
    return caller_address(request.scope, auth_of(request).settings.trusted_proxies)
