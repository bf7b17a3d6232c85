"""The OpenAPI document tells the truth: whatever one sends, the answer is one that it describes."""

import itertools
import json
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from schemathesis import Case
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from billhook.app import build_api, describe
from tests.scenarios.processes import Billhook, Server, bearer
from tests.tally import tally

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
UNREACHABLE = {"type": "Webhook", "name": "victim", "server_url": "http://127.0.0.1:9/", "request_method": "POST"}
ALL_SCOPES = "clients:read clients:write groups:read groups:write notifications:read notifications:send"


class Victims:
    """Clients, groups and all that is in them, to be changed and deleted, so that nobody revokes the one that asks."""

    def __init__(self, server: Server, robot: dict[str, Any]) -> None:
        self.server, self.robot, self.numbers = server, robot, itertools.count()
        self.lasting = self.make()

    @property
    def headers(self) -> dict[str, str]:
        return bearer(self.server.token(self.robot))

    def make(self) -> dict[str, str]:
        """What the path parameters may be, so that they name something. With two secrets, since one cannot be ended."""
        client = self.post("clients", {"name": "victim", "scope": "clients:read"})
        rotated = self.post(f"clients/{client['client_id']}/rotate", {"grace": "1h"})
        group = self.post("groups", {"name": f"victim {next(self.numbers)}"})["id"]
        provider = self.post(f"groups/{group}/providers", UNREACHABLE)["id"]
        sent = self.post(f"groups/{group}/notifications", {"title": "one", "content": "two"})
        recovery = self.post(f"groups/{group}/providers/{provider}/recover", {"since": "2026-01-01T00:00:00Z"})
        return {
            "client_id": rotated["client_id"],
            "secret_id": rotated["secrets"][0]["id"],
            "group_id": group,
            "provider_id": provider,
            "notification_id": sent["id"],
            "delivery_id": sent["deliveries"][0]["id"],
            "recovery_id": recovery["id"],
        }

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        answer = self.server.http.post(f"/api/v1/{path}", json=body, headers=self.headers)
        assert answer.is_success, answer.text
        return dict(answer.json()["data"])


@pytest.fixture(scope="module")
def victims(shared_billhook: Billhook) -> Victims:
    robot = shared_billhook.create_client(scope=ALL_SCOPES)
    many = {"BILLHOOK_MAX_GROUPS": "10000", "BILLHOOK_MAX_PROVIDERS": "1000"}
    return Victims(shared_billhook.serve(BILLHOOK_TRUSTED_PROXIES="127.0.0.0/8", **many), robot)


@pytest.fixture(scope="module")
def addresses() -> Iterator[str]:
    """A caller from elsewhere each time, so that failures are not all told to wait."""
    return (f"2001:db8:{number:x}::1" for number in itertools.count(1))


DOCUMENT = describe(build_api(), "")
SAME = {"seed": 1} if tally.times == 1 else {}
CONFIG = schemathesis.Config.from_dict(SAME | {"generation": {"deterministic": bool(SAME), "database": "none"}})
schema = schemathesis.openapi.from_dict(DOCUMENT, config=CONFIG)
bounded = tally.settings(12)


def test_the_document_held_here_is_the_one_that_is_served(victims: Victims) -> None:
    assert victims.server.http.get("/openapi.json").json() == json.loads(json.dumps(DOCUMENT))


@schema.parametrize()
@bounded
def test_every_answer_is_one_that_the_document_describes(
    case: Case[Any], victims: Victims, addresses: Iterator[str]
) -> None:
    headers = victims.headers if case.path.startswith("/api/") else {}
    call(case, victims, headers | {"X-Forwarded-For": next(addresses)})


@schema.include(path_regex=r"\{").parametrize()
@bounded
def test_every_answer_about_something_that_exists_is_one_that_the_document_describes(
    case: Case[Any], victims: Victims
) -> None:
    ids = victims.make() if case.method == "DELETE" else victims.lasting
    case.path_parameters = {name: ids[name] for name in case.path_parameters}
    call(case, victims, victims.headers)


def call(case: Case[Any], victims: Victims, headers: dict[str, str]) -> None:
    answer = case.call(base_url=str(victims.server.http.base_url), headers=headers)
    tally.answered("openapi", f"{case.method} {case.path}", answer.status_code)
    case.validate_response(answer, checks=CHECKS, headers=headers)
