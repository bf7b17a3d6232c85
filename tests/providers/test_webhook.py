"""The Webhook type: settings in and out, and the request byte for byte."""

import json
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlsplit

import pytest
import standardwebhooks
import svix.webhooks
from hypothesis import given
from hypothesis import strategies as st

from billhook import __version__
from billhook.errors import InvalidParameters
from billhook.providers.kinds import MASK, Message, Stamp
from billhook.providers.signing import new_signing_secret, signature
from billhook.providers.webhook import OPEN, Webhook

WEBHOOK = Webhook()
SECRET = new_signing_secret()
STAMP = Stamp("dlv_01", 1_700_000_000, (SECRET,))
MESSAGE = Message("Budget überschritten", 'Now at "120 %" & rising\n')
POST = {
    "server_url": "https://x.example/hook?k=1",
    "request_method": "POST",
    "request_headers": [{"key": "X-B", "value": "2"}, {"key": "X-A", "value": "1"}, {"key": "X-B", "value": "3"}],
}
GET = POST | {"request_method": "GET"}

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=200)


def problems(given: dict[str, Any], kept: dict[str, Any] | None = None) -> list[str]:
    with pytest.raises(InvalidParameters) as refused:
        WEBHOOK.configure(given, kept)
    return [error.field for error in refused.value.errors]


def test_a_post_has_the_message_as_json_and_the_headers_in_order() -> None:
    sent = WEBHOOK.request(POST, MESSAGE, STAMP)
    body = '{"title":"Budget überschritten","content":"Now at \\"120 %\\" & rising\\n"}'.encode()
    assert (sent.method, sent.url, sent.body) == ("POST", "https://x.example/hook?k=1", body)
    assert sent.headers == (
        ("Content-Type", "application/json"),
        ("User-Agent", f"Billhook/{__version__}"),
        ("Accept-Encoding", "identity"),
        ("webhook-id", "dlv_01"),
        ("webhook-timestamp", "1700000000"),
        ("webhook-signature", signature([SECRET], "dlv_01", 1_700_000_000, body)),
        ("X-B", "2"),
        ("X-A", "1"),
        ("X-B", "3"),
    )


def test_a_get_has_the_message_in_its_query_and_no_body() -> None:
    sent = WEBHOOK.request(GET, MESSAGE, STAMP)
    query = "k=1&title=Budget%20%C3%BCberschritten&content=Now%20at%20%22120%20%25%22%20%26%20rising%0A"
    assert (sent.method, sent.url, sent.body) == ("GET", f"https://x.example/hook?{query}", None)
    assert sent.headers == (
        ("User-Agent", f"Billhook/{__version__}"),
        ("Accept-Encoding", "identity"),
        ("webhook-id", "dlv_01"),
        ("webhook-timestamp", "1700000000"),
        ("webhook-signature", signature([SECRET], "dlv_01", 1_700_000_000, query.encode())),
        ("webhook-signed", "query"),
        ("X-B", "2"),
        ("X-A", "1"),
        ("X-B", "3"),
    )


@pytest.mark.parametrize("config", [GET, POST])
def test_a_test_says_that_it_is_one(config: dict[str, Any]) -> None:
    assert "webhook-test" not in dict(WEBHOOK.request(config, MESSAGE, STAMP).headers)
    stamp = Stamp("dlv_01", 1, (SECRET,), is_test=True)
    names = [name for name, _ in WEBHOOK.request(config, MESSAGE, stamp).headers]
    assert dict(WEBHOOK.request(config, MESSAGE, stamp).headers)["webhook-test"] == "true"
    assert names.index("webhook-test") < names.index("X-B")


