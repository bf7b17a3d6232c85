"""What holds for every page: who may see it, its headers, and errors in the same dress."""

import httpx
import pytest
from starlette.routing import Route

from billhook.accounts.installation import Installation
from billhook.app import App
from billhook.console import routes
from billhook.console.pages import HEADERS
from tests.console.support import form_token

OPEN = ("/", "/settings", "/static/{name}", "/sign-in", "/set-up/{token}", "/invitation/{token}")
PAGES = [(method, route.path) for route in routes.ROUTES if isinstance(route, Route) for method in route.methods or ()]
CLOSED = [(method, path) for method, path in PAGES if path not in OPEN]


def filled(path: str) -> str:
    return "/console" + path.replace("{", "").replace("}", "")


@pytest.mark.parametrize(("method", "path"), sorted(CLOSED))
async def test_every_page_asks_a_stranger_to_sign_in(app: App, http: httpx.AsyncClient, method: str, path: str) -> None:
    answer = await http.request(method, filled(path))
    assert answer.status_code == 303
    assert answer.headers["location"].startswith("/console/sign-in")


@pytest.mark.parametrize("path", sorted(path for method, path in CLOSED if method == "POST"))
async def test_every_action_refuses_a_form_without_its_token(browser: httpx.AsyncClient, path: str) -> None:
    assert (await browser.post(filled(path), data={})).status_code == 403


@pytest.mark.parametrize("path", ["/settings/profile", "/sign-in", "/nowhere", "/invitation/x"])
async def test_every_page_carries_the_headers(browser: httpx.AsyncClient, path: str) -> None:
    answer = await browser.get(f"/console{path}")
    assert {name: answer.headers[name] for name in HEADERS} == HEADERS
    assert "unsafe" not in answer.headers["Content-Security-Policy"]


async def test_pages_have_no_inline_script_or_style(browser: httpx.AsyncClient) -> None:
    for path in ("/settings/profile", "/settings/users", "/sign-in"):
        text = (await browser.get(f"/console{path}")).text
        assert " style=" not in text
        assert "<style" not in text
        assert " onclick=" not in text
        assert text.count("<script") == text.count("<script src=") == 1


async def test_errors_are_pages(browser: httpx.AsyncClient) -> None:
    missing = await browser.get("/console/nowhere")
    assert (missing.status_code, missing.headers["content-type"]) == (404, "text/html; charset=utf-8")
    assert "There is no such page" in missing.text
    assert "admin@example.com" in missing.text
    wrong = await browser.put("/console/sign-in")
    assert wrong.status_code == 405
    assert "<h1>" in wrong.text


async def test_a_form_that_cannot_be_read_is_refused(browser: httpx.AsyncClient) -> None:
    action, token = "/console/settings/profile/theme", await form_token(browser, "/console/settings/profile")
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    for body in (b"theme=%FF", b"theme=%00", b"&".join(b"a=b" for _ in range(301)), b"\xff"):
        answer = await browser.post(action, content=body + b"&form_token=" + token.encode(), headers=headers)
        assert answer.status_code == 400
    large = await browser.post(action, content=b"x" * 600_000, headers=headers)
    assert (large.status_code, "more than the 512 KiB" in large.text, "<h1>" in large.text) == (413, True, True)
    assert (await browser.post(action, json={"theme": "dark"})).status_code == 400


async def test_static_files_are_kept_by_browsers_and_nothing_else_is_served(browser: httpx.AsyncClient) -> None:
    style = await browser.get("/console/static/console.css")
    assert (style.status_code, style.headers["content-type"]) == (200, "text/css; charset=utf-8")
    assert "immutable" in style.headers["cache-control"]
    for name in ("nothing.css", "..%2f..%2fapp.py", "%2e%2e"):
        assert (await browser.get(f"/console/static/{name}")).status_code == 404


async def test_a_one_time_link_is_not_in_the_log(
    app: App, installation: Installation, browser: httpx.AsyncClient, capsys: pytest.CaptureFixture[str]
) -> None:
    for path in ("/invitation/very-secret-token", "/Set-up/very-secret-token", "/invitation/very-secret-token/"):
        await browser.get(f"/console{path}")
        await browser.put(f"/console{path}")
    app.asgi.access.flush()
    told = capsys.readouterr()
    assert "very-secret-token" not in told.out + told.err
    assert "/console/invitation/" in told.out + told.err
