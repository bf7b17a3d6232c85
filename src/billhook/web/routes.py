"""How routes under /api/v1 read their bodies: bounded, and with the parser that refuses broken Unicode."""

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response

from billhook.web.requests import parse_json, read_body

LARGEST_BODY = 256 * 1024  # a notification of 32 KiB, every character of it escaped, and room to spare


class BoundedRequest(Request):
    async def body(self) -> bytes:
        if not hasattr(self, "_body"):
            self._body = await read_body(self.scope, self.receive, limit=LARGEST_BODY)
        return self._body

    async def json(self) -> Any:
        return parse_json(await self.body())


class BoundedRoute(APIRoute):
    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def handle_bounded(request: Request) -> Response:
            return await handle(BoundedRequest(request.scope, request.receive))

        return handle_bounded
