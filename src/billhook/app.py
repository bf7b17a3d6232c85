"""The composition root: an installation in, the ASGI application out. The whole route table is on this screen."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.routing import BaseRoute, Mount, Route, Router

from billhook import __version__
from billhook.accounts.installation import Installation
from billhook.auth import api as clients_api
from billhook.auth import documents, endpoint, oauth
from billhook.auth.context import Auth
from billhook.auth.upkeep import keep_up
from billhook.log import access_log
from billhook.web import docs, health
from billhook.web.metrics import Metrics
from billhook.web.middleware import RequestManners
from billhook.web.problems import HANDLERS

API_PREFIX = "/api/v1"
METADATA_PATH = "/.well-known/oauth-authorization-server"


@asynccontextmanager
async def running_app(installation: Installation) -> AsyncIterator[Starlette]:
    """The application, with all that goes on beside its requests."""
    settings, metrics = installation.settings, Metrics()
    auth = Auth.build(installation, metrics)
    api = build_api()
    app = Starlette(
        routes=prefixed(settings.path_prefix, routes(api)),
        middleware=[
            Middleware(RequestManners, metrics=metrics, access=access_log(settings.log_level, settings.log_format))
        ],
        exception_handlers=HANDLERS,
    )
    app.router.redirect_slashes = False  # a redirected POST would carry its secrets twice over the wire
    for part in (app, api):
        part.state.db, part.state.metrics, part.state.auth = installation.db, metrics, auth
    app.state.openapi = describe(api, settings.path_prefix)
    watch(auth, metrics)
    async with keep_up(auth):
        yield app


def routes(api: FastAPI) -> list[BaseRoute]:
    return [
        Route("/auth", endpoint.issue_token, methods=["POST"]),
        Route("/.well-known/jwks.json", endpoint.publish_keys),
        Route("/oauth2/token", oauth.token, methods=["POST"]),
        Route("/oauth2/introspect", oauth.introspect, methods=["POST"]),
        Route("/oauth2/revoke", oauth.revoke, methods=["POST"]),
        Route(METADATA_PATH, oauth.metadata),
        Route("/openapi.json", docs.openapi),
        Route("/docs", docs.page),
        Route("/docs.css", docs.stylesheet),
        Route("/healthz", health.healthz),
        Route("/readyz", health.readyz),
        Route("/metrics", health.show_metrics),
        Mount(API_PREFIX, app=api),
    ]


def prefixed(prefix: str, inner: list[BaseRoute]) -> list[BaseRoute]:
    """All under the path of the base URL; but RFC 8414 wants its document at the root, with the path behind it."""
    if not prefix:
        return inner
    return [Route(METADATA_PATH + prefix, oauth.metadata), Mount(prefix, app=Router(inner, redirect_slashes=False))]


def build_api() -> FastAPI:
    api = FastAPI(
        title="Billhook",
        version=__version__,
        openapi_url=None,
        redirect_slashes=False,
        exception_handlers=HANDLERS,
    )
    api.include_router(clients_api.router, tags=["clients"])
    return api


def describe(api: FastAPI, prefix: str) -> dict[str, Any]:
    """One OpenAPI document for all routes: FastAPI's own, moved under the prefix, and those served beside it."""
    document = api.openapi()
    paths = {API_PREFIX + path: item for path, item in document["paths"].items()}
    components = document["components"]
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
    metrics.key_age.set_function(auth.registry.key_age_seconds)
