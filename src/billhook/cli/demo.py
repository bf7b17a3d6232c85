"""billhook demo"""

import asyncio
import secrets
import signal
import socket
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer
import uvloop

from billhook import log
from billhook.accounts.installation import Installation, open_installation
from billhook.app import running_app
from billhook.cli.demo_history import Past, write_past
from billhook.cli.demo_messages import message
from billhook.cli.demo_receiver import receiving
from billhook.cli.demo_set_up import EMAIL, Placement, set_up
from billhook.cli.output import show
from billhook.cli.serve import calm_the_collector, open_port
from billhook.cli.session import now
from billhook.console.context import HOME
from billhook.delivery.accept import Send
from billhook.delivery.context import Hub
from billhook.errors import BillhookError
from billhook.settings import Settings
from billhook.web.server import Server

HOST = "127.0.0.1"
STOPPING = (signal.SIGINT, signal.SIGTERM)
SCHEDULE = "2s,5s,15s,45s,2m"  # short enough to be watched to its end
BURST = 15  # notifications at once, so that there is something to see from the first page on
PAUSE_SECONDS = 1.5
MOST = 50_000  # notifications, then it is enough: most of a day of them, about 150 MB in the temporary folder

Port = Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes a free one.")]


def demo(port: Port = 8080) -> None:
    """Serve a throw-away installation with sample data, a receiver that misbehaves, and a stream of deliveries."""
    with (
        _noting_signals() as signals,
        open_port(HOST, port) as listener,
        open_port(HOST, 0) as receiver,
        TemporaryDirectory(prefix="billhook-demo-") as folder,
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        settings = demo_settings(Path(folder)).listening_on(*listener.getsockname()[:2])
        log.configure(settings.log_level, settings.log_format)
        runner.run(_run(settings, listener, receiver, signals))


def demo_settings(folder: Path) -> Settings:
    return Settings.whatever_is_set(
        data_dir=folder, outbound_allow="127.0.0.0/8", retry_schedule=SCHEDULE, log_level="warning"
    )


@contextmanager
def _noting_signals() -> Iterator[list[int]]:
    """While all is made or removed again, a signal is only noted; in between the server acts on it."""
    noted: list[int] = []
    before = {number: signal.signal(number, lambda number, _frame: noted.append(number)) for number in STOPPING}
    try:
        yield noted
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


async def _run(settings: Settings, listener: socket.socket, receiver: socket.socket, signals: Sequence[int]) -> None:
    password, address = secrets.token_hex(8), f"http://{HOST}:{receiver.getsockname()[1]}"
    async with open_installation(settings, may_migrate=True) as installation, receiving(receiver):
        placement = await set_up(installation, password=password, receiver=address, now=now())
        begun = await _make_past(installation, placement)
        async with running_app(installation, with_worker=True) as app, streaming(app.hub, placement, begun=begun):
            calm_the_collector()
            server = Server(app.asgi, when_told_to_stop=app.stop_claiming)
            with server.capture_signals():  # from here on it acts on them, also before it serves
                if not signals:
                    show(None, text=_welcome(settings, password, address), as_json=False)
                    await server.serve(sockets=[listener])


async def _make_past(installation: Installation, placement: Placement) -> int:
    """How many notifications there are in it."""
    now_ms = int(now().timestamp() * 1000)
    past = Past(placement, installation.settings.retry_schedule, now_ms).tell()
    async with installation.db.transaction() as tx:
        await write_past(tx, past)
    return len(past.notifications)


@asynccontextmanager
async def streaming(hub: Hub, placement: Placement, *, begun: int) -> AsyncIterator[None]:
    """Notifications from here to the end of the block; `begun` is the number of the first."""
    task = asyncio.create_task(_stream(hub, placement, begun))
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def _stream(hub: Hub, placement: Placement, begun: int) -> None:
    for number in range(begun, begun + MOST):
        group, said = message(number)
        with suppress(BillhookError):  # the person may have deleted the group, or made what is sent too long
            await hub.send(Send(placement.organization_id, placement.group_ids[group], placement.sender, said))
        if number >= begun + BURST:
            await asyncio.sleep(PAUSE_SECONDS)


def _welcome(settings: Settings, password: str, receiver: str) -> str:
    return f"""
Billhook demo: sample data, a receiver that misbehaves, and a new notification every {PAUSE_SECONDS} seconds.

    Console    {settings.base_url}{HOME}/
    Email      {EMAIL}
    Password   {password}

    Receiver   {receiver}
    Folder     {settings.data_dir}

In another terminal, BILLHOOK_DATA_DIR={settings.data_dir} billhook deliveries --follow shows the same.
Ctrl-C ends it and removes the folder; nothing of yours is touched.
"""
