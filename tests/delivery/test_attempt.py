"""One attempt: what a receiver says back is kept without what it was told in confidence."""

from datetime import UTC, datetime

import pytest

from billhook.delivery.attempt import build, concealed, told
from billhook.delivery.trial import unsaved
from billhook.groups.manage import ProviderSpec
from billhook.groups.model import Provider
from billhook.outbound.answer import LONGEST_VALUE
from billhook.outbound.request import Exchange, Timings
from billhook.providers.kinds import MASK

TIMINGS = Timings(None, None, None, None, 1.0)


def provider() -> Provider:
    fields = {
        "server_url": "https://receiver.example/in?token=query-secret&a=1",
        "request_method": "POST",
        "request_headers": [{"key": "Authorization", "value": "Bearer header-secret"}],
    }
    spec = ProviderSpec("Webhook", "echo", fields)
    return unsaved(spec, organization_id="org_1", group_id="grp_1", now=datetime(2026, 1, 1, tzinfo=UTC))


def answered(body: bytes, **headers: str) -> Exchange:
    return Exchange(200, None, "192.0.2.1:443", TIMINGS, tuple(headers.items()), body, truncated=False)


def test_a_receiver_that_says_everything_back_reveals_nothing() -> None:
    told = provider()
    body = f"Authorization: Bearer header-secret, token header-secret, query-secret, {told.secrets[0].secret}"
    kept = concealed(answered(body.encode(), location="/next?token=query-secret"), told)
    assert kept.body.decode() == f"Authorization: {MASK}, token {MASK}, {MASK}, {MASK}"
    assert kept.headers == (("location", f"/next?token={MASK}"),)


@pytest.mark.parametrize("length", [1, 6, len("Bearer header-secret") - 1, len("Bearer header-secret")])
def test_a_secret_in_whose_middle_the_answer_was_cut_off_is_not_kept_in_part(length: int) -> None:
    said = answered(b"you said: " + b"Bearer header-secret"[:length])._replace(truncated=True)
    assert concealed(said, provider()).body.decode() == f"you said: {MASK}"


def test_neither_is_one_in_whose_middle_the_connection_broke() -> None:
    said = answered(b"you said: Bearer head")._replace(error="network_error")
    assert concealed(said, provider()).body.decode() == f"you said: {MASK}"


def test_neither_is_one_in_a_header_that_was_cut_off() -> None:
    value = ("x" * LONGEST_VALUE + "Bearer header-secret")[7:][:LONGEST_VALUE]
    assert value.endswith("Bearer ")
    kept = concealed(answered(b"", location=value), provider())
    assert kept.headers == (("location", "x" * (LONGEST_VALUE - 7) + MASK),)


def test_an_answer_that_ends_by_itself_keeps_its_end() -> None:
    said = answered(b"you said: Bearer")
    assert concealed(said, provider()) == said


def test_all_else_is_kept_as_it_is() -> None:
    said = answered("äöü 1=a".encode(), server="receiver")
    assert concealed(said, provider()) == said


def test_what_was_asked_goes_with_what_came_of_it() -> None:
    to = provider()
    request = build(to, "Title", "said in confidence", "dlv_1", now_ms=1_700_000_000_000)
    for said in (answered(b""), answered(b"header-secret", server="receiver")):
        kept = told(said, request, to)
        assert kept.asked is not None
        assert kept.asked.url == f"https://receiver.example/in?{MASK}"
        assert ("webhook-id", "dlv_1") in kept.asked.headers
        found = repr(kept)
        for secret in ("header-secret", "query-secret", "confidence", to.secrets[0].secret):
            assert secret not in found
