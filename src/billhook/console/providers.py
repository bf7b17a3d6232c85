"""One provider: how it is doing, what it sends, its signing secret, and what one can do with it."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

from starlette.responses import Response

from billhook.console.activity import SPELLED, provider_chart
from billhook.console.fate import BADGES
from billhook.console.forms import Mistakes
from billhook.console.hiding import shown_to, with_dots
from billhook.console.places import find_group, find_provider, group_id, group_path, now_ms, provider_id, provider_path
from billhook.console.preview import SAMPLE, preview_of
from billhook.console.snippets import scheme_for, snippets_for
from billhook.console.standing import standing_of
from billhook.console.trying import try_provider
from billhook.console.visit import SignedIn
from billhook.delivery import control, holding, reads
from billhook.delivery.reads import Filter
from billhook.delivery.views import AttemptView
from billhook.errors import RateLimited
from billhook.groups import manage
from billhook.groups.model import Provider
from billhook.storage.database import Transaction

RECENT = 10  # deliveries
FRESH = timedelta(minutes=10)  # for which a secret is shown to who has just made it
JUST_MADE = ("provider-created", "rotated")


async def show_provider(visit: SignedIn) -> Response:
    return await _page(visit)


async def show_secret(visit: SignedIn) -> Response:
    return await _page(visit, shows_secret=True)


async def try_saved(visit: SignedIn) -> Response:
    async with visit.console.db.reading() as tx:
        provider = await find_provider(tx, visit)
    try:
        return await _page(visit, attempt=await try_provider(visit, provider))
    except RateLimited as error:
        return await _page(visit, mistakes=Mistakes(error), status=error.status)


async def pause(visit: SignedIn) -> Response:
    vault, author, now = visit.console.vault, visit.author, visit.now
    async with visit.console.db.transaction() as tx:
        await control.pause(tx, vault, group_id(visit), provider_id(visit), author=author, now=now)
    return visit.go(_path(visit), done="paused")


async def resume(visit: SignedIn) -> Response:
    vault, author, now = visit.console.vault, visit.author, visit.now
    async with visit.console.db.transaction() as tx:
        await control.resume(tx, vault, group_id(visit), provider_id(visit), author=author, now=now)
    visit.console.hub.bell.ring()
    return visit.go(_path(visit), done="resumed")


async def rotate_signing_secret(visit: SignedIn) -> Response:
    vault, author, now = visit.console.vault, visit.author, visit.now
    async with visit.console.db.transaction() as tx:
        await manage.rotate_signing_secret(tx, vault, group_id(visit), provider_id(visit), author=author, now=now)
    return visit.go(_path(visit), done="rotated")


async def ask_to_delete(visit: SignedIn) -> Response:
    async with visit.console.db.reading() as tx:
        group, provider = await find_group(tx, visit), await find_provider(tx, visit)
        queued = await holding.count_queued(tx, provider_id=provider.id)
    return visit.render(
        "provider_delete.html", group=group, provider=provider, queued=queued, most=holding.MOST_COUNTED
    )


async def delete(visit: SignedIn) -> Response:
    async with visit.console.db.transaction() as tx:
        await control.delete_provider(tx, group_id(visit), provider_id(visit), author=visit.author, now=visit.now)
    return visit.go(group_path(group_id(visit)), done="cancelled")


async def _page(
    visit: SignedIn,
    *,
    shows_secret: bool = False,
    attempt: AttemptView | None = None,
    mistakes: Mistakes = Mistakes(),  # noqa: B008 - nobody changes it
    status: int = 200,
) -> Response:
    async with visit.console.db.reading() as tx:
        group, provider = await find_group(tx, visit), await find_provider(tx, visit)
        history = await _history(tx, visit, provider)
    return visit.render(
        "provider.html",
        status=status,
        group=group,
        provider=provider,
        attempt=attempt,
        mistakes=mistakes,
        **history,
        **_settings(visit, provider),
        **_signing(visit, provider, shows_secret=shows_secret or _is_fresh(visit, provider)),
    )


async def _history(tx: Transaction, visit: SignedIn, provider: Provider) -> dict[str, Any]:
    span = visit.request.query_params.get("span", "")
    wanted = Filter(visit.organization_id, provider_id=provider.id, limit=RECENT)
    return {
        "standing": standing_of(provider, now_ms=now_ms(visit)),
        "activity": await provider_chart(tx, provider.id, span=span, now=visit.now),
        "spans": SPELLED,
        "recent": await reads.list_with_names(tx, wanted),
        "badges": BADGES,
        "queued": await holding.count_queued(tx, provider_id=provider.id),
        "most": holding.MOST_COUNTED,
    }


def _settings(visit: SignedIn, provider: Provider) -> dict[str, Any]:
    shown = shown_to(provider, may_change=visit.may_change).config
    made = preview_of(provider.type, shown, SAMPLE, now_ms=now_ms(visit))
    return {
        "shown": {**shown, "server_url": with_dots(shown["server_url"])},
        "preview": replace(made, text=with_dots(made.text)),
    }


def _signing(visit: SignedIn, provider: Provider, *, shows_secret: bool) -> dict[str, Any]:
    method, before = provider.config["request_method"], provider.secrets[1:]
    return {
        "secret": provider.secrets[0].secret if shows_secret else None,
        "before_ends_ms": next((each.ends_ms for each in before if each.is_live(now_ms(visit))), None),
        "snippets": snippets_for(method),
        "scheme": scheme_for(method),
    }


def _is_fresh(visit: SignedIn, provider: Provider) -> bool:
    """Whether they come from having made the secret, and so expect to see it."""
    is_expected = visit.may_change and visit.request.query_params.get("done") in JUST_MADE
    return is_expected and visit.now - provider.changed_at < FRESH


def _path(visit: SignedIn) -> str:
    return provider_path(group_id(visit), provider_id(visit))
