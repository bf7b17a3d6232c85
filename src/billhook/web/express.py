"""A route that goes past the framework: its layers cost more than the layers of what the route does."""

from collections.abc import Awaitable, Callable
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Route
from starlette.types import Receive, Scope, Send

from billhook.web.problems import HANDLERS

Endpoint = Callable[[Request], Awaitable[Response]]


class Express:
    """The framework, except for one route, which its table has as well: that tells who else may ask, and how."""

    def __init__(self, app: Starlette, path: str, endpoint: Endpoint, *, method: str) -> None:
        self.app, self._endpoint, self._method = app, endpoint, method
        self._route = Route(path, endpoint, methods=[method])

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        found = self._found(scope)
        if found is None:
            await self.app(scope, receive, send)
            return
        scope.update(found, app=self.app, route=self._route)
        request = Request(scope, receive, send)
        try:
            response = await self._endpoint(request)
        except Exception as error:  # the edge: every error has an answer, and a bug goes on to whoever logs it
            await (await _answer(request, error))(scope, receive, send)
            if not _is_known(error):
                raise
            return
        await response(scope, receive, send)

    def _found(self, scope: Scope) -> dict[str, Any] | None:
        if scope["type"] != "http" or scope["method"] != self._method:
            return None
        match, found = self._route.matches(scope)
        return dict(found) if match is Match.FULL else None


async def _answer(request: Request, error: Exception) -> Response:
    handler = next(HANDLERS[kind] for kind in type(error).__mro__ if kind in HANDLERS)
    return await handler(request, error)


def _is_known(error: Exception) -> bool:
    return any(kind in HANDLERS for kind in type(error).__mro__ if kind is not Exception)
