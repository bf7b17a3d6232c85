"""Creating an API key: what was typed becomes a key that works, or stands again beside its mistakes."""

import html
import json
import re
from typing import Any

import httpx
import pytest

from billhook.accounts.installation import Installation
from billhook.auth.model import spell_lifespan
from tests.console.key_pages import GOOD, KEYS, NEW, copied, credentials, make, mistakes, names, stored, works
from tests.support import on_one_engine


async def test_a_new_key_is_what_was_typed_and_works_at_once(
    browser: httpx.AsyncClient, http: httpx.AsyncClient, installation: Installation
) -> None:
    page = await make(browser)
    assert page.status_code == 200
    assert await works(http, credentials(page))
    key = await stored(installation, copied(page, "client-id"))
    assert (key.name, key.description) == (GOOD["name"], GOOD["description"])
    assert key.scopes == ("groups:read", "notifications:send")
    assert spell_lifespan(key.lifespan) == "30m"
    assert [str(network) for network in key.networks] == ["127.0.0.0/8", "2001:db8::/32"]


async def test_a_secret_is_shown_once_with_a_command_to_try_it_and_is_on_no_later_page(
    browser: httpx.AsyncClient, installation: Installation
) -> None:
    page = await make(browser)
    given = credentials(page)
    body = json.dumps(given, separators=(",", ":"))
    curl = f"curl -X POST http://billhook.test/auth -H 'Content-Type: application/json' -d '{body}'"
    assert curl in html.unescape(page.text)
    assert "It is shown this once" in page.text
    assert page.headers["cache-control"] == "no-store"
    assert given["client_secret"] not in str(page.url)
    for later in (KEYS, f"{KEYS}/{given['client_id']}"):
        shown = await browser.get(later)
        assert shown.status_code == 200
        assert given["client_secret"] not in shown.text
    assert given["client_secret"] not in repr(await stored(installation, given["client_id"]))


@on_one_engine
async def test_an_empty_form_offers_one_hour(browser: httpx.AsyncClient) -> None:
    page = (await browser.get(NEW)).text
    assert re.search(r'name="lifespan" value="1"', page)
    assert '<option value="h" selected>hours</option>' in page
    assert page.count('name="scope"') == 6
    assert " checked" not in page


BAD: list[tuple[dict[str, Any], dict[str, str]]] = [
    ({"name": ""}, {"name": "must have 1 to 100 characters"}),
    ({"name": "   "}, {"name": "must have 1 to 100 characters"}),
    ({"name": "x" * 101}, {"name": "must have 1 to 100 characters"}),
    ({"name": "a\x07b"}, {"name": "must not have control characters"}),
    ({"description": "x" * 1001}, {"description": "must have 0 to 1000 characters"}),
    ({"scope": []}, {"scope": "tick at least one"}),
    ({"scope": ["groups:read", "everything"]}, {"scope": "unknown: everything"}),
    ({"lifespan": "56"}, {"lifespan": "1 to 55 minutes"}),
    ({"lifespan": "0"}, {"lifespan": "1 to 55 minutes"}),
    ({"lifespan": "-1"}, {"lifespan": "1 to 55 minutes"}),
    ({"lifespan": "1.5", "unit": "h"}, {"lifespan": "1 to 24 hours"}),
    ({"lifespan": "25", "unit": "h"}, {"lifespan": "1 to 24 hours"}),
    ({"lifespan": ""}, {"lifespan": "1 to 55 minutes"}),
    ({"lifespan": "3600", "unit": ""}, {"lifespan": "1 to 55 minutes"}),
    ({"lifespan": "1", "unit": "d"}, {"lifespan": "1 to 55 minutes"}),
    ({"networks": "10.0.0.1/8"}, {"networks": "has host bits set"}),
    ({"networks": "home"}, {"networks": "must be networks"}),
    ({"networks": "192.0.2.1 " * 51}, {"networks": "at most 50"}),
    (
        {"name": "", "scope": [], "lifespan": "x", "networks": "y"},
        {"name": "must have", "scope": "tick", "lifespan": "whole number", "networks": "must be networks"},
    ),
]


@pytest.mark.parametrize(("fields", "expected"), BAD)
@on_one_engine
async def test_mistakes_stand_beside_their_fields_and_nothing_typed_is_lost(
    browser: httpx.AsyncClient, fields: dict[str, Any], expected: dict[str, str]
) -> None:
    typed = GOOD | fields
    page = await make(browser, **fields)
    assert page.status_code == 400
    found = mistakes(page)
    assert found.keys() == expected.keys()
    assert all(part in found[field] for field, part in expected.items())
    shown = html.unescape(page.text)
    assert f'name="name" type="text" value="{typed["name"]}"' in shown
    assert f'name="lifespan" value="{typed["lifespan"]}"' in shown
    assert f"\n{typed['description']}</textarea>" in shown
    assert f"\n{typed['networks']}</textarea>" in shown
    ticked = re.findall(r'name="scope" value="([^"]*)" checked', page.text)
    assert ticked == [scope for scope in typed["scope"] if scope != "everything"]
    assert names(await browser.get(KEYS)) == []
