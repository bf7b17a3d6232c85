"""What a viewer may see of a server URL, on every page that shows it."""

import httpx

from billhook.accounts.installation import Installation
from billhook.console.hiding import STAND_IN, shown_to, with_dots
from tests.console.delivery_pages import delivery_to, page, text_of
from tests.console.sample import a_provider
from tests.delivery.support import make_team

TOKEN, KEY = "B0123456789abcdefghijKL", "key=s3cret-of-the-hook"
URL = f"https://chat.example/hooks/{TOKEN}?{KEY}"
HIDDEN = "https://chat.example/hooks/••••?••••"


def test_an_admin_sees_the_url_and_a_viewer_what_is_no_token() -> None:
    provider = a_provider(server_url=URL, request_headers=[{"key": "X-Key", "value": "secret"}])
    admin, viewer = (shown_to(provider, may_change=may) for may in (True, False))
    assert admin.config["server_url"] == URL
    assert with_dots(viewer.config["server_url"]) == HIDDEN
    assert viewer.config["request_headers"] == admin.config["request_headers"] == [{"key": "X-Key", "value": "••••"}]
    assert viewer.secrets == admin.secrets == ()


def test_a_url_without_a_token_is_shown_to_all() -> None:
    provider = a_provider(server_url="https://receiver.example/hook")
    assert shown_to(provider, may_change=False).config["server_url"] == "https://receiver.example/hook"


async def test_no_page_tells_a_viewer_the_token(
    browser: httpx.AsyncClient, viewer: httpx.AsyncClient, installation: Installation
) -> None:
    for method in ("POST", "GET"):
        team = await make_team(installation, name=method, server_url=URL, request_method=method)
        group = f"/console/settings/notifications/groups/{team.group.id}"
        paths = [f"{group}/providers/{team.provider.id}", f"/console/deliveries/{await delivery_to(team)}"]
        for path in (*paths, group, "/console/settings/notifications"):
            seen = await page(viewer, path)
            assert not any(each in seen for each in (TOKEN, KEY, STAND_IN)), path
        for path in paths:
            assert TOKEN in text_of(await page(browser, path))
            assert f"{method} /hooks/••••?••••" in text_of(await page(viewer, path)) or HIDDEN in text_of(
                await page(viewer, path)
            )
