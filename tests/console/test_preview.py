"""What is shown is what would be sent, also while it is not valid yet."""

import pytest

from billhook import __version__
from billhook.console.draft import Draft, Row
from billhook.console.preview import SAMPLE, SAMPLE_URL, preview_of, preview_of_draft
from billhook.providers.kinds import MASK, Message
from billhook.providers.registry import provider_type
from tests.console.sample import a_provider

NOW_MS = 1_794_000_000_123

POST = f"""\
POST /hook HTTP/1.1
Host: receiver.example
Content-Type: application/json
User-Agent: Billhook/{__version__}
Accept-Encoding: identity
webhook-id: dlv_…
webhook-timestamp: 1794000000
webhook-signature: v1,…
X-Key: typed
Content-Length: 89

{{"title":"Budget exceeded","content":"Team Atlas has used 105 % of its budget for June."}}"""

GET = f"""\
GET /hook?a=b&title=Budget%20exceeded&content=Team%20Atlas%20has%20used%20105%20%25%20of%20its%20budget%20for%20June. \
HTTP/1.1
Host: receiver.example:8443
User-Agent: Billhook/{__version__}
Accept-Encoding: identity
webhook-id: dlv_…
webhook-timestamp: 1794000000
webhook-signature: v1,…
webhook-signed: query

"""


def test_a_post_is_shown_line_by_line() -> None:
    draft = Draft(server_url="https://receiver.example/hook", rows=(Row("X-Key", "typed"),))
    assert preview_of_draft(draft, None, now_ms=NOW_MS).text == POST


def test_a_get_is_shown_line_by_line() -> None:
    draft = Draft(server_url="https://receiver.example:8443/hook?a=b", request_method="GET")
    assert preview_of_draft(draft, None, now_ms=NOW_MS).text == GET


def test_what_is_stored_is_shown_as_dots() -> None:
    provider = a_provider(request_headers=[{"key": "Authorization", "value": "Bearer stored"}])
    shown = preview_of_draft(Draft.of(provider), provider.config, now_ms=NOW_MS)
    assert f"Authorization: {MASK}" in shown.text
    assert "stored" not in shown.text
    assert shown.notes == ()


@pytest.mark.parametrize(
    ("draft", "note"),
    [
        (Draft(), "An example stands for the server URL until you type yours."),
        (Draft(server_url="ftp://x"), "yours must begin with http:// or https://"),
        (Draft(server_url=SAMPLE_URL, rows=(Row("Host", "x"),)), "The header Host is left out: its key"),
        (Draft(server_url=SAMPLE_URL, rows=(Row("", "x"),)), "The header without a key is left out: its key"),
        (Draft(server_url=SAMPLE_URL, rows=(Row("X", "ü"),)), "The header X is left out: its value"),
        (Draft(server_url=SAMPLE_URL, rows=(Row("X", MASK),)), "The header X is left out: its value"),
        (Draft(server_url=SAMPLE_URL, rows=(Row("X", "x"),) * 21), "The headers are left out: there must not be"),
    ],
)
def test_what_is_not_valid_yet_is_left_out_and_told(draft: Draft, note: str) -> None:
    shown = preview_of_draft(draft, None, now_ms=NOW_MS)
    assert shown.text.startswith("POST /hook HTTP/1.1\nHost: receiver.example\n")
    (said,) = shown.notes
    assert note in said


@pytest.mark.parametrize("draft", [Draft(type="Pigeon"), Draft(request_method="DELETE")])
def test_a_form_that_was_tampered_with_has_a_preview_too(draft: Draft) -> None:
    assert preview_of_draft(draft, None, now_ms=NOW_MS).text.startswith("POST /hook HTTP/1.1")


def test_what_can_never_be_sent_is_told_instead() -> None:
    config = provider_type("Webhook").show(a_provider(request_method="GET").config)
    shown = preview_of("Webhook", config, Message("T", "c" * 9000), now_ms=NOW_MS)
    assert not shown.text
    assert "too long for GET" in shown.notes[0]


def test_the_sample_shows_how_things_are_encoded() -> None:
    assert "%" in SAMPLE.content
    assert " " in SAMPLE.title