@pytest.mark.parametrize("library", [standardwebhooks.Webhook, svix.webhooks.Webhook])
@pytest.mark.parametrize("secrets", [(SECRET,), (new_signing_secret(), SECRET)])
def test_a_receiver_can_verify_both(library: type[standardwebhooks.Webhook], secrets: tuple[str, ...]) -> None:
    stamp = Stamp("dlv_01", int(datetime.now(UTC).timestamp()), secrets)
    posted = WEBHOOK.request(POST, MESSAGE, stamp)
    assert posted.body is not None
    library(SECRET).verify(posted.body, dict(posted.headers))
    got = WEBHOOK.request(GET, Message("1", "2"), stamp)
    sent = dict(got.headers)
    query = urlsplit(got.url).query
    at = datetime.fromtimestamp(stamp.timestamp, UTC)
    assert library(SECRET).sign("dlv_01", at, query) in sent["webhook-signature"].split(" ")


@given(texts, texts)
def test_whatever_is_said_arrives(title: str, content: str) -> None:
    posted = WEBHOOK.request(POST, Message(title, content), STAMP)
    assert posted.body is not None
    assert json.loads(posted.body) == {"title": title, "content": content}
    query = urlsplit(WEBHOOK.request(GET, Message(title, content), STAMP).url).query
    assert parse_qsl(query, keep_blank_values=True)[1:] == [("title", title), ("content", content)]


def test_settings_are_kept_as_given() -> None:
    assert WEBHOOK.configure(POST, None) == POST
    without = {name: value for name, value in GET.items() if name != "request_headers"}
    assert WEBHOOK.configure(without, None) == GET | {"request_headers": []}


def test_changes_leave_the_rest() -> None:
    assert WEBHOOK.configure({"request_method": "GET"}, POST) == GET
    assert WEBHOOK.configure({"server_url": "https://x.example/"}, POST) == POST | {"server_url": "https://x.example/"}
    masked = {"request_headers": [{"key": "x-b", "value": MASK}, {"key": "X-C", "value": "4"}]}
    changed = WEBHOOK.configure(masked, POST)
    assert changed["request_headers"] == [{"key": "x-b", "value": "2"}, {"key": "X-C", "value": "4"}]
    assert WEBHOOK.configure({"request_headers": []}, POST)["request_headers"] == []


def test_what_is_shown_can_be_given_back() -> None:
    shown = WEBHOOK.show(POST)
    assert shown == POST | {"request_headers": [{"key": key, "value": MASK} for key in ("X-B", "X-A", "X-B")]}
    assert WEBHOOK.configure(shown, POST) == POST


ELSEWHERE = [
    "https://y.example/",
    "http://x.example/hook",
    "https://x.example:8443/",
    "https://x.example.evil.example/",
]
THERE = ["https://x.example/other", "HTTPS://X.EXAMPLE:443/"]
MASKED = [{"key": key, "value": MASK} for key in ("X-B", "X-A", "X-B")]


@pytest.mark.parametrize("url", ELSEWHERE)
def test_what_is_stored_is_not_sent_to_another_host(url: str) -> None:
    named = [f"request_headers[{place}].value" for place in range(3)]
    assert problems({"server_url": url, "request_headers": MASKED}, POST) == named
    assert problems({"server_url": url}, POST) == ["request_headers"]
    assert problems({"server_url": url, "request_method": "PUT"}, POST) == ["request_method", "request_headers"]


@pytest.mark.parametrize("url", ELSEWHERE)
def test_another_host_gets_what_is_entered_for_it(url: str) -> None:
    for given_again in ([], [{"key": "X-B", "value": "2"}]):
        moved = {"server_url": url, "request_headers": given_again}
        assert WEBHOOK.configure(moved, POST) == POST | moved
    assert WEBHOOK.configure({"server_url": url}, POST | {"request_headers": []})["server_url"] == url


@pytest.mark.parametrize("url", THERE)
def test_another_address_on_the_same_host_keeps_what_is_stored(url: str) -> None:
    for kept in ({}, {"request_headers": MASKED}):
        assert WEBHOOK.configure({"server_url": url, **kept}, POST) == POST | {"server_url": url}


def test_every_problem_is_named_at_once() -> None:
    headers = [{"key": "Host", "value": "x"}, {"key": "X", "value": "\n"}]
    given = {"server_url": "ftp://x/", "request_method": "PUT", "request_headers": headers}
    named = ["server_url", "request_method", "request_headers[0].key", "request_headers[1].value"]
    assert sorted(problems(given)) == sorted(named)
    assert sorted(problems(given, dict(POST))) == sorted(named)


