"""Tokens of every scope at every route, and what one thing leads to: the OpenAPI document holds for all of them."""

from collections.abc import Iterator
from contextlib import suppress
from copy import deepcopy
from typing import Any

import pytest
import schemathesis
from hypothesis.errors import FlakyStrategyDefinition
from schemathesis import Case, Response

from billhook.auth.model import SCOPES
from tests.scenarios.processes import Billhook, bearer
from tests.scenarios.test_isolation import unlike
from tests.scenarios.test_openapi import ALL_SCOPES, CHECKS, DOCUMENT, SAME, Victims
from tests.tally import tally

NAME, FLOWS = "scopes", "links"
UNKNOWN, MISSING, NOWHERE = 401, 403, 404  # the last: a made-up id with a slash in it
API = r"^/api/v1/"


# Without the phase that tries every way to break a schema, for that is done once, with a token that may do all.
PHASES = {"phases": {"coverage": {"enabled": False}, "examples": {"enabled": False}}}
GENERATION = {"generation": {"deterministic": bool(SAME), "database": "none"}}
CONFIG = schemathesis.Config.from_dict(SAME | PHASES | GENERATION)
schema = schemathesis.openapi.from_dict(deepcopy(DOCUMENT), config=CONFIG)  # links that it infers are written into it


def required(case: Case[Any]) -> set[str]:
    """The scopes that the document asks for."""
    operation = DOCUMENT["paths"][case.path][case.method.lower()]
    return {scope for scheme in operation["security"] for scope in scheme["bearer"]}


class Tokens:
    """One for each scope alone, one with all, and none at all."""

    def __init__(self, victims: Victims) -> None:
        clients = {scope: victims.post("clients", {"name": scope, "scope": scope}) for scope in (*SCOPES, ALL_SCOPES)}
        self.headers = {held: bearer(victims.server.token(client)) for held, client in clients.items()}

    def __iter__(self) -> Iterator[tuple[set[str], dict[str, str]]]:
        yield set(), {}
        for held, headers in self.headers.items():
            yield set(held.split()), headers


@pytest.fixture(scope="module")
def victims(shared_billhook: Billhook) -> Victims:
    robot = shared_billhook.create_client(scope=ALL_SCOPES)
    many = {"BILLHOOK_MAX_GROUPS": "100000", "BILLHOOK_MAX_PROVIDERS": "1000"}
    return Victims(shared_billhook.serve(BILLHOOK_TRUSTED_PROXIES="127.0.0.0/8", **many), robot)


@pytest.fixture(scope="module")
def tokens(victims: Victims) -> Tokens:
    return Tokens(victims)


def test_every_route_of_the_api_says_which_scope_it_needs() -> None:
    for path, item in DOCUMENT["paths"].items():
        for operation in item.values() if path.startswith("/api/") else ():
            scopes = [scope for scheme in operation["security"] for scope in scheme["bearer"]]
            assert set(scopes) <= set(SCOPES)
            assert bool(scopes) == (path != "/api/v1/me"), path


@schema.include(path_regex=API).parametrize()
@tally.settings(2)
def test_a_scope_opens_its_routes_and_no_others(case: Case[Any], victims: Victims, tokens: Tokens) -> None:
    """403 exactly where the scope is missing, 401 without a token; and each answer is one that the document has."""
    ids = {name: victims.lasting[name] for name in case.path_parameters}
    is_deleted = case.method == "DELETE"  # then of what does not exist, for one and the same is asked for many times
    case.path_parameters = {name: unlike(id) if is_deleted else id for name, id in ids.items()}
    for held, headers in tokens:
        answer = call(case, victims, headers)
        if answer.request.headers.get("Authorization") != headers.get("Authorization"):
            assert answer.status_code == UNKNOWN, answer.text  # a header of the generator's own making
            continue
        assert (answer.status_code == UNKNOWN) == (not headers), (answer.text, answer.request.headers)
        if headers and not required(case) <= held:
            assert answer.status_code == MISSING, (held, answer.text)
        elif headers and answer.status_code == MISSING:
            # what the token may do, but not pass on: nobody gives a client more than they hold themselves
            assert case.path.startswith("/api/v1/clients"), (held, answer.text)


def call(case: Case[Any], victims: Victims, headers: dict[str, str]) -> Response:
    if case.headers:
        case.headers.pop("Authorization", None)  # of its own making
    answer = case.call(base_url=str(victims.server.http.base_url), headers=headers)
    tally.answered(NAME, f"{case.method} {case.path}", answer.status_code)
    case.validate_response(answer, checks=CHECKS, headers=headers)
    return answer


@pytest.mark.parametrize("held", [ALL_SCOPES, *SCOPES, ""])
def test_what_an_answer_leads_to_is_as_the_document_describes_it(victims: Victims, tokens: Tokens, held: str) -> None:
    """Groups, their providers, notifications and deliveries in any order that the links allow."""
    robot, base_url = victims.robot["client_id"], str(victims.server.http.base_url)
    headers = tokens.headers[held] if held else {}
    found: list[str] = []  # of what exists, whose id only an answer can have told
    wrong: list[tuple[str, str]] = []

    class Flow(schema.include(path_regex=API).as_state_machine()):  # type: ignore[misc]
        def before_call(self, case: Case[Any]) -> None:
            if case.path_parameters.get("client_id") == robot:  # else nothing would be answered any more
                case.path_parameters["client_id"] = unlike(robot)

        def get_call_kwargs(self, case: Case[Any]) -> dict[str, Any]:
            return {"base_url": base_url, "headers": headers}

        def validate_response(self, response: Response, case: Case[Any], **_more: Any) -> None:
            tally.answered(FLOWS, f"{case.method} {case.path}", response.status_code)
            found.extend([case.path] if case.path_parameters and response.status_code < 300 else [])
            wrong.append((case.path, response.text))
            assert held or response.status_code in (UNKNOWN, NOWHERE)
            case.validate_response(response, checks=CHECKS, headers=headers)
            wrong.pop()

    # What is drawn depends on what the server has answered, so that drawing it again may give something else.
    with suppress(FlakyStrategyDefinition):
        Flow.run(settings=tally.settings(8 if held == ALL_SCOPES else 2, stateful_step_count=12))
    assert wrong == []
    assert bool(found) or held != ALL_SCOPES, "no link was followed to anything"


def test_the_links_lead_from_what_was_made_to_what_it_is_part_of(victims: Victims) -> None:
    """By hand along each link from an answer that is right: it names something that exists."""
    document, http = DOCUMENT["paths"], victims.server.http
    by_id = {
        operation["operationId"]: (method, path)
        for path, item in document.items()
        for method, operation in item.items()
        if "operationId" in operation
    }
    linked = [
        (f"{method} {path}", link)
        for path, item in document.items()
        for method, operation in item.items()
        for answer in operation["responses"].values()
        for link in answer.get("links", {}).values()
    ]
    assert len(linked) > 20
    made = victims.make()
    for source, link in linked:
        method, path = by_id[link["operationId"]]
        known = set(link["parameters"]) & set(made)
        assert known == set(link["parameters"]), (source, link)
        if method == "get":
            url = path.format_map(made)
            query = {name: made[name] for name in known if f"{{{name}}}" not in path}
            answer = http.get(url, params=query, headers=victims.headers)
            tally.answered(FLOWS, f"GET {path}", answer.status_code)
            assert answer.status_code == 200, (source, link, answer.text)
            assert not query or answer.json()["data"], (source, link)
