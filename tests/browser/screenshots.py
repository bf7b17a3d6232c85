"""Pictures of every page, of a demo and of an empty installation, in all dress: `scripts/screenshots [FOLDER]`."""

import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, sync_playwright

from billhook.storage.ids import new_id
from tests.browser.conftest import ARGUMENTS, home_of
from tests.browser.console import Console
from tests.scenarios.processes import billhook_in, until

SIZES = {"desktop": (1280, 900), "phone": (360, 780)}
THEMES = ("light", "dark")
GROUP = "a[href*='/notifications/groups/grp_']:not([href*='/providers/'])"
PROVIDER = "a[href*='/providers/prv_']"


@contextmanager
def demo() -> Iterator[tuple[Console, Browser]]:
    with tempfile.TemporaryDirectory() as folder, billhook_in(Path(folder)) as program, sync_playwright() as started:
        running = program.start("demo", "--port", "0")
        until(lambda: "Ctrl-C" in running.stdout, what="the welcome")
        told = dict(re.findall(r"^ +(\w+) +(\S+)$", running.stdout, re.MULTILINE))
        opened = started.chromium.launch(executable_path=shutil.which("chromium"), args=ARGUMENTS)
        console = Console(opened.new_page(), told["Console"].rstrip("/"))
        console.sign_in(told["Email"], told["Password"])
        console.page.wait_for_url("**/settings/notifications")
        yield console, opened
        opened.close()


def first(console: Console, path: str, link: str) -> str:
    """Where the first such link of a page leads."""
    console.open(path)
    return (console.page.locator(link).first.get_attribute("href") or "").removeprefix("/console")


def places(console: Console) -> dict[str, str]:
    group = first(console, "/settings/notifications", GROUP).removesuffix("/send")
    provider = first(console, group, PROVIDER)
    return {
        "notifications": "/settings/notifications",
        "group": group,
        "group-delete": f"{group}/delete",
        "send": f"{group}/send",
        "provider-new": f"{group}/providers/new",
        "provider": provider,
        "provider-edit": f"{provider}/edit",
        "provider-delete": f"{provider}/delete",
        "keys": "/settings/api-keys",
        "key-new": "/settings/api-keys/new",
        "key": first(console, "/settings/api-keys", "a[href*='/api-keys/cli_']"),
        "users": "/settings/users",
        "profile": "/settings/profile",
        "deliveries": "/deliveries",
        "deliveries-of-one": f"/deliveries?provider_id={provider.rpartition('/')[2]}",
        "delivery": first(console, "/deliveries?state=delivered", "a[href*='/deliveries/dlv_']"),
        "delivery-waiting": first(console, "/deliveries?state=pending", "a[href*='/deliveries/dlv_']"),
        "delivery-failed": first(console, "/deliveries?state=failed", "a[href*='/deliveries/dlv_']"),
        "recover": "/deliveries/recover",
        "error": "/nowhere",
        "sign-in": "/sign-in",
    }


def make_key(console: Console) -> None:
    console.open("/settings/api-keys/new")
    console.page.get_by_label("Name", exact=True).fill("Nightly export")
    console.page.get_by_role("checkbox", name="groups:read").check()
    console.press("Create the key")


def invite(console: Console) -> None:
    console.open("/settings/users")
    console.page.get_by_label("Email").fill(f"{new_id('usr')}@example.com")
    console.press("Make the link")


def open_invitation(console: Console) -> None:
    invite(console)
    console.page.goto(console.page.get_by_label("One-time link").input_value())


def recover(console: Console) -> None:
    console.open("/deliveries/recover")
    console.page.get_by_label("Provider").select_option(index=1)
    console.press("Recover")


def mistype(console: Console) -> None:
    console.open(first(console, "/settings/notifications", GROUP).removesuffix("/send") + "/providers/new")
    console.page.get_by_label("Name", exact=True).fill("Finance chat")
    console.page.get_by_label("Server URL").fill("http://127.1/")
    console.page.get_by_role("button", name="Save").last.click()


def send_signed_out(console: Console) -> None:
    console.open("/settings/notifications")
    console.page.get_by_label("Name of the group").fill("Typed before the session ended")
    console.page.context.clear_cookies()
    console.press("Add provider group")


STEPS = {
    "key-secret": make_key,
    "invitation-link": invite,
    "invitation": open_invitation,
    "recovery": recover,
    "provider-mistakes": mistype,
    "session-ended": send_signed_out,
}
EMPTY = {
    "empty-notifications": "/settings/notifications",
    "empty-keys": "/settings/api-keys",
    "empty-deliveries": "/deliveries",
    "empty-recover": "/deliveries/recover",
}


@dataclass(frozen=True)
class Camera:
    chromium: Browser
    home: str
    folder: Path

    def show(self, name: str, pose: Callable[[Console], object], *, state: Any = None) -> None:
        """In both themes and sizes; `pose` brings the page to where its picture is taken."""
        for theme, (size, (width, height)) in product(THEMES, SIZES.items()):
            view: Any = {"viewport": {"width": width, "height": height}, "color_scheme": theme}
            with self.chromium.new_context(storage_state=state, **view) as context:
                console = Console(context.new_page(), self.home)
                pose(console)
                console.page.wait_for_load_state("networkidle")
                console.page.screenshot(path=self.folder / f"{name}-{theme}-{size}.png", full_page=True)


def show_demo(folder: Path) -> None:
    with demo() as (console, chromium):
        camera, state = Camera(chromium, console.home, folder), console.page.context.storage_state()
        for name, path in places(console).items():
            camera.show(name, partial(Console.open, path=path), state=None if name == "sign-in" else state)
        for name, step in STEPS.items():
            camera.show(name, step, state=state)


def show_empty(folder: Path) -> None:
    """An installation that nobody has used yet."""
    with tempfile.TemporaryDirectory() as data, billhook_in(Path(data)) as program, sync_playwright() as started:
        server = program.serve()
        (link,) = re.findall(r"http://[\w.:]+/console/set-up/[0-9a-f]+", server.stderr)[:1]
        chromium = started.chromium.launch(executable_path=shutil.which("chromium"), args=ARGUMENTS)
        camera = Camera(chromium, home_of(server), folder)
        camera.show("set-up", lambda console: console.page.goto(link))
        first_admin = Console(chromium.new_page(), camera.home)
        first_admin.page.goto(link)
        first_admin.set_up()
        for name, path in EMPTY.items():
            camera.show(name, partial(Console.open, path=path), state=first_admin.page.context.storage_state())
        chromium.close()


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "screenshots")
    folder.mkdir(exist_ok=True)
    show_demo(folder)
    show_empty(folder)


if __name__ == "__main__":
    main()
