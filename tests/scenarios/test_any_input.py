"""Any text in the body of a send and in the provider form: refused by name or kept as it is, never a failure."""

import json
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from billhook.accounts.installation import Installation
from billhook.app import App
from billhook.delivery.accept import LARGEST_CONTENT, LONGEST_TITLE
from billhook.providers.headers import TOKEN, VALUE
from billhook.providers.kinds import MASK
from billhook.settings import Settings
from billhook.web.routes import LARGEST_BODY
from tests.console.group_pages import FORM, add_group, address, follow, mistakes, sheet
from tests.console.support import add_user, signed_in
from tests.support import on_one_engine
from tests.tally import tally

pytestmark = on_one_engine
SEND = "POST /api/v1/groups/{group_id}/notifications"
JSON = {"Content-Type": "application/json"}

ODD = "\x00\x01\n\r\t\x1b\x7f\x85\u2028\u200b\u202e\ufeff\ud800\udfff\ufffe\U0001f4a9\\\"'<>&{}%;é"
TEXTS = st.one_of(
    st.text(max_size=30),
    st.text(alphabet=ODD, max_size=12),
    st.sampled_from(
        ["", " ", "a" * LONGEST_TITLE, "é" * (LONGEST_TITLE + 1), "x" * LARGEST_CONTENT, "\U0001f4a9" * 9000]
    ),
    st.sampled_from(["<script>alert(1)</script>", "{{ 7*7 }}", "' OR 1=1 --", "../../etc/passwd", "\r\nX-Evil: 1"]),
)
SCALARS = st.one_of(
    TEXTS, st.none(), st.booleans(), st.integers(), st.floats(), st.sampled_from([2**63, -(2**200), 1e308])
)
VALUES = st.one_of(SCALARS, st.lists(SCALARS, max_size=2), st.dictionaries(TEXTS, SCALARS, max_size=2))
NAMES = st.sampled_from(["title", "content", "Title", "title\x00", "provider_id", "group_id", "__proto__", ""])


@st.composite
def bodies(draw: st.DrawFn) -> bytes:
    """Mostly of the right shape; some members twice, some too deep, some not JSON at all."""
    members = draw(st.lists(st.tuples(NAMES, VALUES), max_size=3))
    members += [(name, draw(TEXTS | VALUES)) for name in ("title", "content") if draw(st.integers(0, 9))]
    written = ",".join(f"{json.dumps(name)}:{json.dumps(value)}" for name, value in members)
    whole = "{%s}" % written  # noqa: UP031 - braces
    deep = draw(st.sampled_from([0] * 9 + [1, 200, 30_000]))
    raw = ("[" * deep + whole + "]" * deep).encode()
    return draw(st.sampled_from([raw] * 8 + [raw[:-1], raw + b"x", raw.replace(b'"', b"'"), b"\xff" + raw, raw[::-1]]))


MESSAGES = st.fixed_dictionaries({"title": TEXTS, "content": TEXTS})


@dataclass(frozen=True)
class Sender:
    http: httpx.AsyncClient
    group_id: str
    headers: dict[str, str]

    async def send(self, body: bytes) -> httpx.Response:
        path = f"/api/v1/groups/{self.group_id}/notifications"
        answer = await self.http.post(path, content=body, headers=self.headers | JSON)
        tally.answered("send body", SEND, answer.status_code)
        return answer


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return settings.model_copy(update={"max_providers": 1000})


@pytest.fixture
async def sender(http: httpx.AsyncClient, headers: dict[str, str]) -> Sender:
    made = await http.post("/api/v1/groups", json={"name": "any"}, headers=headers)
    return Sender(http, made.json()["data"]["id"], headers)


def told(answer: httpx.Response) -> set[str]:
    """The fields that a refusal names, in the one shape of all errors."""
    body = answer.json()
    assert body.keys() - {"errors"} == {"code", "message"} and body["message"]
    return {each["field"] for each in body.get("errors", [])}


@tally.settings(120)
@given(body=bodies())
async def test_any_body_of_a_send_is_accepted_or_refused_in_words(sender: Sender, body: bytes) -> None:
    answer = await sender.send(body)
    assert answer.status_code in (202, 400, 413), answer.text
    if answer.status_code != 202:
        told(answer)
        assert answer.status_code == 413 or len(body) <= LARGEST_BODY


