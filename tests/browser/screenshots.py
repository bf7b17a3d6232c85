"""Pictures of every page of `billhook demo`, light and dark, phone and desktop: `scripts/screenshots [FOLDER]`."""

import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

from tests.browser.conftest import ARGUMENTS
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


def take(page: Page, console: Console, path: str, file: Path) -> None:
    page.goto(console.address(path))
    page.wait_for_load_state("networkidle")
    page.screenshot(path=file, full_page=True)


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "screenshots")
    folder.mkdir(exist_ok=True)
    with demo() as (console, chromium):
        state = console.page.context.storage_state()
        for name, path in places(console).items():
            for theme in THEMES:
                for size, (width, height) in SIZES.items():
                    view = {"width": width, "height": height}
                    kept = None if name == "sign-in" else state
                    with chromium.new_context(viewport=view, color_scheme=theme, storage_state=kept) as context:  # type: ignore[arg-type]
                        take(context.new_page(), console, path, folder / f"{name}-{theme}-{size}.png")


if __name__ == "__main__":
    main()
