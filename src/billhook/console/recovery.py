"""Deliver again all that failed since a moment: the form, and how far it has come."""

from functools import partial
from typing import Any

from starlette.responses import Response

from billhook.console import live
from billhook.console.choices import list_choices
from billhook.console.filters import as_input, parse_moment
from billhook.console.forms import Mistakes, wrong
from billhook.console.places import now_ms
from billhook.console.visit import SignedIn
from billhook.delivery import holding, reads, replay
from billhook.delivery.context import CHANNEL
from billhook.errors import InvalidParameters, ProviderNotFound
from billhook.groups import manage
from billhook.providers.checks import checked
from billhook.storage.database import Transaction
from billhook.storage.notices import announce

HOUR_MS = 3_600_000
PERIODS = {"1h": HOUR_MS, "24h": 24 * HOUR_MS, "7d": 7 * 24 * HOUR_MS}
SPELLED = {"1h": "in the last hour", "24h": "in the last 24 hours", "7d": "in the last 7 days"}
SINCE = "moment"  # the period that has a field of its own
MOST_SHOWN = 10  # recoveries before


async def show_recover(visit: SignedIn) -> Response:
    typed = {"provider_id": visit.request.query_params.get("provider_id", ""), "period": "24h", "since": ""}
    return await _form(visit, typed, Mistakes())


async def recover(visit: SignedIn) -> Response:
    hub, form = visit.console.hub, visit.form
    try:
        since_ms = _since_ms(visit)
        async with hub.db.transaction() as tx:
            provider = await manage.get_provider(tx, hub.vault, None, form["provider_id"], author=visit.author)
            begun = await replay.begin_recovery(tx, provider, since_ms=since_ms, actor=visit.actor, now=visit.now)
            await announce(tx, CHANNEL)
    except (InvalidParameters, ProviderNotFound) as error:
        shown = error if isinstance(error, InvalidParameters) else wrong("provider_id", "must be chosen")
        typed = {"provider_id": form["provider_id"], "period": form["period"], "since": as_input(form["since"].strip())}
        return await _form(visit, typed, Mistakes(shown), status=shown.status)
    hub.bell.ring()
    return visit.go(f"/deliveries/recoveries/{begun.id}")


async def _form(visit: SignedIn, typed: dict[str, str], mistakes: Mistakes, *, status: int = 200) -> Response:
    async with visit.console.db.reading() as tx:
        choices = await list_choices(tx, visit.organization_id)
        is_known = any(typed["provider_id"] == each.id for group in choices for each in group.providers)
        before = await reads.list_recoveries(tx, typed["provider_id"], limit=MOST_SHOWN) if is_known else []
    values = {"typed": typed, "choices": choices, "before": before, "periods": SPELLED, "since": SINCE}
    return visit.render("recover.html", status=status, mistakes=mistakes, **values)


def _since_ms(visit: SignedIn) -> int:
    period = visit.form["period"]
    if period == SINCE:
        found = checked(since=partial(parse_moment, "since", visit.form["since"].strip()))
        return int(found["since"])
    if period not in PERIODS:
        raise wrong("period", "must be chosen")
    return now_ms(visit) - PERIODS[period]


async def show_recovery(visit: SignedIn) -> Response:
    async with visit.console.db.reading() as tx:
        values = await _progress(tx, visit)
    provider = values["provider"]
    version = live.version_of(values["recovery"], values["waiting"], provider.name, provider.state, provider.deleted_at)
    if live.is_unchanged(visit, version):
        return live.not_modified(visit, version)
    return live.render(visit, "recovery", version, most=holding.MOST_COUNTED, **values)


async def _progress(tx: Transaction, visit: SignedIn) -> dict[str, Any]:
    found = await reads.get_recovery(tx, str(visit.request.path_params["recovery_id"]), visit.organization_id)
    provider = await reads.get_destination(tx, found.provider_id, visit.organization_id)
    waiting = await holding.count_queued(tx, provider_id=found.provider_id)
    return {"recovery": found, "provider": provider, "waiting": waiting}
