"""How the tests make API keys in the browser, and read the pages about them."""

import html
import re
from typing import Any

import httpx

from billhook.accounts.installation import Installation
from billhook.auth import manage
from billhook.auth.model import Client
from tests.console.support import submit
from tests.support import OPERATOR, Registered

KEYS = "/console/settings/api-keys"
NEW = f"{KEYS}/new"
HOSTILE = "<script>alert(1)</script>\"'&{{ 7*7 }}"

GOOD: dict[str, Any] = {
    "name": "nightly report",
    "description": "Ask Ada.\nIts secret is in the vault.",
    "scope": ["groups:read", "notifications:send"],
    "lifespan": "30",
    "unit": "m",
    "networks": "127.0.0.0/8\n2001:db8::/32",
}


def page_of(key: Registered) -> str:
    return f"{KEYS}/{key.client.id}"


def copied(page: httpx.Response, field: str) -> str:
    """What the button beside that field would copy."""
    found = re.search(rf'id="{field}"[^>]*value="([^"]*)"', page.text)
    assert found is not None, f"no {field} on the page"
    return html.unescape(found[1])


def unseen(page: httpx.Response, field: str) -> str:
    """What the form sends along unseen."""
    found = re.search(rf'type="hidden" name="{field}" value="([^"]+)"', page.text)
    assert found is not None, f"no {field} on the page"
    return found[1]


def credentials(page: httpx.Response) -> dict[str, str]:
    return {"client_id": copied(page, "client-id"), "client_secret": copied(page, "client-secret")}


def mistakes(page: httpx.Response) -> dict[str, str]:
    """By the field that each stands beside."""
    found = re.findall(r'class="mistake" id="(\w+)-mistake">([^<]*)<', page.text)
    return {field: html.unescape(message) for field, message in found}


def names(page: httpx.Response) -> list[str]:
    return [html.unescape(name) for name in re.findall(r'<td class="name"><a [^>]*>([^<]*)</a>', page.text)]


def text_of(page: httpx.Response) -> str:
    """As one reads it: no tags, no breaks."""
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", page.text)).split())


async def works(http: httpx.AsyncClient, given: dict[str, str]) -> bool:
    return (await http.post("/auth", json=given)).status_code == 201


async def make(browser: httpx.AsyncClient, **fields: Any) -> httpx.Response:
    return await submit(browser, NEW, NEW, **GOOD | fields)


async def stored(installation: Installation, key: str) -> Client:
    async with installation.db.reading() as tx:
        return await manage.get(tx, key, author=OPERATOR)
