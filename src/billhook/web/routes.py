"""How routes under /api/v1 read their bodies: bounded, and with the parser that refuses broken Unicode."""

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel, ValidationError
from starlette.requests import Request
from starlette.responses import Response

from billhook.web.requests import parse_json, read_body, require_content_type

Model = TypeVar("Model", bound=BaseModel)

LARGEST_BODY = 256 * 1024  # a notification of 32 KiB, every character of it escaped, and room to spare


async def read_as(request: Request, model: type[Model]) -> Model:
    """The body as FastAPI would read it, for a handler that it describes but does not run."""
    require_content_type(request.scope, "application/json")
    given = parse_json(await read_body(request.scope, request.receive, limit=LARGEST_BODY))
    try:
        return model.model_validate(given)
    except ValidationError as error:
        problems = error.errors(include_url=False, include_input=False)
        raise RequestValidationError([{**each, "loc": ("body", *each["loc"])} for each in problems]) from None


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
        checks = [getattr(each.call, "before_body", None) for each in self.dependant.dependencies]

        async def handle_bounded(request: Request) -> Response:
            """FastAPI reads the body before it asks who calls; who may not is told so, whatever they have sent."""
            for check in filter(None, checks):
                check(request)
            return await handle(BoundedRequest(request.scope, request.receive))

        return handle_bounded