def test_what_is_missing_is_named() -> None:
    assert sorted(problems({})) == ["request_method", "server_url"]


@pytest.mark.parametrize("kept", [None, POST])
def test_a_field_that_is_not_its_own_is_named(kept: dict[str, Any] | None) -> None:
    assert problems(POST | {"colour": "red"}, kept) == ["colour"]


def test_a_mask_is_no_value_of_a_new_one() -> None:
    assert problems(POST | {"request_headers": [{"key": "A", "value": MASK}]}) == ["request_headers[0].value"]


def test_a_get_that_would_be_too_long_is_refused_and_a_post_is_not() -> None:
    room = 8000 - len("https://x.example/hook?k=1&title=t&content=")
    assert WEBHOOK.check(GET, Message("t", "c" * room)) is None
    assert "8,000 bytes" in str(WEBHOOK.check(GET, Message("t", "c" * (room + 1))))
    assert "8,000 bytes" in str(WEBHOOK.check(GET, Message("t", "ü" * 1400)))
    assert "8,000 bytes" in str(WEBHOOK.check(GET, Message("t", "c" * 32_768)))
    assert WEBHOOK.check(POST, Message("t", "ü" * 32_768)) is None


def test_what_passes_the_check_is_sent_whole() -> None:
    message = Message("t", "c" * 7000)
    assert WEBHOOK.check(GET, message) is None
    sent = WEBHOOK.request(GET, message, STAMP).url
    assert parse_qs(urlsplit(sent).query)["content"] == [message.content]


def test_what_was_asked_is_kept_without_secrets_and_without_the_message() -> None:
    kept = WEBHOOK.asked(POST, WEBHOOK.request(POST, MESSAGE, STAMP))
    assert (kept.method, kept.url) == ("POST", f"https://x.example/hook?{MASK}")
    assert kept.headers == (
        ("Content-Type", "application/json"),
        ("User-Agent", f"Billhook/{__version__}"),
        ("Accept-Encoding", "identity"),
        ("webhook-id", "dlv_01"),
        ("webhook-timestamp", "1700000000"),
        ("webhook-signature", f"v1,{MASK}"),
        ("X-B", MASK),
        ("X-A", MASK),
        ("X-B", MASK),
    )
    test = STAMP._replace(is_test=True)
    kept = WEBHOOK.asked(GET, WEBHOOK.request(GET, MESSAGE, test))
    assert (kept.method, kept.url) == ("GET", f"https://x.example/hook?{MASK}&title=…&content=…")
    assert kept.headers[5:7] == (("webhook-signed", "query"), ("webhook-test", "true"))


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://x.example", "https://x.example/"),
        ("https://x.example:8443/a/b?", "https://x.example:8443/a/b"),
        ("https://bücher.example/ä", "https://xn--bcher-kva.example/%C3%A4"),
        ("https://x.example/?dG9rZW4=", f"https://x.example/?{MASK}"),
        ("https://x.example/services/T0/B0/" + "aB3" * 8, f"https://x.example/services/T0/B0/{MASK}"),
        ("https://x.example/5f3a9c0d1e2b4a6f8c7d9e0f1a2b3c4d/in", f"https://x.example/{MASK}/in"),
        (
            "https://x.example/incoming/notifications-of-billhook",
            "https://x.example/incoming/notifications-of-billhook",
        ),
    ],
)
def test_a_url_is_kept_without_its_query_and_without_what_looks_like_a_token(url: str, shown: str) -> None:
    config = POST | {"server_url": url}
    assert WEBHOOK.asked(config, WEBHOOK.request(config, MESSAGE, STAMP)).url == shown


def test_no_header_that_a_provider_may_choose_is_shown() -> None:
    for name in OPEN:
        given = {"request_headers": [{"key": name.upper(), "value": "1"}]}
        assert problems(given, POST) == ["request_headers[0].key"]
