"""Tenants: to an organization, another one's things do not exist. Held for every route of the OpenAPI document."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import httpx
import pytest

from billhook.accounts.installation import Installation
from billhook.auth.context import Auth
from tests.scenarios.operations import Operation, operations
from tests.support import Registered, another_organization, bearer, register, token_for
from tests.tally import tally

NAME = "tenants, API"
API = "/api/v1/"
GROUP = f"{API}groups/{{group_id}}"  # deleted last, for all that is in it goes with it


@dataclass(frozen=True)
class Tenant:
    """An organization with one of everything."""

    organization_id: str
    robot: Registered
    token: str
    client: dict[str, Any]
    sent: dict[str, str]  # ids of all that has to do with notifications

    @property
    def marks(self) -> list[str]:
        """What must never be seen by another."""
        secrets = [secret["id"] for secret in self.client["secrets"]]
        own = [self.organization_id, self.robot.client.id, self.client["client_id"]]
        return [*own, *secrets, *self.sent.values()]


# How each path parameter is filled with something of a tenant's; a route with a new one fails until it is here.
OWN: dict[str, Callable[[Tenant], str]] = {
    "client_id": lambda tenant: str(tenant.client["client_id"]),
    "secret_id": lambda tenant: str(tenant.client["secrets"][0]["id"]),
    "group_id": lambda tenant: tenant.sent["group_id"],
    "provider_id": lambda tenant: tenant.sent["provider_id"],
    "notification_id": lambda tenant: tenant.sent["notification_id"],
    "delivery_id": lambda tenant: tenant.sent["delivery_id"],
    "recovery_id": lambda tenant: tenant.sent["recovery_id"],
}

# Members of bodies whose form the document does not tell. Nothing may reach this address, so nothing waits for it.
VALID = {"server_url": "http://127.0.0.1:9/", "since": "2026-01-01T00:00:00Z"}
WEBHOOK = {"type": "Webhook", "name": "one", "server_url": VALID["server_url"], "request_method": "POST"}


@pytest.fixture
async def ours(http: httpx.AsyncClient, installation: Installation, auth: Auth) -> Tenant:
    return await furnish(http, auth, await register(installation))


@pytest.fixture
async def theirs(http: httpx.AsyncClient, installation: Installation, auth: Auth) -> Tenant:
    elsewhere = await another_organization(installation)
    return await furnish(http, auth, await register(installation, organization_id=elsewhere))


async def furnish(http: httpx.AsyncClient, auth: Auth, robot: Registered) -> Tenant:
    """One of everything, and a client with two live secrets, so that every route has something to work on."""
    await auth.registry.refresh()
    token = await token_for(http, robot)
    headers = bearer(token)
    made = await http.post(f"{API}clients", json={"name": "one", "scope": "clients:read"}, headers=headers)
    path = f"{API}clients/{made.json()['data']['client_id']}/rotate"
    rotated = await http.post(path, json={"grace": "1h"}, headers=headers)
    assert rotated.status_code == 200, rotated.text
    return Tenant(robot.client.organization_id, robot, token, rotated.json()["data"], await send(http, headers))


async def send(http: httpx.AsyncClient, headers: dict[str, str]) -> dict[str, str]:
    """A group, a provider in it, a notification sent to it, and a recovery begun."""

    async def make(path: str, body: dict[str, Any]) -> dict[str, Any]:
        made = await http.post(f"{API}{path}", json=body, headers=headers)
        assert made.is_success, made.text
        return dict(made.json()["data"])

    group = (await make("groups", {"name": "one"}))["id"]
    provider = (await make(f"groups/{group}/providers", WEBHOOK))["id"]
    sent = await make(f"groups/{group}/notifications", {"title": "one", "content": "two"})
    recovery = await make(f"groups/{group}/providers/{provider}/recover", {"since": VALID["since"]})
    return {
        "group_id": group,
        "provider_id": provider,
        "notification_id": sent["id"],
        "delivery_id": sent["deliveries"][0]["id"],
        "recovery_id": recovery["id"],
    }


async def api_operations(http: httpx.AsyncClient) -> list[Operation]:
    document = (await http.get("/openapi.json")).json()
    return [valid(operation) for operation in operations(document) if operation.path.startswith(API)]


def valid(operation: Operation) -> Operation:
    """The same with values that are understood, where the document gives the members' names only."""

    def fill(body: Any) -> Any:
        return {name: VALID.get(name, value) for name, value in body.items()} if isinstance(body, dict) else body

    return replace(operation, content={kind: fill(body) for kind, body in operation.content.items()})


