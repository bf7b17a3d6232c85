"""Send a test at once, and show all that came of it."""

from billhook.console.places import now_ms
from billhook.console.visit import SignedIn
from billhook.delivery import trial
from billhook.delivery.views import AttemptView, exchange_view
from billhook.groups.model import Provider
from billhook.providers.kinds import Message

MESSAGE = Message(trial.TITLE, trial.CONTENT)


async def try_provider(visit: SignedIn, provider: Provider) -> AttemptView:
    at_ms = now_ms(visit)
    exchange = await visit.console.hub.trials.run(provider, MESSAGE, now_ms=at_ms)
    return exchange_view(exchange, at_ms=at_ms)
