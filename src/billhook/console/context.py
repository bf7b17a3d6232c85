"""What the pages work with; made once by the composition root."""

from dataclasses import dataclass

from starlette.requests import Request

from billhook.accounts.signin import Doorkeeper
from billhook.auth.context import Auth
from billhook.delivery.context import Hub
from billhook.settings import Settings
from billhook.storage.database import Database
from billhook.storage.vault import Vault

HOME = "/console"


@dataclass(frozen=True)
class Console:
    auth: Auth
    hub: Hub
    doorkeeper: Doorkeeper

    @classmethod
    def build(cls, auth: Auth, hub: Hub) -> "Console":
        return cls(auth, hub, Doorkeeper(auth.vault, auth.failures))

    @property
    def settings(self) -> Settings:
        return self.auth.settings

    @property
    def db(self) -> Database:
        return self.auth.db

    @property
    def vault(self) -> Vault:
        return self.auth.vault

    @property
    def is_secure(self) -> bool:
        """Whether browsers reach us over https, so that cookies may insist on it."""
        return self.settings.base_url.startswith("https:")

    @property
    def home(self) -> str:
        return self.settings.path_prefix + HOME


def console_of(request: Request) -> Console:
    console: Console = request.app.state.console
    return console
