"""Deliveries as they may stand, and the pages that show them."""

import html
import re
from typing import Any

import httpx
import orjson
from sqlalchemy import insert

from billhook.console.context import HOME
from billhook.delivery.accept import Accepted
from billhook.delivery.store import attempts
from billhook.storage.database import Database
from tests.delivery.support import Team, a_send, answers_to

LIST = f"{HOME}/deliveries"
HOSTILE = """<script>alert('1')</script><img src=x onerror="alert(2)"></pre></textarea>&amp;"""
ETAG = re.compile(r'data-etag="([0-9a-f]+)"')
TIMINGS = {"dns": None, "connect": 1.5, "tls": None, "first_byte": 12.0, "total": 13.25}


async def notify(team: Team, title: str = "Budget exceeded", content: str = "by 5 %", **fields: Any) -> Accepted:
    (answer,) = await answers_to(team.installation, [a_send(team, title, content, **fields)])
    assert isinstance(answer, Accepted)
    return answer


async def delivery_to(team: Team, title: str = "Budget exceeded", content: str = "by 5 %", **fields: Any) -> str:
    """The id of the delivery to its first provider."""
    return (await notify(team, title, content, **fields)).deliveries[0].id


async def add_attempt(db: Database, delivery_id: str, number: int = 1, **values: Any) -> None:
    detail = {"address": "192.0.2.7:443", "timings": TIMINGS, "headers": [["x-seen", "yes"]], "truncated": False}
    row = {"at_ms": 1_780_315_200_000, "status": None, "error": None, "next_ms": None, "body": ""} | values
    async with db.transaction() as tx:
        added = {"delivery_id": delivery_id, "number": number, "detail": orjson.dumps(detail).decode(), **row}
        await tx.execute(insert(attempts).values(**added))


async def page(browser: httpx.AsyncClient, path: str, *, status: int = 200, **arguments: Any) -> str:
    answer = await browser.get(path, **arguments)
    assert answer.status_code == status, answer.text
    return answer.text


def text_of(shown: str) -> str:
    """What a reader sees of it: without tags, with single spaces."""
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", shown)).split())


def lines_of(shown: str) -> list[str]:
    """The ids of the deliveries that are listed, in their order."""
    return re.findall(r'<tr id="(dlv_[0-9a-z]+)"', shown)


async def part(browser: httpx.AsyncClient, path: str, name: str, etag: str) -> httpx.Response:
    """Ask for the live part of a page as the script does, which has seen `etag`."""
    return await browser.get(path, headers={"X-Fragment": name, "If-None-Match": f'"{etag}"'})


def etag_of(shown: str) -> str:
    found = ETAG.search(shown)
    assert found is not None, "the page has no live part"
    return found[1]
