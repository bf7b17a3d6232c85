"""The pages of groups and providers as the tests use them: without a script, a form at a time."""

import html
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from html.parser import HTMLParser
from urllib.parse import urlencode

import httpx

START = "/console/settings/notifications"
HOSTILE = "<script>alert(1)</script>\"'&{{ 7*7 }}"
FORM = {"Content-Type": "application/x-www-form-urlencoded"}

Pairs = list[tuple[str, str]]


@dataclass(frozen=True)
class Sheet:
    """A form as a browser has it: where it goes, and what is in it, in its order."""

    action: str
    pairs: Pairs = field(default_factory=list)

    def __getitem__(self, name: str) -> str:
        return self.all(name)[0]

    def all(self, name: str) -> list[str]:
        return [value for given, value in self.pairs if given == name]

    def typed(self, **values: str) -> "Sheet":
        """Other values in the fields of these names."""
        assert values.keys() <= {name for name, _ in self.pairs}, self.pairs
        return replace(self, pairs=[(name, values.get(name, value)) for name, value in self.pairs])

    def with_header(self, key: str, value: str) -> "Sheet":
        """Typed into the last row of headers."""
        last = {name: len(self.pairs) - 1 - [n for n, _ in reversed(self.pairs)].index(name) for name in KEY_AND_VALUE}
        pairs = list(self.pairs)
        pairs[last["header_key"]], pairs[last["header_value"]] = ("header_key", key), ("header_value", value)
        return replace(self, pairs=pairs)


KEY_AND_VALUE = ("header_key", "header_value")


class Reader(HTMLParser):
    """Finds the forms of a page. What is in a <template> is none of its fields."""

    def __init__(self) -> None:
        super().__init__()
        self.sheets: list[Sheet] = []
        self._is_template = False
        self._select = self._area = ""
        self._options: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attributes}
        if tag == "form":
            self.sheets.append(Sheet(given.get("action", "")))
        elif tag == "template":
            self._is_template = True
        elif self.sheets and not self._is_template:
            self._take(tag, given)

    def _take(self, tag: str, given: dict[str, str]) -> None:
        if tag == "input" and (given.get("type") != "radio" or "checked" in given):
            self._put(given["name"], given["value"]) if "name" in given else None
        elif tag == "textarea":
            self._area = given["name"]
        elif tag == "select":
            self._select, self._options = given["name"], []
        elif tag == "option":
            self._options.append("")

    def handle_data(self, data: str) -> None:
        if self._area:
            self._put(self._area, data.removeprefix("\n"))
            self._area = ""
        elif self._select and self._options:
            self._options[-1] += data.strip()

    def handle_endtag(self, tag: str) -> None:
        if tag == "template":
            self._is_template = False
        elif tag == "select":
            self._put(self._select, self._options[0])
            self._select = ""

    def _put(self, name: str, value: str) -> None:
        self.sheets[-1].pairs.append((name, value))


def sheet(page: httpx.Response, ending: str = "") -> Sheet:
    """The first form of the page whose address ends so."""
    assert page.status_code < 500, page.text
    reader = Reader()
    reader.feed(page.text)
    return next(each for each in reader.sheets if each.action.endswith(ending) and "sign-out" not in each.action)


async def press(browser: httpx.AsyncClient, form: Sheet, *, do: str = "", to: str = "") -> httpx.Response:
    """Send the form by its first button, by the one that is called `do`, or to another address."""
    pairs: Iterable[tuple[str, str]] = [*form.pairs, *([("do", do)] if do else [])]
    return await browser.post(to or form.action, content=urlencode(list(pairs)), headers=FORM)


async def follow(browser: httpx.AsyncClient, answer: httpx.Response) -> httpx.Response:
    assert answer.status_code == 303, text_of(answer)
    return await browser.get(answer.headers["location"])


def mistakes(page: httpx.Response) -> dict[str, str]:
    """By the field that each stands beside."""
    found = re.findall(r'class="mistake" id="([^"]+)-mistake">([^<]*)<', page.text)
    return {html.unescape(name): html.unescape(message) for name, message in found}


def text_of(page: httpx.Response) -> str:
    """As one reads it: no tags, no breaks."""
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", page.text)).split())


def request_of(page: httpx.Response) -> str:
    """The request that the page says it would send."""
    found = re.search(r'<pre tabindex="0" aria-label="The request">(.*?)</pre>', page.text, re.DOTALL)
    assert found is not None, text_of(page)
    return html.unescape(found[1])


def address(page: httpx.Response) -> str:
    """Of this page, without what the last one left behind."""
    return page.url.path


async def add_group(browser: httpx.AsyncClient, name: str = "Budget alerts") -> httpx.Response:
    """Its page."""
    form = sheet(await browser.get(START), "/groups").typed(name=name)
    return await follow(browser, await press(browser, form))


async def provider_form(browser: httpx.AsyncClient, group: httpx.Response) -> httpx.Response:
    return await browser.get(f"{address(group)}/providers/new")


async def add_provider(
    browser: httpx.AsyncClient,
    group: httpx.Response,
    url: str = "https://receiver.example/hook",
    *headers: tuple[str, str],
    name: str = "Pager",
    method: str = "POST",
) -> httpx.Response:
    """Its page, as it is right after it was saved."""
    form = sheet(await provider_form(browser, group), "/new")
    form = form.typed(name=name, server_url=url, request_method=method)
    for key, value in headers:
        form = sheet(await press(browser, form, do="add"), "/new").with_header(key, value)
    return await follow(browser, await press(browser, form))