def is_message(title: str, content: str) -> dict[str, bool]:
    """By field, whether it may be sent: written again here, from the documentation."""
    return {
        "title": 1 <= len(title) <= 256 and is_clean(title),
        "content": 1 <= len(content.encode("utf-8", "surrogatepass")) <= 32_768 and is_clean(content),
    }


def is_clean(text: str) -> bool:
    return "\0" not in text and not re.search("[\ud800-\udfff]", text)


@tally.settings(80)
@given(message=MESSAGES)
async def test_a_message_comes_back_exactly_or_its_fields_are_named(sender: Sender, message: dict[str, str]) -> None:
    answer, right = await sender.send(json.dumps(message).encode()), is_message(**message)
    if not is_unicode(message):  # which no JSON is: then nobody can tell the fields apart
        assert answer.status_code == 400
    elif all(right.values()):
        assert answer.status_code == 202, answer.text
        path = f"/api/v1/notifications/{answer.json()['data']['id']}"
        kept = (await sender.http.get(path, headers=sender.headers)).json()["data"]
        assert {name: kept[name] for name in message} == message
    else:
        assert answer.status_code == 400
        assert told(answer) == {name for name, is_right in right.items() if not is_right}


def is_unicode(message: dict[str, str]) -> bool:
    return not any(re.search("[\ud800-\udfff]", text) for text in message.values())


async def test_a_member_that_is_given_twice_counts_once(sender: Sender) -> None:
    """The last one, as in nearly all readers of JSON; and what is stored is what was checked."""
    answer = await sender.send(b'{"title": "\\u0000", "title": "last", "content": "two"}')
    assert answer.status_code == 202
    path = f"/api/v1/notifications/{answer.json()['data']['id']}"
    assert (await sender.http.get(path, headers=sender.headers)).json()["data"]["title"] == "last"


@dataclass(frozen=True)
class Desk:
    """Somebody at the provider form."""

    browser: httpx.AsyncClient
    group: httpx.Response
    form_token: str

    async def save(self, pairs: list[tuple[str, str]], *, to: str = "new") -> httpx.Response:
        sent = "&".join(f"{name}={quoted(value)}" for name, value in [*pairs, ("form_token", self.form_token)])
        path = f"{address(self.group)}/providers/{to}"
        answer = await self.browser.post(path, content=sent.encode(), headers=FORM)
        tally.answered("provider form", f"POST /console/…/providers/{to}", answer.status_code)
        return answer


def quoted(value: str) -> str:
    """As browsers would, but surrogates go through, to see what becomes of them."""
    return "".join(f"%{byte:02X}" for byte in value.encode("utf-8", "surrogatepass"))


@pytest.fixture
async def desk(app: App, installation: Installation) -> AsyncIterator[Desk]:
    person = await add_user(installation, email="admin@example.com")
    async with signed_in(app, installation, person) as browser:
        group = await add_group(browser)
        form = sheet(await browser.get(f"{address(group)}/providers/new"), "/new")
        yield Desk(browser, group, form["form_token"])


