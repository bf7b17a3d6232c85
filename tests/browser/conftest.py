"""A real browser on a real server. Every page is watched: no error in its console, no request to anybody else."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, Error, Page, Playwright, sync_playwright

from tests.browser.console import EMAIL, PASSWORD, Console
from tests.scenarios.processes import Billhook, Server, billhook_in

ARGUMENTS = [
    "--no-sandbox",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
MILLISECONDS = 15_000  # for whatever is waited for
SETTINGS = {"BILLHOOK_OUTBOUND_ALLOW": "127.0.0.0/8", "BILLHOOK_RETRY_SCHEDULE": "1h,1h"}


@pytest.fixture(scope="session")
def playwright() -> Iterator[Playwright]:
    with sync_playwright() as started:
        yield started


@pytest.fixture(scope="session")
def chromium(playwright: Playwright) -> Iterator[Browser]:
    """The one on the PATH, or else Playwright's own."""
    try:
        opened = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=ARGUMENTS)
    except Error as error:
        pytest.skip(f"there is no browser (install chromium, or run `playwright install chromium`): {error}")
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Billhook]:
    with billhook_in(tmp_path_factory.mktemp("console"), **SETTINGS) as started:
        yield started


@pytest.fixture(scope="module")
def server(program: Billhook) -> Server:
    return program.serve()


@pytest.fixture(scope="module")
def set_up_link(server: Server) -> str:
    """As `serve` prints it."""
    found = re.search(r"http://[\w.:]+/console/set-up/[0-9a-f]+", server.stderr)
    assert found is not None, server.stderr
    return found[0]


@pytest.fixture(scope="module")
def signed_in_state(
    chromium: Browser, server: Server, set_up_link: str, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """What the browser of the first admin remembers."""
    state = tmp_path_factory.mktemp("state") / "admin.json"
    with chromium.new_context() as context:
        page = context.new_page()
        page.goto(set_up_link)
        page.get_by_label("Email").fill(EMAIL)
        page.get_by_label("Password", exact=True).fill(PASSWORD)
        page.get_by_label("Password again").fill(PASSWORD)
        page.get_by_role("button", name="Create the first admin").click()
        page.wait_for_url("**/settings/notifications")
        context.storage_state(path=state)
    return state


@pytest.fixture
def console(chromium: Browser, server: Server, signed_in_state: Path) -> Iterator[Console]:
    """Signed in as the first admin."""
    with watched(chromium.new_context(storage_state=signed_in_state), server) as page:
        opened = Console(page, home_of(server))
        opened.open("/settings/profile")
        yield opened


@pytest.fixture
def stranger(chromium: Browser, server: Server) -> Iterator[Console]:
    """A browser that has never been here."""
    with watched(chromium.new_context(), server) as page:
        yield Console(page, home_of(server))


def home_of(server: Server) -> str:
    return f"http://127.0.0.1:{server.port}/console"


class watched:
    """A page whose console and requests are looked at when it is closed."""

    def __init__(self, context: BrowserContext, server: Server) -> None:
        self.context, self.origin = context, f"127.0.0.1:{server.port}"
        self.troubles: list[str] = []

    def __enter__(self) -> Page:
        self.context.set_default_timeout(MILLISECONDS)
        page = self.context.new_page()
        page.on("console", lambda message: self._note(message.type in ("error", "warning"), message.text))
        page.on("pageerror", lambda error: self._note(True, str(error)))
        page.on("request", lambda request: self._note(urlsplit(request.url).netloc != self.origin, request.url))
        return page

    def __exit__(self, kind: type[BaseException] | None, *_rest: object) -> None:
        self.context.close()
        if kind is None:
            assert self.troubles == []

    def _note(self, is_trouble: bool, what: str) -> None:
        # A refusal is an answer that the browser also calls an error; the tests look at refusals themselves.
        if is_trouble and not re.search(r"status of 4\d\d", what):
            self.troubles.append(what)
