"""One route past the framework: it answers what the framework would, and leaves all else to it."""

from collections.abc import AsyncIterator

import httpx
import pytest
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from billhook.errors import GroupNotFound
from billhook.web.express import Express
from billhook.web.problems import HANDLERS

RAISED: dict[str, Exception] = {
    "known": GroupNotFound(),
    "http": HTTPException(413),
    "bug": ZeroDivisionError("a bug"),
}


async def greet(request: Request) -> Response:
    name = request.path_params["name"]
    if name in RAISED:
        raise RAISED[name]
    return PlainTextResponse(f"{request.app.state.greeting} {name}")


def framework() -> Starlette:
    app = Starlette(routes=[Route("/greet/{name}", greet, methods=["POST"])], exception_handlers=HANDLERS)
    app.router.redirect_slashes = False
    app.state.greeting = "Hello"
    return app


@pytest.fixture(params=["past the framework", "through the framework"])
async def http(request: pytest.FixtureRequest) -> AsyncIterator[httpx.AsyncClient]:
    app = framework()
    asked = Express(app, "/greet/{name}", greet, method="POST") if request.param == "past the framework" else app
    transport = httpx.ASGITransport(asked, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        yield client


@pytest.mark.parametrize(
    ("method", "path", "status", "body"),
    [
        ("POST", "/greet/ann", 200, "Hello ann"),
        ("POST", "/greet/a%20b", 200, "Hello a b"),
        ("POST", "/greet/known", 404, "group/not-found"),
        ("POST", "/greet/http", 413, "code"),
        ("POST", "/greet/bug", 500, "internal/error"),
        ("GET", "/greet/ann", 405, "code"),
        ("POST", "/greet/ann/", 404, "code"),
        ("POST", "/greet", 404, "code"),
    ],
)
async def test_the_answers_are_the_same(
    http: httpx.AsyncClient, method: str, path: str, status: int, body: str
) -> None:
    answer = await http.request(method, path)
    assert (answer.status_code, body in answer.text) == (status, True)
    assert "a bug" not in answer.text


async def test_a_bug_is_answered_and_goes_on_to_whoever_logs_it() -> None:
    transport = httpx.ASGITransport(Express(framework(), "/greet/{name}", greet, method="POST"))
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        with pytest.raises(ZeroDivisionError):
            await client.post("/greet/bug")
        assert (await client.post("/greet/known")).status_code == 404