def mostly(right: st.SearchStrategy[str], other: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """One in six is something else: else hardly any form would be right in all of its fields."""
    return st.integers(0, 5).flatmap(lambda roll: other if roll == 5 else right)


TYPED = TEXTS.map(lambda text: text[:3000])
PLAIN = st.text(alphabet="aé\u4e2d <>&\"'{}", min_size=1, max_size=20).filter(lambda text: text.strip())
URLS = st.sampled_from(["https://receiver.example/hook?a=1&b=<2>", "http://[::1]:8080/", "https://BÜCHER.example/ü"])
FIELDS = {
    "type": mostly(st.just("Webhook"), TYPED),
    "name": mostly(PLAIN, TYPED),
    "server_url": mostly(
        URLS, TYPED | TYPED.map("https://receiver.example/{}".format) | TYPED.map("http://{}/".format)
    ),
    "request_method": mostly(st.sampled_from(["GET", "POST"]), TYPED),
    "rate_limit": mostly(
        st.sampled_from(["", "5", " 7 "]), TYPED | st.sampled_from(["0", "-1", "1001", "٣", "9" * 400])
    ),
}
KEYS = mostly(st.sampled_from(["X-One", "authorization", " X-Two "]), TYPED | st.just("Host"))
HEADERS = st.lists(st.tuples(KEYS, mostly(st.just("Bearer <x>"), TYPED | st.just(MASK))), max_size=2)


def as_shown(text: str) -> str:
    """Browsers and our form know one line break."""
    return text.replace("\r\n", "\n")


@tally.settings(60)
@given(typed=st.fixed_dictionaries(FIELDS), headers=HEADERS)
async def test_whatever_is_typed_into_the_provider_form_is_kept_or_comes_back_beside_its_mistake(
    desk: Desk, typed: dict[str, str], headers: list[tuple[str, str]]
) -> None:
    rows = [
        pair for key, value in headers for pair in (("header_key", key), ("header_value", value), ("header_kept", ""))
    ]
    answer = await desk.save([*typed.items(), *rows])
    texts = [*typed.values(), *(text for pair in headers for text in pair)]
    if any("\0" in text or re.search("[\ud800-\udfff]", text) for text in texts):
        assert answer.status_code == 400
    elif sum(len(quoted(text)) for text in texts) > 500_000:
        assert answer.status_code in (400, 413)
    elif answer.status_code == 303:
        await must_be_kept(desk, answer, typed, headers)
    else:
        assert answer.status_code == 400, answer.text
        must_come_back(answer, typed, headers)


def must_come_back(page: httpx.Response, typed: dict[str, str], headers: list[tuple[str, str]]) -> None:
    """In its field, whatever it is, so that nobody types it again; and never as anything but text."""
    form = sheet(page, "/new")
    assert mistakes(page), page.text
    for name in ("name", "server_url", "rate_limit"):
        assert form[name] == as_shown(typed[name]), name
    assert form.all("header_key") == [as_shown(key) for key, _ in headers]
    assert form.all("header_value") == [as_shown(value) for _, value in headers]
    assert "<script>alert" not in page.text


async def must_be_kept(
    desk: Desk, saved: httpx.Response, typed: dict[str, str], headers: list[tuple[str, str]]
) -> None:
    """As it was typed but for the blanks around it, and only when the rules allow it."""
    page = await follow(desk.browser, saved)
    form = sheet(await desk.browser.get(f"{address(page)}/edit"), "/edit")
    filled = [(key.strip(" \t"), value) for key, value in headers if key.strip() or value.strip()]
    assert form["name"] == typed["name"].strip()
    assert form["server_url"] == typed["server_url"].strip(" ")
    assert form.all("header_key") == [key for key, _ in filled]
    assert form.all("header_value") == [MASK] * len(filled)
    assert all(TOKEN.fullmatch(key) and VALUE.fullmatch(value.strip(" \t")) for key, value in filled)
    assert form["rate_limit"] == ("" if not int(typed["rate_limit"].strip() or 0) else typed["rate_limit"].strip())


@tally.settings(30)
@given(
    pairs=st.lists(
        st.tuples(st.sampled_from([*FIELDS, "header_key", "header_value", "header_kept", "do"]), TYPED), max_size=12
    ),
    to=st.sampled_from(["new", "preview", "test"]),
)
async def test_any_fields_in_any_order_are_answered(desk: Desk, pairs: list[tuple[str, str]], to: str) -> None:
    answer = await desk.save(pairs, to=to)
    assert answer.status_code in (200, 303, 400, 413, 429), answer.text
    assert "<script>alert" not in answer.text


KINDS: dict[str, Any] = {
    "text/plain": b"name=x",
    "multipart/form-data; boundary=x": b"--x--",
    "application/json": b"{}",
}


async def test_a_form_in_another_dress_is_refused(desk: Desk) -> None:
    for kind, body in KINDS.items():
        path = f"{address(desk.group)}/providers/new"
        answer = await desk.browser.post(path, content=body, headers={"Content-Type": kind})
        tally.answered("provider form", "POST /console/…/providers/new", answer.status_code)
        assert answer.status_code in (400, 403)
