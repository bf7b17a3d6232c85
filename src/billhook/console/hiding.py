"""A provider as far as who looks may see it: to viewers no part of its URL is shown that may be a token."""

from dataclasses import replace

from billhook.groups.model import Provider
from billhook.outbound.request import Outgoing
from billhook.providers.kinds import MASK
from billhook.providers.registry import provider_type

STAND_IN = "billhook-hides-this"  # for the mask: only a valid URL can be made a request of


def shown_to(provider: Provider, *, may_change: bool) -> Provider:
    """Without any secret. `with_dots` makes dots of what stands for them, in whatever is made of it.

    Values of headers are for nobody's eyes; whoever may change the URL may see it.
    """
    kind = provider_type(provider.type)
    config = kind.show(provider.config)
    if not may_change:
        asked = kind.asked(provider.config, Outgoing("POST", config["server_url"], (), None))
        config = {**config, "server_url": asked.url.replace(MASK, STAND_IN)}
    return replace(provider, config=config, secrets=())


def with_dots(text: str) -> str:
    return text.replace(STAND_IN, MASK)
