"""The clock of one worker is an hour off: it takes nothing from the others, waits no longer than it should, and signs
with a time that receivers accept, since it goes by the clock of the database."""

import asyncio
import time
from asyncio import StreamReader, StreamWriter
from collections.abc import Iterator
from pathlib import Path

import pytest

from billhook.accounts.installation import open_installation
from billhook.providers.signing import verify
from tests.delivery.receivers import Request, parsed, response
from tests.delivery.support import make_team, send
from tests.scenarios.ledger import Ledger
from tests.scenarios.processes import Billhook, Running, installed, until
from tests.scenarios.recorder import Recorder, everybody
from tests.scenarios.test_faults import PER_PROVIDER, freezes_at_rest, kill
from tests.support import on_postgres

LIBRARY = next(Path("/usr/lib").glob("**/faketime/libfaketime.so.1"), None)
PATIENCE_MS = 600_000  # more than this test may take, and less than an hour
OFFSETS = ["+3600s", "-3600s"]

pytestmark = pytest.mark.skipif(LIBRARY is None, reason="needs libfaketime: apt-get install faketime")


@pytest.fixture
def program(location: str, tmp_path: Path) -> Iterator[Billhook]:
    with installed(tmp_path, location, BILLHOOK_RETRY_SCHEDULE="1s") as opened:
        yield opened


class FailsOnce(Recorder):
    @property
    def requests(self) -> list[Request]:
        return [parsed(raw) for raw in list(self._receiver.requests)]

    async def _reply(self, reader: StreamReader, writer: StreamWriter) -> None:
        if self.requests[1:]:
            await super()._reply(reader, writer)
            return
        writer.write(response(500))
        await writer.drain()


@on_postgres
@pytest.mark.parametrize("offset", OFFSETS)
def test_a_worker_whose_clock_is_an_hour_off_does_as_the_others(program: Billhook, offset: str) -> None:
    ledger = Ledger.of(program)
    with Recorder(holds=everybody) as others, FailsOnce() as recorder:
        held = set(ledger.queue(others.url(), PER_PROVIDER))
        honest = program.start("worker")
        until(lambda: set(others.held) == held, what="the one whose clock is right has its requests in the air")
        until(lambda: freezes_at_rest(honest, ledger), what="it stands still, and claims nothing more")
        ledger.execute(f"UPDATE deliveries SET lease_until_ms = lease_until_ms + {PATIENCE_MS}")  # noqa: S608
        secret, sent = queue_signed(ledger, recorder.url())
        ledger.execute(f"UPDATE deliveries SET lease = 'lse_gone', lease_until_ms = 0 WHERE id = '{sent}'")  # noqa: S608
        wrong = start_wrong(program, offset)
        until(lambda: ledger.delivered() == {sent}, what="it takes back what has lapsed, and delivers it")
        assert ledger.leased() == held, "the same sweep has left what had not"
        assert wrong.stop() == 0
        kill(honest)
    assert (sorted(others.ids), recorder.ids) == (sorted(held), [sent])
    for request in recorder.requests:
        assert verify(secret, request.webhook_headers, request.signed.encode(), now=time.time()) is None
    assert len(recorder.requests) == 2, "the second after a second, not after an hour"


def queue_signed(ledger: Ledger, url: str) -> tuple[str, str]:
    """The signing secret, and the id of a delivery."""

    async def work() -> tuple[str, str]:
        async with open_installation(ledger.settings) as installation:
            team = await make_team(installation, name=url, server_url=url)
            ((queued,),) = [accepted.deliveries for accepted in await send(team)]
        return team.provider.secrets[0].secret, queued.id

    return asyncio.run(work())


def start_wrong(program: Billhook, offset: str) -> Running:
    """Its wall clock is off. How long something takes it can tell, as on every machine whose clock is set wrong."""
    return program.start("worker", LD_PRELOAD=str(LIBRARY), FAKETIME=offset, FAKETIME_DONT_FAKE_MONOTONIC="1")
