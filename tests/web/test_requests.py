"""Reading requests: never more than the limit, never anything but JSON, and nobody can lie about where they are."""

import asyncio
import json
from ipaddress import ip_address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.types import Message, Receive, Scope

from billhook.errors import InvalidParameters, TooLarge
from billhook.settings import Network
from billhook.web.requests import (
    UNKNOWN_ADDRESS,
    caller_address,
    forwarded_for,
    parse_object,
    read_body,
    require_content_type,
    text_field,
)

PROXIES: tuple[Network, ...] = (ip_network("10.0.0.0/8"), ip_network("fd00::/8"))
ADDRESSES = st.ip_addresses().map(str)
STRANGERS = ADDRESSES.filter(lambda text: not is_proxy(text))
PROXY_ADDRESSES = st.one_of(st.ip_addresses(network="10.0.0.0/8"), st.ip_addresses(network="fd00::/8")).map(str)
ANYTHING = st.text(st.characters(max_codepoint=255))


def is_proxy(text: str) -> bool:
    return any(ip_address(text) in network for network in PROXIES if network.version == ip_address(text).version)


def scope(*, headers: dict[str, str] | None = None, peer: tuple[str, int] | None = ("192.0.2.1", 5)) -> Scope:
    raw = [(name.lower().encode(), value.encode("latin-1")) for name, value in (headers or {}).items()]
    return {"type": "http", "method": "POST", "path": "/", "headers": raw, "client": peer}


def receiving(*messages: Message) -> Receive:
    arriving = iter(messages)

    async def receive() -> Message:
        return next(arriving)

    return receive


def chunked(*chunks: bytes) -> Receive:
    last = len(chunks) - 1
    return receiving(
        *({"type": "http.request", "body": chunk, "more_body": turn < last} for turn, chunk in enumerate(chunks))
    )


# --- bodies ---


@given(chunks=st.lists(st.binary(max_size=20), min_size=1, max_size=10), limit=st.integers(0, 100))
def test_a_body_is_read_whole_or_refused_by_its_size_alone(chunks: list[bytes], limit: int) -> None:
    whole = b"".join(chunks)
    reading = read_body(scope(), chunked(*chunks), limit=limit)
    if len(whole) <= limit:
        assert asyncio.run(reading) == whole
    else:
        with pytest.raises(TooLarge, match=f"must not be larger than {limit} bytes"):
            asyncio.run(reading)


async def test_a_body_that_says_it_is_too_large_is_not_waited_for() -> None:
    with pytest.raises(TooLarge):
        await read_body(scope(headers={"Content-Length": "101"}), receiving(), limit=100)


async def test_a_body_is_not_read_on_once_it_is_too_large() -> None:
    with pytest.raises(TooLarge):
        await read_body(scope(), receiving({"type": "http.request", "body": b"x" * 101, "more_body": True}), limit=100)


@pytest.mark.parametrize("length", ["", "0", "4", "99"])
async def test_a_length_within_the_limit_changes_nothing(length: str) -> None:
    assert await read_body(scope(headers={"Content-Length": length}), chunked(b"body"), limit=100) == b"body"


async def test_a_length_beyond_all_numbers_is_too_large() -> None:
    with pytest.raises(TooLarge):
        await read_body(scope(headers={"Content-Length": "9" * 5000}), receiving(), limit=100)


async def test_a_caller_that_hangs_up_is_no_bug() -> None:
    half: Message = {"type": "http.request", "body": b"half", "more_body": True}
    with pytest.raises(InvalidParameters, match="the body did not arrive"):
        await read_body(scope(), receiving(half, {"type": "http.disconnect"}), limit=100)


# --- JSON ---


@given(body=st.binary(max_size=200))
def test_any_bytes_are_an_object_or_refused(body: bytes) -> None:
    try:
        assert isinstance(parse_object(body), dict)
    except InvalidParameters as refused:
        assert refused.status == 400


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(st.characters(codec="utf-8")),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(st.characters(codec="utf-8")), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(fields=st.dictionaries(st.text(st.characters(codec="utf-8")), JSON_VALUES, max_size=4))
def test_every_object_is_read_as_it_was_written(fields: dict[str, object]) -> None:
    assert parse_object(json.dumps(fields).encode()) == fields


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"\xff", b'{"a": NaN}', b'{"a": "\\ud800"}', b"{" + b'"a":{' * 5000, b"[" * 100_000, b"\xef\xbb\xbf{}"]
    + [b'{"a": 1} x', b"{'a': 1}", '{"a": "ä"}'.encode("latin-1"), '{"a": 1}'.encode("utf-16")],
)
def test_what_is_not_json_in_utf8_is_refused(body: bytes) -> None:
    with pytest.raises(InvalidParameters, match="the body must be JSON in UTF-8"):
        parse_object(body)


