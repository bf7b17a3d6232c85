"""Input that nobody sends by accident, byte for byte over a socket: told off in the JSON shape, never a crash."""

import json
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.scenarios.processes import Billhook, Server, bearer, until

INVALID = (400, "bad-request/invalid-parameters")
UNKNOWN = (401, "failed")
NO_ROUTE = (404, "route/not-found")
WRONG_METHOD = (405, "route/method-not-allowed")
TOO_LARGE = (413, "request/too-large")

JSON = "Content-Type: application/json"
DEEP = b'{"client_id":' + b"[" * 10_000 + b"]" * 10_000 + b"}"
RIGHT_SHAPE = b'{"client_id": "cli_x", "client_secret": "bhs_x"}'


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: dict[str, Any]

    @property
    def verdict(self) -> tuple[int, str]:
        """The status and the code, of an error in the one JSON shape."""
        assert self.headers["content-type"] == "application/json"
        assert self.body.keys() - {"errors"} == {"code", "message"}
        return self.status, self.body["code"]


@pytest.fixture(scope="module")
def client(shared_billhook: Billhook) -> dict[str, Any]:
    return shared_billhook.create_client()


@pytest.fixture(scope="module")
def token(client: dict[str, Any], shared_server: Server) -> str:
    return shared_server.token(client)


@pytest.fixture
def server(client: dict[str, Any], shared_server: Server) -> Iterator[Server]:
    """The server, which must still be well after each of these tests."""
    logged = len(shared_server.stderr)
    yield shared_server
    until(lambda: shared_server.http.get("/readyz").status_code == 200, what="the server is well")
    assert shared_server.issues(client)
    assert "Traceback" not in shared_server.stderr[logged:]


def exchange(server: Server, sent: bytes, *, method: str = "POST", answers: int = 1) -> list[Answer]:
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as caller:
        caller.sendall(sent)
        return [read_answer(caller, method) for _ in range(answers)]


def read_answer(caller: socket.socket, method: str) -> Answer:
    """One answer from a connection, and not a byte of the one behind it."""
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        byte = caller.recv(1)
        assert byte, f"the connection ended after {head!r}"
        head += byte
    lines = head.decode().split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines[1:] if line)}
    body = b""
    while method != "HEAD" and len(body) < int(headers["content-length"]):
        body += caller.recv(int(headers["content-length"]) - len(body))
    return Answer(int(lines[0].split()[1]), headers, json.loads(body) if body else {})


def request(path: str, body: bytes, *headers: str, method: str = "POST") -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "Host: billhook", *headers, f"Content-Length: {len(body)}", "", ""]
    return "\r\n".join(lines).encode() + body


def chunked(path: str, *chunks: bytes) -> bytes:
    head = f"POST {path} HTTP/1.1\r\nHost: billhook\r\n{JSON}\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    return head + b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in (*chunks, b""))


def credentials(client: dict[str, Any]) -> bytes:
    return json.dumps({name: client[name] for name in ("client_id", "client_secret")}).encode()


BAD_BODIES = {
    "empty": b"",
    "blank": b"  \n",
    "not JSON": b"client_id=a&client_secret=b",
    "cut off": b'{"client_id": "a", "client_sec',
    "two documents": b"{}{}",
    "an array": b'[{"client_id": "a", "client_secret": "b"}]',
    "a string": b'"client_id"',
    "null": b"null",
    "broken UTF-8": b'{"client_id": "\xff\xfe", "client_secret": "b"}',
    "UTF-16": '{"client_id": "a", "client_secret": "b"}'.encode("utf-16"),
    "a byte order mark": b"\xef\xbb\xbf" + RIGHT_SHAPE,
    "a raw NUL": b'{"client_id": "a\x00", "client_secret": "b"}',
    "an escaped NUL": b'{"client_id": "a\\u0000", "client_secret": "b"}',
    "a lone surrogate": b'{"client_id": "\\ud800", "client_secret": "b"}',
    "a lone surrogate in the secret": b'{"client_id": "a", "client_secret": "\\udfff"}',
    "a lone surrogate as a name": b'{"\\ud800": "a"}',
    "10,000 levels": b"[" * 4000 + b"]" * 4000,
    "NaN": b'{"client_id": NaN, "client_secret": "b"}',
    "numbers for strings": b'{"client_id": 1, "client_secret": 2}',
    "objects for strings": b'{"client_id": {}, "client_secret": []}',
    "booleans for strings": b'{"client_id": true, "client_secret": false}',
    "nulls for strings": b'{"client_id": null, "client_secret": null}',
    "empty strings": b'{"client_id": "", "client_secret": ""}',
    "no secret": b'{"client_id": "a"}',
    "an endless number": b'{"client_id": ' + b"9" * 5000 + b', "client_secret": "b"}',
    "10,000 levels, more than 8 KiB": DEEP,
    "1 MB": b'{"client_id": "' + b"a" * 1_000_000 + b'", "client_secret": "b"}',
}


