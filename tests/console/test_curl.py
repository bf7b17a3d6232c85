"""The command does in any POSIX shell what it says, whatever is in the request."""

import asyncio
import os
import shlex
import shutil
import subprocess

import hypothesis.strategies as st
import pytest
from hypothesis import example, given, settings

from billhook.console.curl import command, variables
from billhook.outbound.request import Outgoing
from billhook.providers.kinds import MASK
from tests.delivery.receivers import received
from tests.outbound.receivers import GOODBYE, RawReceiver

ECHO = """curl() { printf '%s\\0' "$@"; }\n"""  # in the place of curl: what it would be given

words = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=30)
names = st.text("!#$%&'*+-.^_`|~09AZaz", min_size=1, max_size=12)
requests = st.builds(
    Outgoing,
    method=st.sampled_from(["GET", "POST"]),
    url=words.map(lambda text: f"https://receiver.example/{text}"),
    headers=st.lists(st.tuples(names, words | st.just(MASK)), max_size=6).map(tuple),
    body=st.none() | words.map(str.encode),
)


def a_request(
    url: str = "https://receiver.example/hook", *headers: tuple[str, str], body: bytes | None = b"{}"
) -> Outgoing:
    return Outgoing("POST", url, headers, body)


def arguments_of(text: str, **variables: str) -> list[str]:
    """What curl would be given by the shell."""
    done = subprocess.run(["sh", "-c", ECHO + text], capture_output=True, env={**os.environ, **variables}, check=True)
    return done.stdout.decode().split("\0")[:-1]


def expected(request: Outgoing, secrets: dict[str, str]) -> list[str]:
    named = iter(secrets.values())
    filled = [(name, next(named) if value == MASK else value) for name, value in request.headers]
    headers = [part for name, value in filled for part in ("-H", f"{name}: {value}" if value else f"{name};")]
    body = [] if request.body is None else ["--data-raw", request.body.decode()]
    return ["-X", request.method, request.url, *headers, *body]


@settings(max_examples=150)
@given(requests)
@example(a_request("https://receiver.example/'$(id)'`id`\"$HOME\\\n!!", ("X-'`$", MASK), ("X", "a'b\"c$d`e\\")))
def test_the_shell_passes_on_every_character_as_it_is(request: Outgoing) -> None:
    secrets = {name: f"it's ${number} `secret`\n" for number, name in enumerate(variables(request))}
    given = arguments_of(command(request), **secrets)
    assert set(given[: given.index("-X")]) <= {"-i", "--globoff", "--path-as-is"}
    assert given[given.index("-X") :] == expected(request, secrets)


def test_a_masked_value_is_a_variable_that_must_be_set() -> None:
    text = command(a_request("https://receiver.example/", ("Authorization", MASK)))
    assert MASK not in text
    refused = subprocess.run(["sh", "-c", ECHO + text], capture_output=True, env={}, check=False)
    assert refused.returncode != 0
    assert b"HEADER_AUTHORIZATION" in refused.stderr


def test_variables_are_told_apart() -> None:
    request = a_request("https://receiver.example/", *[(name, MASK) for name in ("X-A", "x_a", "X-A-2", "PATH")])
    assert variables(request) == ["HEADER_X_A", "HEADER_X_A_2", "HEADER_X_A_2_2", "HEADER_PATH"]


def test_a_header_that_is_easy_to_read_stays_easy_to_read() -> None:
    request = a_request("https://receiver.example/", ("Content-Type", "application/json"), ("X-Key", MASK))
    assert command(request).splitlines() == [
        "curl -i -X POST https://receiver.example/ \\",
        "  -H 'Content-Type: application/json' \\",
        '  -H "X-Key: ${HEADER_X_KEY:?}" \\',
        "  --data-raw '{}'",
    ]


@pytest.mark.parametrize(
    ("url", "option"),
    [("http://[::1]/", "--globoff"), ("http://a.example/{b}", "--globoff"), ("http://a.example/../b", "--path-as-is")],
)
def test_curl_is_kept_from_changing_the_url(url: str, option: str) -> None:
    assert option in shlex.split(command(a_request(url)))
    assert option not in shlex.split(command(a_request("http://a.example/b")))


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl here")
@pytest.mark.parametrize(
    "body", [None, b'{"title":"It\'s @home \\u2713 $HOME `id`","content":"\xc3\xa9\\n"}', b"@/etc/passwd"]
)
async def test_curl_sends_what_the_request_says(body: bytes | None) -> None:
    async with RawReceiver(GOODBYE) as receiver:
        headers = (
            ("Content-Type", "application/json"),
            ("User-Agent", "Billhook"),
            ("X-Empty", ""),
            ("X-Secret", MASK),
        )
        url = receiver.url("/a/../b/{1,2}[3]?q=%27'&r=$x")
        request = Outgoing("GET" if body is None else "POST", url, headers, body)
        environment = {**os.environ, "HEADER_X_SECRET": "s3cret 'x'"}
        text = command(request).replace("curl -i", "curl -q -s --noproxy '*'", 1)
        done = await asyncio.create_subprocess_exec("sh", "-c", text, env=environment, stdout=subprocess.DEVNULL)
        assert await done.wait() == 0
    (sent,) = received(receiver)
    assert (sent.method, sent.target, sent.body) == (request.method, "/a/../b/{1,2}[3]?q=%27'&r=$x", body or b"")
    assert sent.all("X-Secret") == ["s3cret 'x'"]
    assert sent.all("User-Agent") == ["Billhook"]
    assert [line for line in sent.headers if line[0].startswith("X-Empty")] == [("X-Empty:", "")]
