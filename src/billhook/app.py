"""The composition root: an installation in, the ASGI application out. The whole route table is on this screen."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import cache, partial
from itertools import chain
from typing import Any

from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.routing import BaseRoute, Mount, Route, Router

from billhook import __version__
from billhook.accounts.installation import Installation
from billhook.auth import api as clients_api
from billhook.auth import documents, endpoint, oauth
from billhook.auth.context import Auth
from billhook.auth.upkeep import keep_up
from billhook.console.context import HOME, Console
from billhook.console.routes import build_console, to_console
from billhook.delivery import api as deliveries_api
from billhook.delivery import control_api
from billhook.delivery.context import Hub, open_hub
from billhook.delivery.worker import Worker, running_worker
from billhook.groups import api as groups_api
from billhook.web import docs, health, links
from billhook.web.access import AccessLog
from billhook.web.express import Express
from billhook.web.lanes import Lane, as_handler
from billhook.web.metrics import Metrics
from billhook.web.middleware import RequestManners
from billhook.web.problems import HANDLERS

PARTS = (clients_api, groups_api, control_api, deliveries_api)
API_PREFIX = "/api/v1"
METADATA_PATH = "/.well-known/oauth-authorization-server"
HEALTH_ROUTES = (
    Route("/healthz", health.healthz),
    Route("/readyz", health.readyz),
    Route("/metrics", health.show_metrics),
)


@dataclass(frozen=True)
class App:
    """The application as a server calls it, and its parts for those who must look inside."""

    asgi: RequestManners
    auth: Auth
    hub: Hub
    metrics: Metrics
    worker: Worker | None = None

    def stop_claiming(self) -> None:
        """As soon as we are told to stop: what is in the air may land while the last requests are answered."""
        if self.worker is not None:
            self.worker.stop()


@asynccontextmanager
async def running_app(installation: Installation, *, with_worker: bool = False) -> AsyncIterator[App]:
    """The application, with all that goes on beside its requests."""
    settings, metrics = installation.settings, Metrics()
    auth, access = Auth.build(installation, metrics), AccessLog(settings.log_level, settings.log_format)
    issue_token = endpoint.TokenEndpoint(auth.issuer, settings.trusted_proxies)
    lanes = {("POST", f"{settings.path_prefix}/auth"): issue_token}
    watch(auth, metrics)
    async with keep_up(auth), open_hub(installation, metrics) as hub, AsyncExitStack() as stack:
        framework = build_framework(auth, hub, metrics, issue_token)
        worker = await stack.enter_async_context(running_worker(hub)) if with_worker else None
        send_path = settings.path_prefix + API_PREFIX + deliveries_api.SEND_PATH
        express = Express(framework, send_path, deliveries_api.send_directly, method="POST")
        manners = RequestManners(express, lanes=lanes, metrics=metrics, access=access)
        yield App(manners, auth, hub, metrics, worker)
    access.flush()


@asynccontextmanager
async def worker_app(installation: Installation) -> AsyncIterator[RequestManners]:
    """A worker alone, and an application that only tells how it is."""
    settings, metrics = installation.settings, Metrics()
    access = AccessLog(settings.log_level, settings.log_format)
    app = Starlette(routes=HEALTH_ROUTES, exception_handlers=HANDLERS)
    app.state.db, app.state.metrics = installation.db, metrics
    async with open_hub(installation, metrics) as hub, running_worker(hub):
        yield RequestManners(app, lanes={}, metrics=metrics, access=access)
    access.flush()


def build_framework(auth: Auth, hub: Hub, metrics: Metrics, issue_token: Lane) -> Starlette:
    api, prefix = build_api(), auth.settings.path_prefix
    console = build_console(Console.build(auth, hub), metrics)
    app = Starlette(routes=prefixed(prefix, routes(api, console, issue_token)), exception_handlers=HANDLERS)
    app.router.redirect_slashes = False  # a redirected POST would carry its secrets twice over the wire
    app.state.openapi = cache(partial(describe, api, prefix))  # made when first asked for: it takes a while
    for part in (app, api):
        part.state.db, part.state.metrics, part.state.auth, part.state.hub = auth.db, metrics, auth, hub
    return app


def routes(api: FastAPI, console: Starlette, issue_token: Lane) -> list[BaseRoute]:
    return [
        Route(API_PREFIX + deliveries_api.SEND_PATH, deliveries_api.send_directly, methods=["POST"]),
        Route("/auth", as_handler(issue_token), methods=["POST"]),
        Route("/.well-known/jwks.json", endpoint.publish_keys),
        Route("/oauth2/token", oauth.token, methods=["POST"]),
        Route("/oauth2/introspect", oauth.introspect, methods=["POST"]),
        Route("/oauth2/revoke", oauth.revoke, methods=["POST"]),
        Route(METADATA_PATH, oauth.metadata),
        Route("/openapi.json", docs.openapi),
        Route("/docs", docs.page),
        Route("/docs.css", docs.stylesheet),
        *HEALTH_ROUTES,
        Mount(API_PREFIX, app=api),
        Route("/", to_console),
        Route(HOME, to_console),
        Mount(HOME, app=console),
    ]


def prefixed(prefix: str, inner: list[BaseRoute]) -> list[BaseRoute]:
    """All under the path of the base URL; but RFC 8414 wants its document at the root, with the path behind it."""
    if not prefix:
        return inner
    at_root = [Route(METADATA_PATH + prefix, oauth.metadata), Route(prefix, to_console)]
    return [*at_root, Mount(prefix, app=Router(inner, redirect_slashes=False))]


def build_api() -> FastAPI:
    return FastAPI(
        title="Billhook",
        version=__version__,
        openapi_url=None,
        redirect_slashes=False,
        strict_content_type=True,
        exception_handlers=HANDLERS,
        routes=[*chain.from_iterable(part.router.routes for part in PARTS)],
    )


def describe(api: FastAPI, prefix: str) -> dict[str, Any]:
    """One OpenAPI document for all routes: FastAPI's own, moved under the prefix, and those served beside it."""
    document = api.openapi()
    links.add_links(document["paths"])
    paths = {API_PREFIX + path: item for path, item in document["paths"].items()}
    components = document["components"]
    for operation in (operation for item in paths.values() for operation in item.values()):
        operation["responses"].pop("422", None)  # FastAPI's own; ours is 400
    for name in ("HTTPValidationError", "ValidationError"):
        components["schemas"].pop(name, None)
    return document | {
        "info": document["info"] | {"description": documents.DESCRIPTION},
        "servers": [{"url": prefix or "/"}],
        "paths": documents.PATHS | paths,
        "components": components
        | {
            "schemas": components["schemas"] | documents.SCHEMAS,
            "securitySchemes": components["securitySchemes"] | documents.SECURITY_SCHEMES,
        },
    }


def watch(auth: Auth, metrics: Metrics) -> None:
    """Gauges that are read when Prometheus asks, not kept up to date in between."""
    metrics.clients.set_function(lambda: len(auth.registry.clients))
    metrics.activity_pending.set_function(lambda: auth.activity.pending)
    metrics.registry_age.set_function(lambda: auth.registry.age_seconds)
    metrics.key_age.set_function(auth.registry.key_age_seconds)
    metrics.tell_of_tokens()
