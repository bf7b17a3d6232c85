"""billhook serve, billhook api, billhook worker and billhook migrate"""

import asyncio
import errno
import gc
import signal
import socket
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from typing import Annotated

import structlog
import typer
import uvloop

from billhook import __version__, log
from billhook.accounts.installation import Installation, open_installation
from billhook.accounts.invitations import set_up_token
from billhook.accounts.keyring import outdated
from billhook.accounts.users import are_there_users
from billhook.app import running_app, worker_app
from billhook.cli.output import Json, show
from billhook.console.context import HOME
from billhook.errors import Refusal
from billhook.settings import Settings, read_settings
from billhook.storage.database import open_database
from billhook.storage.migrate import migrate as migrate_schema
from billhook.storage.watch import watching
from billhook.web.server import Server, listen

COLLECT_EVERY = 20_000  # new objects; Python's own 700 is made for scripts
MIGRATION_SECONDS = 3600.0  # one statement of a migration may take long on a large table

Host = Annotated[str | None, typer.Option(help="Address to listen on. Default: BILLHOOK_HOST, 127.0.0.1.")]
Port = Annotated[
    int | None, typer.Option(min=0, max=65535, help="Port; 0 takes a free one. Default: BILLHOOK_PORT, 8080.")
]


NoWorker = Annotated[bool, typer.Option("--no-worker", help="Accept notifications, but leave delivering to others.")]


def serve(host: Host = None, port: Port = None, no_worker: NoWorker = False) -> None:
    """Serve everything in one process. On SQLite it makes and upgrades the database itself."""
    _serve(host, port, may_migrate=True, with_worker=not no_worker)


def api(host: Host = None, port: Port = None) -> None:
    """Serve the API only: one of many processes on one PostgreSQL. Never migrates."""
    _serve(host, port, may_migrate=False, with_worker=False)


def worker(
    host: Host = None,
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Tell health and metrics there; else nowhere.")
    ] = None,
) -> None:
    """Deliver only: one of many processes on one PostgreSQL. Never migrates."""
    settings = read_settings()
    log.configure(settings.log_level, settings.log_format)
    with ExitStack() as stack:
        listener = None if port is None else stack.enter_context(open_port(host or settings.host, port))
        runner = stack.enter_context(asyncio.Runner(loop_factory=uvloop.new_event_loop))
        runner.run(_work(settings, listener))


def migrate(as_json: Json = False) -> None:
    """Bring the database schema to this version."""
    settings = read_settings()

    async def work() -> tuple[str | None, str]:
        db = open_database(settings.database_location, command_seconds=MIGRATION_SECONDS)
        try:
            return await migrate_schema(db)
        finally:
            await db.close()

    before, after = asyncio.run(work())
    text = (
        f"The schema is at {after}." if before == after else f"The schema was at {before or 'nothing'}, now at {after}."
    )
    show({"before": before, "after": after}, text=text, as_json=as_json)


def _serve(host: str | None, port: int | None, *, may_migrate: bool, with_worker: bool) -> None:
    settings = read_settings()
    log.configure(settings.log_level, settings.log_format)
    with open_port(host or settings.host, settings.port if port is None else port) as listener:
        settings = settings.listening_on(*listener.getsockname()[:2])
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_run(settings, listener, may_migrate=may_migrate, with_worker=with_worker))


async def _run(settings: Settings, listener: socket.socket, *, may_migrate: bool, with_worker: bool) -> None:
    logger = structlog.get_logger(__name__)
    async with open_installation(settings, may_migrate=may_migrate) as installation:
        await offer_set_up(installation)
        async with running_app(installation, with_worker=with_worker) as app:
            calm_the_collector()
            engine = _engine(installation.db.is_sqlite)
            logger.info("serving", url=settings.base_url, version=__version__, database=engine)
            server = Server(app.asgi, when_told_to_stop=app.stop_claiming)
            async with watching(
                installation.db, server.stop, also=outdated(installation.vault, installation.standing)
            ) as watch:
                # Nothing is waited for before this: what the worker begins must not be cut off by a SIGTERM unheard.
                await server.serve(sockets=[listener])
            logger.info("stopping")
    logger.info("stopped")
    watch.refuse_if_outgrown()


async def offer_set_up(installation: Installation) -> None:
    """An installation without users tells its operator how to become the first."""
    async with installation.db.reading() as tx:
        if await are_there_users(tx):
            return
    link = f"{installation.settings.base_url}{HOME}/set-up/{set_up_token(installation.vault)}"
    structlog.get_logger(__name__).info("there are no users yet; the first admin is made at", link=link)
    typer.echo(f"No users yet. Open this link to create the first admin:\n\n    {link}\n", err=True)


async def _work(settings: Settings, listener: socket.socket | None) -> None:
    logger = structlog.get_logger(__name__)
    async with open_installation(settings) as installation, worker_app(installation) as app:
        calm_the_collector()
        logger.info("delivering", version=__version__, database=_engine(installation.db.is_sqlite))
        serving, stop = _until_told() if listener is None else _until_closed(Server(app), listener)
        async with watching(installation.db, stop, also=outdated(installation.vault, installation.standing)) as watch:
            await serving
        logger.info("stopping")
    logger.info("stopped")
    watch.refuse_if_outgrown()


Serving = tuple[Awaitable[object], Callable[[], None]]  # what to wait for, and what ends it


def _until_told() -> Serving:
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    return stopping.wait(), stopping.set


def _until_closed(server: Server, listener: socket.socket) -> Serving:
    return server.serve(sockets=[listener]), server.stop


def calm_the_collector() -> None:
    """What is here now stays, and what comes goes by itself, mostly: looking for cycles took a tenth of the time."""
    gc.freeze()
    gc.set_threshold(COLLECT_EVERY, 20, 20)


def _engine(is_sqlite: bool) -> str:
    return "SQLite" if is_sqlite else "PostgreSQL"


def open_port(host: str, port: int) -> socket.socket:
    try:
        return listen(host, port)
    except (OSError, UnicodeError) as error:
        is_taken = isinstance(error, OSError) and error.errno == errno.EADDRINUSE
        reason = "it is in use" if is_taken else getattr(error, "strerror", None) or "no such address"
        raise Refusal(f"cannot listen on {host} port {port}: {reason}") from None
