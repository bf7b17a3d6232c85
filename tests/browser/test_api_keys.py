"""An API key from its creation to its end, as the person who makes it sees it."""

import json
import shlex
import subprocess
from typing import Any

from playwright.sync_api import expect

from tests.browser.console import Console
from tests.scenarios.processes import Server, until


def test_a_key_is_created_its_curl_run_its_token_used_and_the_key_revoked(console: Console, server: Server) -> None:
    page = console.page
    console.go_to_settings("API keys")
    page.get_by_role("link", name="Create").first.click()
    page.get_by_label("Name", exact=True).fill("nightly report")
    page.get_by_role("checkbox", name="groups:read").check()
    page.get_by_label("Number").fill("2")
    page.get_by_label("Unit").select_option("h")
    console.press("Create the key")
    console.says("nightly report is ready")
    answer = run(page.locator("#curl").inner_text())
    assert (answer["code"], answer["data"]["scope"], answer["data"]["expires_in"]) == ("success", "groups:read", 7200)
    token = answer["data"]["access_token"]
    assert server.get_me(token).status_code == 200
    secret = page.get_by_label("Client secret").input_value()
    page.get_by_role("link", name="I have stored it").click()
    assert secret not in page.content()
    page.get_by_label("Type the name of the key to revoke it").fill("nightly report")
    console.press("Revoke the key")
    console.says("Revoked.")
    until(lambda: not server.accepts(token), what="the token no longer counts")


def run(command: str) -> dict[str, Any]:
    """A command as it stands on the page."""
    done = subprocess.run([*shlex.split(command), "--silent"], capture_output=True, text=True, check=True, timeout=60)
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def test_a_key_without_a_scope_is_refused_beside_the_scopes(console: Console) -> None:
    page = console.page
    console.open("/settings/api-keys/new")
    page.get_by_label("Name", exact=True).fill("no scopes")
    console.press("Create the key")
    expect(page.locator("#scope-mistake")).to_be_visible()
    expect(page.get_by_label("Name", exact=True)).to_have_value("no scopes")