async def test_every_route_answers_for_anothers_id_as_for_one_that_does_not_exist(
    http: httpx.AsyncClient, ours: Tenant, theirs: Tenant
) -> None:
    with_ids = [operation for operation in await api_operations(http) if operation.parameters]
    assert with_ids
    for operation in with_ids:
        for foreign, absent in mixtures(operation, ours, theirs):
            seen = await answer(http, operation, foreign, ours.token)
            told = [mark for mark in theirs.marks if mark in str(seen) and mark not in foreign.values()]
            tally.leaked(NAME) if told else None
            assert not told, (str(operation), told)
            assert seen == await answer(http, operation, absent, ours.token), (str(operation), foreign)
            if all(foreign[name] != OWN[name](ours) for name in operation.parameters):
                assert seen[0] == 404, (str(operation), seen)


async def test_nothing_of_the_other_organization_has_changed_by_it(
    http: httpx.AsyncClient, ours: Tenant, theirs: Tenant
) -> None:
    before = await everything(http, theirs)
    for operation in await api_operations(http):
        if operation.parameters:
            await answer(http, operation, {name: OWN[name](theirs) for name in operation.parameters}, ours.token)
    assert await everything(http, theirs) == before


MOVING = {f"{API}me", f"{API}clients"}  # they tell when tokens end and when they were last asked for


async def everything(http: httpx.AsyncClient, tenant: Tenant) -> list[Any]:
    """What the tenant itself is shown."""
    shown = []
    for operation in await api_operations(http):
        if operation.method == "get" and operation.path not in MOVING:
            status, body = await answer(http, operation, {name: OWN[name](tenant) for name in OWN}, tenant.token)
            assert status == 200, (str(operation), body)
            shown.append(body)
    return shown


async def test_the_same_requests_on_ones_own_ids_are_understood(http: httpx.AsyncClient, ours: Tenant) -> None:
    """Else the two above would hold for the wrong reason."""
    in_turn = sorted(await api_operations(http), key=lambda one: (one.method == "delete", one.path == GROUP))
    for operation in in_turn:
        status, body = await answer(http, operation, {name: OWN[name](ours) for name in OWN}, ours.token)
        assert status in (200, 201, 202, 204, 409), (str(operation), body)


async def test_no_list_shows_what_belongs_to_another(http: httpx.AsyncClient, ours: Tenant, theirs: Tenant) -> None:
    lists = [one for one in await api_operations(http) if one.method == "get" and not one.parameters]
    assert lists
    for operation in lists:
        for cursor in (None, *theirs.marks, "~"):
            query = {} if cursor is None else {"cursor": cursor}
            shown = await http.get(operation.path, params=query, headers=bearer(ours.token))
            tally.answered(NAME, str(operation), shown.status_code)
            told = [mark for mark in theirs.marks if mark in shown.text]
            tally.leaked(NAME) if told else None
            assert not told, str(operation)


async def test_a_token_of_another_organization_is_not_active_and_cannot_be_revoked(
    http: httpx.AsyncClient, ours: Tenant, theirs: Tenant
) -> None:
    credentials = ours.robot.credentials
    introspected = await http.post("/oauth2/introspect", data=credentials | {"token": theirs.token})
    tally.answered(NAME, "introspect", introspected.status_code)
    tally.leaked(NAME) if introspected.json() != {"active": False} else None
    assert introspected.json() == {"active": False}
    revoked = await http.post("/oauth2/revoke", data=credentials | {"token": theirs.token})
    assert revoked.status_code == 200
    assert (await http.get(f"{API}me", headers=bearer(theirs.token))).status_code == 200


def mixtures(operation: Operation, ours: Tenant, theirs: Tenant) -> Iterator[tuple[dict[str, str], dict[str, str]]]:
    """Ids with at least one of the other's among them; and the same with ids in its place that do not exist."""
    for whose in product((ours, theirs), repeat=len(operation.parameters)):
        if theirs in whose:
            named = list(zip(operation.parameters, whose, strict=True))
            foreign = {name: OWN[name](tenant) for name, tenant in named}
            yield foreign, {n: unlike(foreign[n]) if tenant is theirs else foreign[n] for n, tenant in named}


def unlike(real: str) -> str:
    """An id of the same form that names nothing."""
    return real[:-6] + "".join("1" if character == "0" else "0" for character in real[-6:])


async def answer(
    http: httpx.AsyncClient, operation: Operation, ids: dict[str, str], token: str
) -> tuple[int, dict[str, Any]]:
    """Status and body, but not what differs between any two requests."""
    answered = await http.request(**operation.request(ids), headers=bearer(token))
    tally.answered(NAME, str(operation), answered.status_code)
    return answered.status_code, answered.json()
