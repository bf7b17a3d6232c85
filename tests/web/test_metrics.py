"""Metrics count requests by route template; no label takes a value that a caller can make up."""

import httpx
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from tests.support import Registered, bearer, token_for

METHODS = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "other"}


async def labels(http: httpx.AsyncClient, name: str) -> set[str]:
    """All values that the label has anywhere."""
    families = text_string_to_metric_families((await http.get("/metrics")).text)  # type: ignore[no-untyped-call]
    return {sample.labels[name] for family in families for sample in family.samples if name in sample.labels}


async def value(http: httpx.AsyncClient, metric: str, **wanted: str) -> float:
    families = text_string_to_metric_families((await http.get("/metrics")).text)  # type: ignore[no-untyped-call]
    samples = [sample for family in families for sample in family.samples if sample.name == metric]
    return sum(float(sample.value) for sample in samples if wanted.items() <= sample.labels.items())


async def test_metrics_are_what_prometheus_reads(http: httpx.AsyncClient) -> None:
    answer = await http.get("/metrics")
    assert answer.headers["content-type"].startswith("application/openmetrics-text")
    assert answer.text.endswith("# EOF\n")


async def test_requests_are_counted_by_method_route_and_status(http: httpx.AsyncClient, robot: Registered) -> None:
    await token_for(http, robot)
    counted = {"method": "POST", "route": "/auth", "status": "201"}
    assert await value(http, "billhook_http_requests_total", **counted) == 1
    assert await value(http, "billhook_http_request_seconds_count", route="/auth") == 1


@pytest.mark.parametrize("path", ["/api/v1/clients/{}", "/api/v1/clients/{}/rotate"])
async def test_a_route_is_named_by_its_template(
    http: httpx.AsyncClient, headers: dict[str, str], robot: Registered, path: str
) -> None:
    await http.post(path.format(robot.client.id), headers=headers)
    routes = await labels(http, "route")
    assert path.removeprefix("/api/v1").format("{client_id}") in {route.removeprefix("/api/v1") for route in routes}


async def test_no_client_id_and_no_secret_is_ever_in_the_metrics(http: httpx.AsyncClient, robot: Registered) -> None:
    token = await token_for(http, robot)
    await http.post("/auth", json=robot.credentials | {"client_secret": "wrong"})
    await http.get(f"/api/v1/clients/{robot.client.id}", headers=bearer(token))
    await http.get(f"/{robot.client.id}/{robot.secret.text}")
    await http.post("/oauth2/token", data=robot.credentials | {"grant_type": "client_credentials"})
    shown = (await http.get("/metrics")).text
    assert robot.client.id not in shown
    assert robot.secret.id not in shown
    assert "eyJ" not in shown


async def test_made_up_paths_make_no_new_labels(http: httpx.AsyncClient) -> None:
    for path in ("/metrics", "/x0", "/api/v1/x0", "/auth/x0", "/.well-known/x0"):
        await http.get(path)
    before = await labels(http, "route")
    for turn in range(1, 20):
        for path in ("/x", "/api/v1/x", "/auth/x", "/.well-known/x"):
            await http.get(f"{path}{turn}")
    assert await labels(http, "route") == before


async def test_made_up_methods_make_no_new_labels(http: httpx.AsyncClient) -> None:
    for method in ("BREW", "PROPFIND", "X" * 100, "get"):
        await http.request(method, "/auth")
    assert await labels(http, "method") <= METHODS


async def test_outcomes_of_token_requests_are_counted(http: httpx.AsyncClient, robot: Registered) -> None:
    await token_for(http, robot)
    await http.post("/auth", json=robot.credentials | {"client_secret": "wrong"})
    assert await value(http, "billhook_token_requests_total") == 2
    assert await value(http, "billhook_token_requests_total", outcome="issued") == 1


async def test_gauges_are_read_when_prometheus_asks(http: httpx.AsyncClient, robot: Registered) -> None:
    assert await value(http, "billhook_clients") == 1
    assert await value(http, "billhook_signing_key_age_seconds") >= 0


async def test_two_applications_do_not_mix_their_metrics(http: httpx.AsyncClient) -> None:
    assert await value(http, "billhook_http_requests_total", route="/auth") == 0
