"""billhook receive"""

import json
import re
import signal
import sys
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from billhook.cli.receive import receiver
from billhook.cli.serve import open_port
from billhook.providers.kinds import Message, Stamp
from billhook.providers.signing import new_signing_secret
from billhook.providers.webhook import Webhook
from tests.cli.conftest import Billhook
from tests.scenarios.processes import billhook_in, until

SECRET = new_signing_secret()
TITLE, CONTENT = 'Überschreitung 💸 "&=+%#', "Zeile\nzwei"


def signed(method: str, secret: str = SECRET, *, age: int = 0) -> httpx.Request:
    """A request as we send it."""
    config = {"server_url": "http://receiver.test/hook?a=1", "request_method": method, "request_headers": []}
    outgoing = Webhook().request(config, Message(TITLE, CONTENT), Stamp("dlv_1", int(time.time()) - age, [secret]))
    return httpx.Request(outgoing.method, outgoing.url, headers=list(outgoing.headers), content=outgoing.body)


async def told(
    request: httpx.Request, *, secret: str | None = SECRET, status: int = 200
) -> tuple[dict[str, Any], httpx.Response]:
    seen: list[dict[str, Any]] = []
    app = receiver(seen.append, secret=secret, status=status)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app)) as http:
        answer = await http.send(request)
    (only,) = seen
    return only, answer


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_what_arrives_is_described_and_verified(method: str) -> None:
    seen, answer = await told(signed(method))
    assert (seen["verified"], seen["problem"], seen["method"], seen["path"]) == (True, None, method, "/hook")
    assert (seen["title"], seen["content"], seen["webhook_id"]) == (TITLE, CONTENT, "dlv_1")
    assert {"key": "webhook-id", "value": "dlv_1"} in seen["headers"]
    assert answer.status_code == 200


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_a_wrong_secret_is_told(method: str) -> None:
    seen, _ = await told(signed(method, new_signing_secret()))
    assert (seen["verified"], seen["problem"]) == (False, "its signature is not made with this secret")


async def test_an_old_and_an_unsigned_request_are_told() -> None:
    seen, _ = await told(signed("POST", age=600))
    assert (seen["verified"], seen["problem"]) == (False, "its timestamp is too far from now")
    seen, _ = await told(httpx.Request("POST", "http://receiver.test/", content=b"[]"))
    assert (seen["verified"], seen["problem"]) == (False, "it is not signed")
    assert (seen["title"], seen["webhook_id"]) == (None, None)


async def test_without_a_secret_nothing_is_verified() -> None:
    seen, _ = await told(signed("POST"), secret=None)
    assert (seen["verified"], seen["problem"], seen["title"]) == (None, None, TITLE)


@pytest.mark.parametrize("status", [200, 204, 304, 410, 503])
async def test_the_answer_can_be_chosen(status: int) -> None:
    _, answer = await told(signed("POST"), status=status)
    assert answer.status_code == status


@pytest.mark.parametrize(
    "body", [b"", b"{", b"\xff\xfe", b'{"content": "\\ud800"}', b"[1]", b'{"title": 7}', b"x" * 100_000]
)
async def test_whatever_the_body_is_it_is_described(body: bytes) -> None:
    seen, answer = await told(httpx.Request("POST", "http://receiver.test/", content=body))
    assert (answer.status_code, seen["content"]) == (200, None)


def test_the_command_prints_a_json_document_a_line_and_ends_with_a_signal(tmp_path: Path) -> None:
    with billhook_in(tmp_path) as program:
        running = program.start("receive", "--port", "0", "--secret", SECRET, "--json")
        until(lambda: running.listens_on() is not None, what="it listens")
        url = f"http://127.0.0.1:{running.listens_on()}/"
        for body in (b'{"title": "one", "content": "\xc3\xbc"}', b"two"):
            assert httpx.post(url, content=body, trust_env=False).status_code == 200
        until(lambda: len(running.stdout.splitlines()) == 2, what="both are printed")
        running.signal(signal.SIGINT)
        assert running.wait() == 0
        first, second = [json.loads(line) for line in running.stdout.splitlines()]
        assert (first["title"], first["content"], first["verified"]) == ("one", "ü", False)
        assert second["title"] is None
        assert running.stderr == ""


@pytest.mark.parametrize("status", ["204", "503"])
def test_the_command_tells_people_what_came_and_answers_as_it_was_told(tmp_path: Path, status: str) -> None:
    with billhook_in(tmp_path) as program:
        running = program.start("receive", "--port", "0", "--status", status)
        until(lambda: running.listens_on() is not None, what="it listens")
        url = f"http://127.0.0.1:{running.listens_on()}/hook"
        answer = httpx.post(url, json={"title": "One", "content": "two"}, trust_env=False)
        assert answer.status_code == int(status)
        assert running.stop() == 0
        assert "not verifying signatures" in running.stdout
        assert "POST /hook  no webhook-id  not verified\n  title: One\n  content: two\n" in running.stdout
        assert running.stderr == ""


def test_what_arrives_cannot_command_the_terminal_nor_pass_for_a_line_of_ours(tmp_path: Path) -> None:
    with billhook_in(tmp_path) as program:
        running = program.start("receive", "--host", "::1", "--port", "0")
        until(lambda: "Receiving on" in running.stdout, what="it listens")
        (url,) = re.findall(r"http://\[::1\]:\d+/", running.stdout)
        said = {"title": "\x1b]0;owned\x07", "content": "one\nPOST /hook  dlv_1  verified"}
        assert httpx.post(f"{url}%1b", json=said, trust_env=False).status_code == 200
        assert running.stop() == 0
        _, *lines = running.stdout.splitlines()
    assert lines == [
        r"POST /\x1b  no webhook-id  not verified",
        r"  title: \x1b]0;owned\x07",
        "  content: one",
        "    POST /hook  dlv_1  verified",
    ]


@pytest.mark.parametrize("secret", ["whsec_x", "whsec_", "not a secret", "whsec_ü"])
def test_a_secret_that_cannot_be_one_is_refused_at_once(
    billhook: Billhook, secret: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules["billhook.cli.receive"], "Quiet", never_served)
    ran = billhook("receive", "--port", "0", "--secret", secret)
    assert ran.status in (1, 2)
    assert ran.err.count("\n") >= 1


def never_served(_config: object) -> Any:
    raise AssertionError("it began to receive")


def test_a_port_that_is_taken_is_told(billhook: Billhook) -> None:
    with open_port("127.0.0.1", 0) as taken:
        ran = billhook("receive", "--port", str(taken.getsockname()[1]))
    assert (ran.status, "it is in use" in ran.err) == (1, True)
