"""Around every request: an id that every line carries, one line, and an answer even when we have a bug."""

import logging

import httpx
import pytest
import structlog
from starlette.requests import Request
from starlette.responses import Response

from billhook.app import App
from billhook.errors import Unavailable
from tests.web.conftest import LogLines, add_route

GIVEN = "caller-0123456789"
SECRET = "bhs_0123456789_" + "a" * 49


async def talk(_request: Request) -> Response:
    logging.getLogger("some.library").warning("said the %s way", "standard")
    structlog.get_logger("billhook.some").warning("said our way")
    return Response("talked")


async def fail(_request: Request) -> Response:
    raise RuntimeError(f"no such secret: {SECRET}")


async def be_unavailable(_request: Request) -> Response:
    raise Unavailable(detail="the database is on fire")


@pytest.fixture(autouse=True)
def more_routes(app: App) -> None:
    """The real application with a few routes that misbehave."""
    for handler in (talk, fail, be_unavailable):
        add_route(app, f"/{handler.__name__}", handler)


async def test_every_answer_has_a_request_id_of_its_own(http: httpx.AsyncClient) -> None:
    answers = [await http.get(path) for path in ("/healthz", "/nowhere", "/fail", "/be_unavailable", "/api/v1/me")]
    found = [answer.headers.get_list("x-request-id") for answer in answers]
    assert all(len(ids) == 1 and ids[0] for ids in found)
    assert len({ids[0] for ids in found}) == len(answers)


async def test_a_harmless_id_is_kept(http: httpx.AsyncClient) -> None:
    answer = await http.get("/healthz", headers={"X-Request-Id": GIVEN})
    assert answer.headers["x-request-id"] == GIVEN


@pytest.mark.parametrize(
    "given",
    ["", "short", "x" * 65, "with space in it", "line\tbreak-0123", '"}{"event":"forged"', "ümlaut-0123", "a/b/c/d/e"],
)
async def test_any_other_id_is_replaced(http: httpx.AsyncClient, given: str) -> None:
    answer = await http.get("/healthz", headers={b"X-Request-Id": given.encode("latin-1")})
    assert answer.headers["x-request-id"] not in ("", given)


async def test_every_line_carries_the_id_of_its_request(http: httpx.AsyncClient, log_lines: LogLines) -> None:
    lines = await log_lines.of(http.get("/talk", headers={"X-Request-Id": GIVEN}))
    assert {line["event"] for line in lines} == {"said the standard way", "said our way", "request"}
    assert {line["request_id"] for line in lines} == {GIVEN}


async def test_a_request_leaves_one_line_that_says_what_it_was(http: httpx.AsyncClient, log_lines: LogLines) -> None:
    (line,) = await log_lines.of(http.get("/nowhere?secret=hunter2"))
    assert {name: line[name] for name in ("event", "level", "method", "path", "status", "peer")} == {
        "event": "request",
        "level": "info",
        "method": "GET",
        "path": "/nowhere",
        "status": 404,
        "peer": "127.0.0.1",
    }
    assert {"timestamp", "request_id", "milliseconds"} <= line.keys()


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics"])
async def test_probes_leave_no_line_while_all_is_well(http: httpx.AsyncClient, log_lines: LogLines, path: str) -> None:
    await http.get(path)
    lines = await log_lines.of(http.get("/nowhere"))
    assert [line["path"] for line in lines] == ["/nowhere"]


async def test_a_secret_in_a_path_is_not_logged(http: httpx.AsyncClient, log_lines: LogLines) -> None:
    assert SECRET not in str(await log_lines.of(http.get(f"/x/{SECRET}")))


async def test_a_bug_is_answered_with_json_that_tells_nothing(http: httpx.AsyncClient) -> None:
    answer = await http.get("/fail")
    assert answer.status_code == 500
    assert answer.headers["content-type"] == "application/json"
    assert answer.json() == {"code": "internal/error", "message": "something went wrong on our side"}


async def test_a_bug_is_logged_with_its_traceback_and_without_secrets(
    http: httpx.AsyncClient, log_lines: LogLines
) -> None:
    lines = await log_lines.of(http.get("/fail", headers={"X-Request-Id": GIVEN}))
    bug = next(line for line in lines if line["event"] == "bug")
    assert bug["request_id"] == GIVEN
    assert "RuntimeError: no such secret" in bug["exception"]
    assert SECRET not in str(bug)


async def test_a_failure_of_ours_is_logged_with_the_reason_that_the_caller_does_not_get(
    http: httpx.AsyncClient, log_lines: LogLines
) -> None:
    assert "fire" not in (await http.get("/be_unavailable")).text
    lines = await log_lines.of(http.get("/be_unavailable"))
    assert any(line.get("detail") == "the database is on fire" for line in lines)


async def test_the_server_goes_on_after_a_bug(http: httpx.AsyncClient) -> None:
    await http.get("/fail")
    assert (await http.get("/healthz")).status_code == 200
