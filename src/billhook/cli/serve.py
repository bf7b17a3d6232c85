"""billhook serve, billhook api and billhook migrate"""

import asyncio
import errno
import socket
from types import FrameType
from typing import Annotated, Any

import structlog
import typer
import uvicorn
import uvloop

from billhook import __version__, log
from billhook.accounts.installation import open_installation
from billhook.app import running_app
from billhook.cli.output import Json, show
from billhook.errors import Refusal
from billhook.settings import Settings, read_settings
from billhook.storage.database import open_database
from billhook.storage.migrate import migrate as migrate_schema

GRACE_SECONDS = 20  # requests in the air may take this long after SIGTERM
BACKLOG = 2048

Host = Annotated[str | None, typer.Option(help="Address to listen on. Default: BILLHOOK_HOST, 127.0.0.1.")]
Port = Annotated[
    int | None, typer.Option(min=0, max=65535, help="Port; 0 takes a free one. Default: BILLHOOK_PORT, 8080.")
]


def serve(host: Host = None, port: Port = None) -> None:
    """Serve everything in one process. On SQLite it makes and upgrades the database itself."""
    _serve(host, port, may_migrate=True)


def api(host: Host = None, port: Port = None) -> None:
    """Serve the API only: one of many processes on one PostgreSQL. Never migrates."""
    _serve(host, port, may_migrate=False)


def migrate(as_json: Json = False) -> None:
    """Bring the database schema to this version."""
    settings = read_settings()

    async def work() -> tuple[str | None, str]:
        db = open_database(settings.database_location)
        try:
            return await migrate_schema(db)
        finally:
            await db.close()

    before, after = asyncio.run(work())
    text = (
        f"The schema is at {after}." if before == after else f"The schema was at {before or 'nothing'}, now at {after}."
    )
    show({"before": before, "after": after}, text=text, as_json=as_json)


def _serve(host: str | None, port: int | None, *, may_migrate: bool) -> None:
    settings = read_settings()
    log.configure(settings.log_level, settings.log_format)
    listener = listen(host or settings.host, settings.port if port is None else port)
    bound = listener.getsockname()
    settings = settings.listening_on(bound[0], bound[1])
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_run(settings, listener, may_migrate=may_migrate))


async def _run(settings: Settings, listener: socket.socket, *, may_migrate: bool) -> None:
    logger = structlog.get_logger(__name__)
    async with open_installation(settings, may_migrate=may_migrate) as installation, running_app(installation) as app:
        listener.listen(BACKLOG)
        logger.info("serving", url=settings.base_url, version=__version__, database=_engine(installation.db.is_sqlite))
        await Server(_uvicorn(app)).serve(sockets=[listener])
        logger.info("stopping")
    logger.info("stopped")


def _engine(is_sqlite: bool) -> str:
    return "SQLite" if is_sqlite else "PostgreSQL"


def _uvicorn(app: Any) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http="httptools",
        lifespan="off",  # what lives as long as the server is opened around it, so that it can refuse in one line
        log_config=None,
        access_log=False,  # the middleware writes its own
        server_header=False,
        proxy_headers=False,  # web/requests.py decides whom to believe
        timeout_graceful_shutdown=GRACE_SECONDS,
        backlog=BACKLOG,
    )


class Server(uvicorn.Server):
    """Ends with status 0 on SIGTERM and SIGINT: uvicorn would raise the signal again after its clean stop."""

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.force_exit = self.should_exit and not self.force_exit
        self.should_exit = True


def listen(host: str, port: int) -> socket.socket:
    """A bound socket, not yet accepting: nobody is kept waiting while the database is opened."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0][0]
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
    except OSError as error:
        reason = "it is in use" if error.errno == errno.EADDRINUSE else str(error)
        raise Refusal(f"cannot listen on {host} port {port}: {reason}") from None
    listener.setblocking(False)
    return listener
