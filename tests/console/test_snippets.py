"""The code that receivers copy, run as it stands against what is really sent."""

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from billhook.console.snippets import scheme_for, snippets_for
from billhook.outbound.request import Outgoing
from billhook.providers.kinds import Message, Stamp
from billhook.providers.registry import provider_type
from billhook.providers.signing import new_signing_secret
from tests.console.sample import a_provider

SECRET = new_signing_secret()
SAID = {"title": "Budget “Atlas” & co.", "content": "105 % used\n+ more?"}

RUN_PYTHON = """
import json, sys

headers, payload = json.load(sys.stdin)
print(json.dumps(notification(headers, {payload})))
"""
RUN_NODE = (
    '\nimport { readFileSync } from "node:fs";\n'
    "console.log(JSON.stringify(notification(...JSON.parse(readFileSync(0, 'utf8')))));\n"
)

each_method = pytest.mark.parametrize("method", ["POST", "GET"])
each_language = pytest.mark.parametrize("language", ["Python", "Node"])


def request(method: str, *, secrets: Sequence[str] = (SECRET,), age: int = 0) -> Outgoing:
    config = a_provider(request_method=method, server_url="https://receiver.example/hook?title=own&b=%20").config
    stamp = Stamp("dlv_1", int(time.time()) - age, secrets)
    return provider_type("Webhook").request(config, Message(**SAID), stamp)


def run(method: str, language: str, folder: Path, sent: Outgoing) -> "subprocess.CompletedProcess[str]":
    """As a receiver has it: names of headers in lower case, and the payload as it came."""
    payload = sent.body.decode() if sent.body is not None else sent.url.partition("?")[2]
    headers = {name.lower(): value for name, value in sent.headers}
    given = json.dumps([headers, payload])
    return subprocess.run(
        command(method, language, folder),
        input=given,
        env={"WEBHOOK_SECRET": SECRET},
        capture_output=True,
        text=True,
        check=False,
    )


def command(method: str, language: str, folder: Path) -> list[str]:
    code = next(each.code for each in snippets_for(method) if each.language == language)
    if language == "Python":
        program = folder / "verify.py"
        program.write_text(code + RUN_PYTHON.format(payload="payload.encode()" if method == "POST" else "payload"))
        return [sys.executable, str(program)]
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not on the PATH")
    program = folder / "verify.mjs"
    program.write_text(code + RUN_NODE)
    return [node, str(program)]


@each_method
@each_language
def test_a_genuine_request_is_taken(method: str, language: str, tmp_path: Path) -> None:
    done = run(method, language, tmp_path, request(method))
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == SAID


@each_method
@each_language
def test_while_a_secret_is_rotated_either_one_will_do(method: str, language: str, tmp_path: Path) -> None:
    done = run(method, language, tmp_path, request(method, secrets=(new_signing_secret(), SECRET)))
    assert done.returncode == 0, done.stderr


@each_method
@each_language
def test_what_somebody_else_signed_is_refused(method: str, language: str, tmp_path: Path) -> None:
    assert run(method, language, tmp_path, request(method, secrets=(new_signing_secret(),))).returncode != 0


@each_method
@each_language
def test_what_is_old_is_refused(method: str, language: str, tmp_path: Path) -> None:
    assert run(method, language, tmp_path, request(method, age=400)).returncode != 0


@each_method
@each_language
@pytest.mark.parametrize("missing", ["webhook-id", "webhook-timestamp", "webhook-signature"])
def test_what_lacks_a_header_is_refused_in_words(method: str, language: str, missing: str, tmp_path: Path) -> None:
    sent = request(method)
    kept = tuple((name, value) for name, value in sent.headers if name.lower() != missing)
    done = run(method, language, tmp_path, sent._replace(headers=kept))
    assert done.returncode != 0
    assert not any(wrong in done.stderr for wrong in ("KeyError", "TypeError"))


@each_method
def test_the_scheme_is_told_in_words_that_fit_the_method(method: str) -> None:
    words = " ".join(scheme_for(method))
    assert ("the query string" in words) == (method == "GET")
    assert ("the body" in words) == (method == "POST")
