"""billhook receive"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Annotated, Any

import orjson
import typer
import uvicorn
from starlette.requests import Request
from starlette.responses import Response

from billhook.cli.output import Json, print_json_line, show
from billhook.cli.serve import open_port
from billhook.errors import Refusal
from billhook.providers.signing import is_signing_secret, verify
from billhook.web.requests import read_body

LARGEST_BODY = 1024 * 1024
WITHOUT_BODY = (204, 205, 304)

Port = Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes a free one.")]
Host = Annotated[str, typer.Option(help="Address to listen on.")]
Secret = Annotated[
    str | None, typer.Option(metavar="whsec_…", envvar="BILLHOOK_RECEIVE_SECRET", help="Verify signatures with this.")
]
Status = Annotated[int, typer.Option(min=200, max=599, help="What to answer, to see what follows from it.")]


class Quiet(uvicorn.Server):
    def handle_exit(self, _signal: int, _frame: object) -> None:
        """uvicorn would raise the signal again after its clean stop."""
        self.should_exit = True


def receive(
    port: Port = 9000, host: Host = "127.0.0.1", secret: Secret = None, status: Status = 200, as_json: Json = False
) -> None:
    """A receiver that prints, and verifies, what arrives. With --json, one JSON document a line for each request."""
    if secret is not None and not is_signing_secret(secret):
        raise Refusal("the secret must be a signing secret as it was shown: whsec_ and base64")
    with open_port(host, port) as listener:
        named = f"[{host}]" if ":" in host else host
        address = f"http://{named}:{listener.getsockname()[1]}/"
        if not as_json:
            checks = "verifying signatures" if secret else "not verifying signatures: --secret whsec_… does"
            show(None, text=f"Receiving on {address} ({checks}). Ctrl-C ends it.", as_json=False)
        app = receiver(lambda seen: _print(seen, as_json=as_json), secret=secret, status=status)
        config = uvicorn.Config(app, lifespan="off", log_config=None, access_log=False, server_header=False)
        asyncio.run(Quiet(config).serve(sockets=[listener]))


def receiver(
    tell: Callable[[dict[str, Any]], None], *, secret: str | None, status: int
) -> Callable[..., Awaitable[None]]:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        request = Request(scope, receive)
        body = await read_body(scope, receive, limit=LARGEST_BODY)
        tell(describe(request, body, secret=secret, now=time.time()))
        text = None if status in WITHOUT_BODY else "received\n"
        await Response(text, status_code=status, media_type="text/plain")(scope, receive, send)

    return app


def describe(request: Request, body: bytes, *, secret: str | None, now: float) -> dict[str, Any]:
    """What arrived, and whether its signature holds: `verified` is None when nobody asked."""
    query = request.scope["query_string"]
    payload = body if request.method == "POST" else query
    problem = verify(secret, request.headers, payload, now=now) if secret else None
    return {
        "method": request.method,
        "path": request.url.path,
        "query": query.decode("latin-1"),
        "webhook_id": request.headers.get("webhook-id"),
        "verified": None if secret is None else problem is None,
        "problem": problem,
        **_said(request, body),
        "headers": [{"key": key, "value": value} for key, value in request.headers.items()],
    }


def _said(request: Request, body: bytes) -> dict[str, Any]:
    if request.method == "GET":
        return {name: request.query_params.get(name) for name in ("title", "content")}
    try:
        said = orjson.loads(body)
    except ValueError:
        said = None
    known = said if isinstance(said, dict) else {}
    return {name: known.get(name) for name in ("title", "content")}


def _print(seen: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_json_line(seen)
        return
    verdict = {None: "not verified", True: "verified", False: f"NOT GENUINE: {seen['problem']}"}[seen["verified"]]
    lines = [f"{seen['method']} {seen['path']}  {seen['webhook_id'] or 'no webhook-id'}  {verdict}"]
    lines += [f"  {name}: {_indented(seen[name])}" for name in ("title", "content")]
    show(None, text="\n".join(lines), as_json=False)


def _indented(value: object) -> str:
    """Further lines of a text stand below its first, so that none can pass for one of ours."""
    return str(value).replace("\n", "\n    ")