@pytest.mark.parametrize("body", BAD_BODIES.values(), ids=BAD_BODIES.keys())
def test_a_bad_body_is_a_bad_request(server: Server, body: bytes) -> None:
    (answer,) = exchange(server, request("/auth", body, JSON))
    assert answer.verdict == INVALID
    assert answer.headers["cache-control"] == "no-store"


CONTENT_TYPES = [
    "",
    "text/plain",
    "application/x-www-form-urlencoded",
    "application/jsonp",
    "application/json/",
    ";",
    "é",
]


@pytest.mark.parametrize("kind", CONTENT_TYPES)
def test_a_wrong_content_type_is_a_bad_request(server: Server, client: dict[str, Any], kind: str) -> None:
    (answer,) = exchange(server, request("/auth", credentials(client), f"Content-Type: {kind}"))
    assert answer.verdict == INVALID


def test_a_missing_content_type_is_a_bad_request(server: Server, client: dict[str, Any]) -> None:
    (answer,) = exchange(server, request("/auth", credentials(client)))
    assert answer.verdict == INVALID


@pytest.mark.parametrize("kind", ["application/json; charset=utf-8", "APPLICATION/JSON", "application/json;x"])
def test_parameters_and_case_of_the_content_type_do_not_matter(
    server: Server, client: dict[str, Any], kind: str
) -> None:
    (answer,) = exchange(server, request("/auth", credentials(client), f"Content-Type: {kind}"))
    assert answer.status == 201


def test_a_chunked_body_is_read_though_it_has_no_length(server: Server, client: dict[str, Any]) -> None:
    body = credentials(client)
    (answer,) = exchange(server, chunked("/auth", body[:7], body[7:]))
    assert answer.status == 201


def test_a_chunked_body_without_end_is_cut_off(server: Server) -> None:
    (answer,) = exchange(server, chunked("/auth", *[b"a" * 16_384] * 64))
    assert answer.verdict == INVALID


def test_a_gigabyte_is_refused_before_it_comes(server: Server) -> None:
    head = f"POST /auth HTTP/1.1\r\nHost: billhook\r\n{JSON}\r\nContent-Length: 1000000000\r\n\r\n".encode()
    (answer,) = exchange(server, head + b'{"client_id')
    assert answer.verdict == INVALID


def test_a_caller_that_leaves_in_the_middle_harms_nobody(server: Server) -> None:
    for part in (b"POST /auth", request("/auth", RIGHT_SHAPE, JSON)[:-5], chunked("/auth", b"abc")[:-6]):
        with socket.create_connection(("127.0.0.1", server.port)) as caller:
            caller.sendall(part)


