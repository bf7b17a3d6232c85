"""Send a notification through a group by hand."""

from dataclasses import dataclass
from secrets import token_urlsafe

from starlette.responses import Response

from billhook.console.forms import Mistakes
from billhook.console.places import find_group, group_id, now_ms
from billhook.console.preview import SAMPLE, Preview, preview_of
from billhook.console.standing import standing_of
from billhook.console.visit import SignedIn
from billhook.delivery.accept import Accepted, Send, valid_key, valid_message
from billhook.errors import BillhookError, InvalidParameters, NotificationConflict
from billhook.groups import store
from billhook.groups.model import Group, Provider, ProviderState
from billhook.providers.kinds import Message
from billhook.providers.registry import provider_type

SENT_BEFORE = "This form was sent already. Send it again, if this shall be another notification."
MOST_SHOWN = 100  # providers


@dataclass(frozen=True)
class Audience:
    group: Group
    members: list[Provider]

    @property
    def sample(self) -> Provider | None:
        """One that is told at once, if there is any."""
        told = (each for each in self.members if each.state is ProviderState.ACTIVE)
        return next(told, next(iter(self.members), None))


async def show_form(visit: SignedIn) -> Response:
    return _form(visit, await _audience(visit), "", "")


async def show_preview(visit: SignedIn) -> Response:
    audience, form = await _audience(visit), visit.form
    return visit.render("preview.html", preview=_preview(visit, audience.sample, form["title"], form["content"]))


async def send(visit: SignedIn) -> Response:
    """The key of the form sees to it that nothing is sent twice, however often the button is pressed."""
    audience, form = await _audience(visit), visit.form
    title, content = form["title"], form["content"]
    try:
        message, key = valid_message(title, content), valid_key(form["key"] or None)
        asked = Send(visit.organization_id, group_id(visit), visit.actor.name, message, key)
        accepted = await visit.console.hub.send(asked)
    except NotificationConflict:
        return _form(visit, audience, title, content, mistakes=Mistakes(BillhookError(SENT_BEFORE)), status=409)
    except InvalidParameters as error:
        return _form(visit, audience, title, content, mistakes=Mistakes(error), status=error.status)
    if accepted.warning:
        return _form(visit, audience, title, content, accepted=accepted)
    return visit.go(f"/deliveries?notification_id={accepted.id}", done="sent")


async def _audience(visit: SignedIn) -> Audience:
    async with visit.console.db.reading() as tx:
        group = await find_group(tx, visit)
        rows = await store.list_providers(tx, visit.organization_id, group_id=group.id, limit=MOST_SHOWN)
    return Audience(group, [visit.console.hub.directory.open(row) for row in rows])


def _form(
    visit: SignedIn,
    audience: Audience,
    title: str,
    content: str,
    *,
    mistakes: Mistakes = Mistakes(),  # noqa: B008 - nobody changes it
    accepted: Accepted | None = None,
    status: int = 200,
) -> Response:
    return visit.render(
        "send.html",
        status=status,
        group=audience.group,
        members=[(each, standing_of(each, now_ms=now_ms(visit))) for each in audience.members],
        title=title,
        content=content,
        key=token_urlsafe(24),
        sample=audience.sample,
        preview=_preview(visit, audience.sample, title, content),
        accepted=accepted,
        mistakes=mistakes,
    )


def _preview(visit: SignedIn, provider: Provider | None, title: str, content: str) -> Preview | None:
    if provider is None:
        return None
    shown = provider_type(provider.type).show(provider.config)
    message = Message(title or SAMPLE.title, content or SAMPLE.content)
    return preview_of(provider.type, shown, message, now_ms=now_ms(visit))
