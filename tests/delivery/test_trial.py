"""Test-sends: how many at once, and what settings they use."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest

from billhook.accounts.installation import Installation
from billhook.delivery import trial
from billhook.delivery.context import Hub, open_hub
from billhook.delivery.trial import MOST_AT_ONCE, with_changes
from billhook.delivery.views import exchange_view, request_line
from billhook.errors import InvalidParameters, RateLimited
from billhook.groups.manage import ProviderSpec
from billhook.providers.kinds import MASK, Message
from billhook.web.metrics import Metrics
from tests.delivery.floor import provider_at, when
from tests.delivery.receivers import Gate
from tests.groups.setting import make_group, make_provider
from tests.outbound.receivers import RawReceiver
from tests.support import another_organization, on_one_engine

MESSAGE = Message("Test", "content")


@pytest.fixture
async def hub(installation: Installation) -> AsyncIterator[Hub]:
    async with open_hub(installation, Metrics()) as opened:
        yield opened


@on_one_engine
async def test_an_organization_may_run_only_so_many_tests_at_once(installation: Installation, hub: Hub) -> None:
    gate = Gate()
    async with RawReceiver(gate) as receiver:
        ours = await provider_at(installation, receiver.url())
        running = [asyncio.create_task(hub.trials.run(ours, MESSAGE, now_ms=0)) for _ in range(MOST_AT_ONCE)]
        await when(lambda: gate.holding == MOST_AT_ONCE)
        with pytest.raises(RateLimited) as refused:
            await hub.trials.run(ours, MESSAGE, now_ms=0)
        assert "Retry-After" in refused.value.headers
        elsewhere = await make_group(installation, organization_id=await another_organization(installation))
        theirs, _ = await make_provider(installation, elsewhere.id, server_url=receiver.url())
        running.append(asyncio.create_task(hub.trials.run(theirs, MESSAGE, now_ms=0)))
        await when(lambda: gate.holding == MOST_AT_ONCE + 1)
        gate.open()
        assert {(await each).status for each in running} == {200}
        assert (await hub.trials.run(ours, MESSAGE, now_ms=0)).status == 200


@on_one_engine
async def test_a_test_whose_caller_has_left_gives_its_place_back(installation: Installation, hub: Hub) -> None:
    gate = Gate()
    async with RawReceiver(gate) as receiver:
        ours = await provider_at(installation, receiver.url())
        running = [asyncio.create_task(hub.trials.run(ours, MESSAGE, now_ms=0)) for _ in range(MOST_AT_ONCE)]
        await when(lambda: gate.holding == MOST_AT_ONCE)
        for each in running:
            each.cancel()
        await asyncio.wait(running)
        gate.open()
        assert (await hub.trials.run(ours, MESSAGE, now_ms=0)).status == 200


@on_one_engine
async def test_what_is_too_long_for_the_changed_method_is_refused_before_anything_is_sent(
    installation: Installation, hub: Hub
) -> None:
    async with RawReceiver() as receiver:
        saved = await provider_at(installation, receiver.url())
        changed = with_changes(saved, {"request_method": "GET"})
        with pytest.raises(InvalidParameters, match="too long for GET"):
            await hub.trials.run(changed, Message("t", "x" * 9000), now_ms=0)
    assert receiver.requests == []


@on_one_engine
async def test_a_test_shows_what_was_asked_also_when_nobody_answers(installation: Installation, hub: Hub) -> None:
    saved = await provider_at(installation, "http://127.0.0.1:9/in?token=query-secret")
    came = await hub.trials.run(saved, MESSAGE, now_ms=0)
    shown = exchange_view(came, at_ms=0).request
    assert came.error == "connection_refused"
    assert shown is not None
    assert request_line(shown) == f"POST http://127.0.0.1:9/in?{MASK}"
    assert ("webhook-test", "true") in [(each.key, each.value) for each in shown.headers]


@on_one_engine
async def test_changes_leave_the_saved_provider_as_it_is(installation: Installation) -> None:
    group = await make_group(installation)
    saved, _ = await make_provider(installation, group.id)
    masked = [{"key": "Authorization", "value": MASK}]
    url = "https://receiver.example/other"
    changed = with_changes(saved, {"name": "other", "server_url": url, "request_headers": masked})
    assert changed.config["server_url"] == url
    assert changed.config["request_headers"] == saved.config["request_headers"]
    assert (changed.id, changed.secrets) == (saved.id, saved.secrets)
    assert saved.config["server_url"] != url


def test_an_unsaved_provider_signs_with_a_secret_of_its_own() -> None:
    fields = {"server_url": "https://receiver.example/", "request_method": "POST"}
    spec = ProviderSpec(type="Webhook", name="test", fields=fields)
    made = [trial.unsaved(spec, organization_id="org_1", group_id="grp_1", now=datetime.now(UTC)) for _ in range(2)]
    assert made[0].secrets != made[1].secrets
    assert made[0].live_secrets(0)[0].startswith("whsec_")