@pytest.mark.parametrize("method", ["GET", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"])
def test_a_wrong_method_is_told_the_right_one(server: Server, method: str) -> None:
    (answer,) = exchange(server, request("/auth", b"", method=method))
    assert answer.verdict == WRONG_METHOD
    assert answer.headers["allow"] == "POST"


def test_a_wrong_method_under_the_api_is_told_the_right_ones(server: Server) -> None:
    (answer,) = exchange(server, request("/api/v1/me", b"", method="DELETE"))
    assert answer.verdict == WRONG_METHOD
    assert "GET" in answer.headers["allow"]


PATHS = [
    "/auth/",
    "/auth//",
    "//auth",
    "/AUTH",
    "/auth%00",
    "/auth/../auth",
    "/%61uth/",
    "/api/v1/me/",
    "/api/v1",
    "/%ff",
]


@pytest.mark.parametrize("path", PATHS)
def test_a_path_that_is_nearly_right_is_not_found(server: Server, client: dict[str, Any], path: str) -> None:
    (answer,) = exchange(server, request(path, credentials(client), JSON))
    assert answer.verdict == NO_ROUTE


def test_pipelined_requests_are_answered_in_order(server: Server, client: dict[str, Any]) -> None:
    right, wrong = request("/auth", credentials(client), JSON), request("/auth", b"[]", JSON)
    answers = exchange(server, right + wrong + right, answers=3)
    assert [answer.status for answer in answers] == [201, 400, 201]


def test_the_body_of_a_refused_request_is_not_taken_for_the_next_request(server: Server) -> None:
    smuggled = request("/auth", RIGHT_SHAPE, JSON)
    answers = exchange(server, request("/auth", smuggled, "Content-Type: text/plain") + request("/x", b""), answers=2)
    assert [answer.verdict for answer in answers] == [INVALID, NO_ROUTE]


TOKENS = ["", "x", "a.b.c", "..", "." * 5000, "eyJhbGciOiJub25lIn0.e30.", "\xff\xfe", "x" * 20_000, "a b c"]


@pytest.mark.parametrize("token", TOKENS, ids=range(len(TOKENS)))
def test_a_bad_token_is_one_and_the_same_refusal(server: Server, token: str) -> None:
    sent = b"GET /api/v1/me HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + token.encode("latin-1") + b"\r\n\r\n"
    (answer,) = exchange(server, sent, method="GET")
    assert answer.verdict == UNKNOWN
    assert answer.headers["www-authenticate"].startswith("Bearer")


BAD_CLIENTS: dict[str, bytes] = {
    "not JSON": b"name",
    "empty": b"",
    "an array": b"[]",
    "broken UTF-8": b'{"name": "\xff", "scope": "clients:read"}',
    "a NUL": b'{"name": "a\\u0000b", "scope": "clients:read"}',
    "a lone surrogate in the name": b'{"name": "\\ud800", "scope": "clients:read"}',
    "a lone surrogate in the scope": b'{"name": "a", "scope": "\\ud800"}',
    "a lone surrogate in a list": b'{"name": "a", "scope": ["clients:read", "\\ud800"]}',
    "a lone surrogate in the networks": b'{"name": "a", "scope": "clients:read", "networks": ["\\ud800"]}',
    "a lone surrogate as a name": b'{"name": "a", "scope": "clients:read", "\\ud800": 1}',
    "a NUL as a name": b'{"name": "a", "scope": "clients:read", "\\u0000": 1}',
    "10,000 levels": b'{"name": ' + b"[" * 10_000 + b"]" * 10_000 + b"}",
    "numbers for strings": b'{"name": 1, "scope": 2}',
    "a long name": b'{"name": "' + b"a" * 101 + b'", "scope": "clients:read"}',
    "an unknown member": b'{"name": "a", "scope": "clients:read", "is_admin": true}',
    "a huge lifespan": b'{"name": "a", "scope": "clients:read", "lifespan": ' + b"9" * 4000 + b"}",
    "an endless number": b'{"name": "a", "scope": "clients:read", "lifespan": ' + b"9" * 5000 + b"}",
    "NaN": b'{"name": "a", "scope": "clients:read", "lifespan": NaN}',
    "networks that are none": b'{"name": "a", "scope": "clients:read", "networks": ["10.0.0.1/8", "::/129"]}',
}


@pytest.mark.parametrize("body", BAD_CLIENTS.values(), ids=BAD_CLIENTS.keys())
def test_a_bad_body_for_the_api_is_a_bad_request(server: Server, token: str, body: bytes) -> None:
    (answer,) = exchange(server, request("/api/v1/clients", body, JSON, f"Authorization: Bearer {token}"))
    assert answer.verdict == INVALID


BAD_IDS = [
    "%00",
    "a%00b",
    "%ff",
    "%ed%a0%80",
    "x" * 10_000,
    "..%2f..",
    "' OR 1=1 --".replace(" ", "%20"),
    "%F0%9F%92%A9",
]


@pytest.mark.parametrize("given", BAD_IDS, ids=range(len(BAD_IDS)))
def test_an_odd_id_names_nothing(server: Server, token: str, given: str) -> None:
    found = server.http.get(f"/api/v1/clients/{given}", headers=bearer(token))
    assert found.status_code in (400, 404)
    assert found.json()["code"] in ("client/not-found", "route/not-found", "bad-request/invalid-parameters")


def test_a_huge_body_for_the_api_is_too_large(server: Server, token: str) -> None:
    body = b'{"name": "' + b"a" * 10_000_000 + b'", "scope": "clients:read"}'
    (answer,) = exchange(server, request("/api/v1/clients", body, JSON, f"Authorization: Bearer {token}"))
    assert answer.verdict == TOO_LARGE


def test_a_huge_body_for_the_api_is_refused_before_it_comes(server: Server) -> None:
    """Also from a caller without a token, who else could fill our memory."""
    head = f"POST /api/v1/clients HTTP/1.1\r\nHost: x\r\n{JSON}\r\nContent-Length: 1000000000\r\n\r\n".encode()
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as caller:
        caller.sendall(head + b"{")
        assert read_answer(caller, "POST").verdict in (TOO_LARGE, UNKNOWN)


FORM = "Content-Type: application/x-www-form-urlencoded"
BAD_FORMS = {
    "empty": (b"", (401, "invalid_client")),
    "broken UTF-8": (b"grant_type=%ff", (400, "invalid_request")),
    "raw bytes": (b"\xff\xfe\x00", (400, "invalid_request")),
    "twice": (b"grant_type=a&grant_type=b", (400, "invalid_request")),
    "many": (b"&".join(b"f%d=1" % number for number in range(100)), (400, "invalid_request")),
    "NULs": (b"client_id=%00&client_secret=%00&grant_type=client_credentials", (401, "invalid_client")),
    "large": (b"a=" + b"b" * 10_000, (400, "invalid_request")),
}


@pytest.mark.parametrize(("body", "verdict"), BAD_FORMS.values(), ids=BAD_FORMS.keys())
@pytest.mark.parametrize("path", ["/oauth2/token", "/oauth2/introspect", "/oauth2/revoke"])
def test_a_bad_form_is_refused_in_the_words_of_oauth(
    server: Server, path: str, body: bytes, verdict: tuple[int, str]
) -> None:
    (answer,) = exchange(server, request(path, body, FORM))
    assert (answer.status, answer.body["error"]) == verdict or answer.status == 429
    assert answer.body.keys() >= {"code", "message", "error_description"}


@pytest.mark.parametrize(
    "value", ["Basic", "Basic !", "Basic =", "Basic /////w==", "Basic AAA=", "Bearer x", "\xff", "Basic Og=="]
)
def test_a_bad_basic_header_is_refused(server: Server, value: str) -> None:
    head = f"POST /oauth2/token HTTP/1.1\r\nHost: x\r\n{FORM}\r\nAuthorization: {value}\r\nContent-Length: 29\r\n\r\n"
    (answer,) = exchange(server, head.encode("latin-1") + b"grant_type=client_credentials")
    assert (answer.status, answer.body["error"]) == (401, "invalid_client") or answer.status == 429


TEXTS = st.one_of(st.text(), st.text(alphabet="\x00\ud800\udfff\uffff\\\"'"), st.none(), st.integers(), st.booleans())
MEMBERS = st.dictionaries(st.one_of(st.sampled_from(["client_id", "client_secret"]), st.text()), TEXTS, max_size=4)
JSON_LIKE = st.recursive(TEXTS | MEMBERS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner))


def encode(value: object) -> bytes:
    return json.dumps(value).encode() if not isinstance(value, bytes) else value


@settings(
    max_examples=150,
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(body=st.one_of(st.binary(max_size=200), MEMBERS.map(encode), JSON_LIKE.map(encode)))
async def test_whatever_the_body_of_a_token_request_is_it_is_refused_politely(
    http: httpx.AsyncClient, body: bytes
) -> None:
    answer = await http.post("/auth", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code in (400, 401, 429)
    assert answer.json().keys() == {"code", "message"}
