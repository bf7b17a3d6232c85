"""What every type of provider is: pure functions from a notification and settings to one outgoing request."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from pydantic import BaseModel

from billhook.outbound.request import Asked, Outgoing

MASK = "••••"  # stands for a value that is kept and not shown; sent back, it means "unchanged"

Config = Mapping[str, Any]  # the settings of one provider as JSON holds them; what is in it is its type's affair


class Message(NamedTuple):
    """What a notification says."""

    title: str
    content: str


class Stamp(NamedTuple):
    """What makes one attempt this attempt."""

    webhook_id: str  # the delivery's id: the same on every attempt
    timestamp: int  # Unix seconds
    secrets: Sequence[str]  # live signing secrets, the newest first
    is_test: bool = False


class ProviderType(Protocol):
    """A further type is one file with one of these, and one line in `registry`."""

    name: str
    fields: type[BaseModel]  # the members of its JSON form besides `type`, `name` and `rate_limit`

    def configure(self, given: Mapping[str, Any], kept: Config | None) -> Config:
        """Check what was given (only the members to change, when there is a `kept` one), or InvalidParameters."""

    def show(self, config: Config) -> dict[str, Any]:
        """The same, fit to be seen: secrets masked."""

    def secrets(self, config: Config) -> list[str]:
        """What a receiver may say back to us, and nobody else may read."""

    def check(self, config: Config, message: Message) -> str | None:
        """Why this message can never be sent with these settings, or None."""

    def request(self, config: Config, message: Message, stamp: Stamp) -> Outgoing:
        """The request, byte for byte."""

    def asked(self, config: Config, sent: Outgoing) -> Asked:
        """The same, fit to be kept with an attempt: secrets masked, the message left out."""
