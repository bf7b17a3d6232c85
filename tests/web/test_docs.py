"""The documents of the API need nothing from elsewhere and cover every route."""

import re
from html.parser import HTMLParser
from typing import Any

import httpx
import pytest

from billhook.web.docs import operations

OUTSIDE = re.compile(r"(?:https?:)?//[^\s\"'<>]+")


class Addresses(HTMLParser):
    """Collects everything that a browser would load or follow."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.tags: set[str] = set()
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.found += [value or "" for name, value in attrs if name in ("src", "href", "action", "srcset", "data")]


async def document(http: httpx.AsyncClient) -> dict[str, Any]:
    found: dict[str, Any] = (await http.get("/openapi.json")).json()
    return found


@pytest.mark.parametrize("path", ["/docs", "/docs.css", "/openapi.json"])
async def test_no_document_names_an_outside_address(http: httpx.AsyncClient, path: str) -> None:
    answer = await http.get(path)
    assert answer.status_code == 200
    assert OUTSIDE.findall(answer.text) == []


async def test_the_page_loads_only_what_stands_beside_it(http: httpx.AsyncClient) -> None:
    page = Addresses((await http.get("/docs")).text)
    assert sorted(page.found) == ["docs.css", "openapi.json"]
    assert not page.tags & {"script", "iframe", "img", "style"}


async def test_the_page_forbids_everything_but_its_own_style(http: httpx.AsyncClient) -> None:
    answer = await http.get("/docs")
    policy = dict(part.strip().split(" ", 1) for part in answer.headers["content-security-policy"].split(";"))
    assert policy["default-src"] == "'none'"
    assert policy["style-src"] == "'self'"
    assert policy["frame-ancestors"] == "'none'"
    assert answer.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(
    ("path", "media_type"),
    [("/docs", "text/html"), ("/docs.css", "text/css"), ("/openapi.json", "application/json")],
)
async def test_each_document_says_what_it_is(http: httpx.AsyncClient, path: str, media_type: str) -> None:
    assert (await http.get(path)).headers["content-type"].startswith(media_type)


async def test_the_page_shows_every_operation_of_the_document(http: httpx.AsyncClient) -> None:
    page = (await http.get("/docs")).text
    shown = operations(await document(http))
    assert ("POST", "/auth") in {(item["method"], item["path"]) for item in shown}
    assert all(f'<details id="{item["method"]}{item["path"]}">' in page for item in shown)


async def test_every_reference_in_the_document_leads_somewhere(http: httpx.AsyncClient) -> None:
    text, schemas = (await http.get("/openapi.json")).text, (await document(http))["components"]["schemas"]
    assert {name for name in re.findall(r"#/components/schemas/([^\"]+)", text)} <= schemas.keys()


async def test_every_documented_error_has_the_shape_of_errors(http: httpx.AsyncClient) -> None:
    found = {
        answer["content"]["application/json"]["schema"]["$ref"].rsplit("/", 1)[-1]
        for item in (await document(http))["paths"].values()
        for operation in item.values()
        for status, answer in operation["responses"].items()
        if status >= "400" and answer.get("content")
    }
    assert found <= {"Problem", "OAuthProblem"}


def test_what_a_description_says_cannot_become_markup() -> None:
    (shown,) = operations(
        {"paths": {"/x": {"get": {"summary": "<b>", "responses": {"200": {"description": "Fine."}}}}}}
    )
    assert (shown["summary"], shown["body"], shown["responses"][0]["schema"]) == ("<b>", None, "")
