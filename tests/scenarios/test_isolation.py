"""Tenants: to an organization, another one's things do not exist. Held for every route of the OpenAPI document."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import httpx
import pytest

from billhook.accounts.installation import Installation
from billhook.auth.context import Auth
from tests.scenarios.operations import Operation, operations
from tests.support import Registered, another_organization, bearer, register, token_for

API = "/api/v1/"


@dataclass(frozen=True)
class Tenant:
    """An organization with one of everything."""

    organization_id: str
    robot: Registered
    token: str
    client: dict[str, Any]

    @property
    def marks(self) -> list[str]:
        """What must never be seen by another."""
        secrets = [secret["id"] for secret in self.client["secrets"]]
        return [self.organization_id, self.robot.client.id, self.client["client_id"], *secrets]


# How each path parameter is filled with something of a tenant's; a route with a new one fails until it is here.
OWN: dict[str, Callable[[Tenant], str]] = {
    "client_id": lambda tenant: str(tenant.client["client_id"]),
    "secret_id": lambda tenant: str(tenant.client["secrets"][0]["id"]),
}


@pytest.fixture
async def ours(http: httpx.AsyncClient, installation: Installation, auth: Auth) -> Tenant:
    return await furnish(http, auth, await register(installation))


@pytest.fixture
async def theirs(http: httpx.AsyncClient, installation: Installation, auth: Auth) -> Tenant:
    elsewhere = await another_organization(installation)
    return await furnish(http, auth, await register(installation, organization_id=elsewhere))


async def furnish(http: httpx.AsyncClient, auth: Auth, robot: Registered) -> Tenant:
    """A client with two live secrets, so that every route has something to work on."""
    await auth.registry.refresh()
    token = await token_for(http, robot)
    headers = bearer(token)
    made = await http.post(f"{API}clients", json={"name": "one", "scope": "clients:read"}, headers=headers)
    path = f"{API}clients/{made.json()['data']['client_id']}/rotate"
    rotated = await http.post(path, json={"grace": "1h"}, headers=headers)
    assert rotated.status_code == 200, rotated.text
    return Tenant(robot.client.organization_id, robot, token, rotated.json()["data"])


async def api_operations(http: httpx.AsyncClient) -> list[Operation]:
    document = (await http.get("/openapi.json")).json()
    return [operation for operation in operations(document) if operation.path.startswith(API)]


async def test_every_route_answers_for_anothers_id_as_for_one_that_does_not_exist(
    http: httpx.AsyncClient, ours: Tenant, theirs: Tenant
) -> None:
    with_ids = [operation for operation in await api_operations(http) if operation.parameters]
    assert with_ids
    for operation in with_ids:
        for foreign, absent in mixtures(operation, ours, theirs):
            seen = await answer(http, operation, foreign, ours.token)
            assert seen == await answer(http, operation, absent, ours.token), (str(operation), foreign)
            if all(foreign[name] != OWN[name](ours) for name in operation.parameters):
                assert seen[0] == 404, (str(operation), seen)


async def test_nothing_of_the_other_organization_has_changed_by_it(
    http: httpx.AsyncClient, ours: Tenant, theirs: Tenant
) -> None:
    path = f"{API}clients/{theirs.client['client_id']}"
    before = await http.get(path, headers=bearer(theirs.token))
    for operation in await api_operations(http):
        if operation.parameters:
            await answer(http, operation, {name: OWN[name](theirs) for name in operation.parameters}, ours.token)
    after = await http.get(path, headers=bearer(theirs.token))
    assert after.status_code == 200
    assert after.json() == before.json()


async def test_the_same_requests_on_ones_own_ids_are_understood(http: httpx.AsyncClient, ours: Tenant) -> None:
    """Else the two above would hold for the wrong reason."""
    in_turn = sorted(await api_operations(http), key=lambda operation: operation.method == "delete")
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
            assert not [mark for mark in theirs.marks if mark in shown.text], str(operation)


async def test_a_token_of_another_organization_is_not_active_and_cannot_be_revoked(
    http: httpx.AsyncClient, ours: Tenant, theirs: Tenant
) -> None:
    credentials = ours.robot.credentials
    introspected = await http.post("/oauth2/introspect", data=credentials | {"token": theirs.token})
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
    return answered.status_code, answered.json()