@pytest.mark.parametrize("body", [b"[]", b'"text"', b"1", b"null", b"true"])
def test_json_that_is_no_object_is_refused(body: bytes) -> None:
    with pytest.raises(InvalidParameters, match="the body must be a JSON object"):
        parse_object(body)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({}, "is required"),
        ({"name": None}, "is required"),
        ({"name": 1}, "must be a string"),
        ({"name": ["x"]}, "must be a string"),
        ({"name": False}, "must be a string"),
        ({"name": ""}, "must not be empty"),
        ({"name": "a\0b"}, "must not contain a NUL"),
    ],
)
def test_a_field_that_is_not_a_text_is_refused_by_name(fields: dict[str, object], reason: str) -> None:
    with pytest.raises(InvalidParameters, match=f"name: {reason}"):
        text_field(fields, "name")


def test_a_field_that_is_a_text_is_given_back() -> None:
    assert text_field({"name": " Ada ", "more": 1}, "name") == " Ada "


@pytest.mark.parametrize("given", ["application/json", "Application/JSON", "application/json; charset=utf-8"])
def test_a_content_type_may_have_parameters_and_any_case(given: str) -> None:
    require_content_type(scope(headers={"Content-Type": given}), "application/json")


@pytest.mark.parametrize("given", [None, "", "text/json", "application/jsonp", "application/json, text/html"])
def test_any_other_content_type_is_refused(given: str | None) -> None:
    headers = {} if given is None else {"Content-Type": given}
    with pytest.raises(InvalidParameters, match="Content-Type must be application/json"):
        require_content_type(scope(headers=headers), "application/json")


# --- where a caller comes from ---


@given(peer=STRANGERS, headers=st.lists(ANYTHING))
def test_a_stranger_is_never_believed(peer: str, headers: list[str]) -> None:
    assert forwarded_for(peer, headers, PROXIES) == peer


@given(lies=st.lists(ANYTHING), caller=STRANGERS, proxies=st.lists(PROXY_ADDRESSES, max_size=4), peer=PROXY_ADDRESSES)
def test_behind_our_proxies_the_caller_is_who_reached_the_first_of_them(
    lies: list[str], caller: str, proxies: list[str], peer: str
) -> None:
    header = ", ".join([caller, *proxies])
    assert forwarded_for(peer, [*lies, header], PROXIES) == caller
    assert forwarded_for(peer, [", ".join([*lies, header])], PROXIES) == caller


@given(peer=ADDRESSES, headers=st.lists(ANYTHING))
def test_the_answer_is_always_an_address(peer: str, headers: list[str]) -> None:
    ip_address(forwarded_for(peer, headers, PROXIES))


@pytest.mark.parametrize("hop", ["", "unknown", "203.0.113.9:4711", "_hidden", "203.0.113.999"])
def test_behind_a_hop_that_is_no_address_nobody_is_believed(hop: str) -> None:
    assert forwarded_for("10.0.0.1", [f"203.0.113.9, {hop}, 10.0.0.2"], PROXIES) == "10.0.0.2"


def test_a_proxy_on_a_dual_stack_socket_is_recognised() -> None:
    assert forwarded_for("::ffff:10.0.0.1", ["203.0.113.9"], PROXIES) == "203.0.113.9"


@pytest.mark.parametrize(
    ("peer", "trusted", "address"),
    [
        (("10.0.0.1", 1), (), "10.0.0.1"),
        (("10.0.0.1", 1), PROXIES, "203.0.113.9"),
        (("192.0.2.1", 1), PROXIES, "192.0.2.1"),
        (None, PROXIES, UNKNOWN_ADDRESS),
        (None, (), UNKNOWN_ADDRESS),
    ],
)
def test_a_proxy_is_believed_only_when_the_settings_name_it(
    peer: tuple[str, int] | None, trusted: tuple[Network, ...], address: str
) -> None:
    assert caller_address(scope(peer=peer, headers={"X-Forwarded-For": "203.0.113.9"}), trusted) == address
