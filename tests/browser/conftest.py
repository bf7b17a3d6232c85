"""A real browser on a real server. Every page is watched: no error in its console, no request to anybody else."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Playwright, Response, sync_playwright

from tests.browser.calls import Calls
from tests.browser.console import Console
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


@pytest.fixture(scope="module")
def playwright() -> Iterator[Playwright]:
    """Not for longer than a file: its event loop is in the way of tests that start their own."""
    with sync_playwright() as started:
        yield started


@pytest.fixture(scope="module")
def chromium(playwright: Playwright) -> Iterator[Browser]:
    """The one on the PATH, or else Playwright's own."""
    installed = shutil.which("chromium")
    if installed is None and not Path(playwright.chromium.executable_path).exists():
        pytest.skip("there is no browser: install chromium, or run `.venv/bin/playwright install chromium`")
    opened = playwright.chromium.launch(executable_path=installed, args=ARGUMENTS)
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
def calls(program: Billhook, server: Server) -> Calls:
    return Calls.to(program, server)


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
        console = Console(context.new_page(), home_of(server))
        console.page.goto(set_up_link)
        console.set_up()
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
        self.refused: set[str] = set()  # pages that were answered with an error: the tests look at those themselves

    def __enter__(self) -> Page:
        self.context.set_default_timeout(MILLISECONDS)
        page = self.context.new_page()
        page.on("response", self._see)
        page.on("console", lambda message: self._hear(message.type, message.text, message.location["url"]))
        page.on("pageerror", lambda error: self._note(True, str(error)))
        page.on("request", lambda request: self._note(urlsplit(request.url).netloc != self.origin, request.url))
        return page

    def __exit__(self, kind: type[BaseException] | None, *_rest: object) -> None:
        self.context.close()
        if kind is None:
            assert self.troubles == []

    def _see(self, response: Response) -> None:
        if response.status >= 400 and response.request.is_navigation_request():
            self.refused.add(response.url)

    def _hear(self, kind: str, what: str, where: str) -> None:
        """A page that is refused is an answer, which the browser also calls an error."""
        self._note(kind in ("error", "warning") and where not in self.refused, f"{what} ({where})")

    def _note(self, is_trouble: bool, what: str) -> None:
        if is_trouble:
            self.troubles.append(what)
