"""Two workers over one PostgreSQL are one system: one breaker, one recovery, and one goes on when the other is gone."""

import time

from billhook.delivery.health import OPENS_AT
from billhook.delivery.replay import STEP
from tests.scenarios.ledger import Ledger
from tests.scenarios.processes import Billhook, until
from tests.scenarios.recorder import Recorder, everybody
from tests.support import on_postgres

PER_PROVIDER = 10  # requests in flight, over all processes
LOOKS = 3  # for work; an idle worker takes one a second
FAILED = b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n"
OPEN = "SELECT 1 FROM providers WHERE open_until_ms > 0"
PROVIDERS = "SELECT id FROM providers"
ALL_FAILED = "UPDATE deliveries SET state = 'failed', finished_ms = created_ms, attempts = 1, status = 500"

LONG_AGO = "2026-01-01T00:00:00"

pytestmark = on_postgres


def test_they_have_one_breaker_and_one_probe(program: Billhook, ledger: Ledger) -> None:
    with Recorder() as recorder:
        recorder.answer = FAILED
        sent = ledger.queue(recorder.url(), 60)
        # Neither can fill the places of the provider alone, so both have some of them.
        workers = [program.start("worker", BILLHOOK_IN_FLIGHT_PER_PROCESS="6") for _ in range(2)]
        until(lambda: bool(ledger.query(OPEN)) and not ledger.leased(), what="the breaker opens")
        assert OPENS_AT <= len(recorder.ids) <= OPENS_AT - 1 + PER_PROVIDER, "no more than was in the air by then"
        tried = len(recorder.ids)
        recorder.hold()
        ledger.let_everything_be_due()
        until(lambda: len(recorder.held) == 1, what="one of them tries again")
        time.sleep(LOOKS)
        assert len(recorder.ids) == tried + 1, "and the other one leaves it at that"
        recorder.release()
        until(lambda: not ledger.leased(), what="the probe has failed")
        recorder.answer = b"HTTP/1.1 204 No Content\r\n\r\n"
        ledger.let_everything_be_due()
        until(lambda: bool(ledger.delivered()), what="the next probe succeeds")
        ledger.let_everything_be_due()
        until(lambda: ledger.delivered() == set(sent), what="all are delivered")
        assert [each.stop() for each in workers] == [0, 0]
    assert len(ledger.attempts()) == len(recorder.ids)


def test_they_keep_one_rate_limit_between_them(program: Billhook, ledger: Ledger) -> None:
    """Thirty at ten a second take 2.9 s by the database's clock; if each had a limit of its own, half of that."""
    with Recorder() as recorder:
        workers = [program.start("worker") for _ in range(2)]
        until(lambda: all("delivering" in each.stderr for each in workers), what="both are there")
        sent = ledger.queue(recorder.url(), 30, rate_limit=10)
        until(lambda: ledger.delivered() == set(sent), what="all are delivered")
        assert [each.stop() for each in workers] == [0, 0]
    moments = sorted(at_ms for _, _, at_ms, _, _ in ledger.attempts())
    assert moments[-1] - moments[0] > 2_000


def test_they_recover_what_failed_once_between_them(program: Billhook, ledger: Ledger) -> None:
    with Recorder() as recorder:
        sent = ledger.queue(recorder.url(), 3 * STEP)
        ledger.execute(ALL_FAILED)
        workers = [program.start("worker") for _ in range(2)]
        ((provider_id,),) = ledger.query(PROVIDERS)
        begun = program.json("provider", "recover", provider_id, "--since", LONG_AGO)
        until(lambda: ledger.delivered() == set(sent), what="all are delivered again")
        assert [each.stop() for each in workers] == [0, 0]
    assert sorted(recorder.ids) == sorted(sent)
    assert ledger.query("SELECT id, state, recovered FROM recoveries") == [(begun["id"], "finished", len(sent))]


def test_what_one_had_in_the_air_when_it_was_killed_is_delivered_by_the_other_when_its_minute_is_over(
    program: Billhook, ledger: Ledger
) -> None:
    """With the real clock: nobody helps the leases to lapse."""
    with Recorder(holds=everybody) as recorder:
        sent = ledger.queue(recorder.url(), PER_PROVIDER)
        killed = program.start("worker")
        until(lambda: len(recorder.held) == PER_PROVIDER, what="all are in the air")
        other = program.start("worker")
        killed.process.kill()
        killed.wait()
        recorder.release()
        until(lambda: ledger.delivered() == set(sent), what="all are delivered")
        assert other.stop() == 0
    assert sorted(recorder.ids) == sorted(sent * 2)
