"""How often a client may fail. Pure: the clock is an argument, and memory is bounded."""

from hashlib import blake2b

from billhook.web.throttle import FailureWindow, neighbourhood

FAILURES_PER_PAIR = 10  # of one client id from one address
FAILURES_PER_ADDRESS = 30


class Throttle:
    """Limits failures only: whoever has the right secret is never asked to wait, whatever others did."""

    def __init__(self) -> None:
        self.pairs = FailureWindow(FAILURES_PER_PAIR)
        self.addresses = FailureWindow(FAILURES_PER_ADDRESS)

    def fail(self, address: str, client_id: str, now: float) -> float:
        """Count a failure. Returns the seconds to wait when there were too many, and then does not count it."""
        origin = neighbourhood(address)
        pair = (origin, blake2b(client_id.encode(), digest_size=16).digest())
        wait = max(self.pairs.wait_seconds(pair, now), self.addresses.wait_seconds(origin, now))
        if wait == 0:
            self.pairs.add(pair, now)
            self.addresses.add(origin, now)
        return wait
