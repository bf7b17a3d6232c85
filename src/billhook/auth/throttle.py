"""How often a client may fail. Pure: the clock is an argument, and memory is bounded."""

from billhook.web.failures import Failures
from billhook.web.throttle import neighbourhood

FAILURES_PER_PAIR = 10  # of one client id from one address
FAILURES_PER_ADDRESS = 30


class Throttle:
    """Limits failures only: whoever has the right secret is never asked to wait, whatever others did."""

    def __init__(self, failures: Failures) -> None:
        self.pairs = failures.window("token-pair", FAILURES_PER_PAIR)
        self.addresses = failures.window("token-address", FAILURES_PER_ADDRESS)

    def fail(self, address: str, client_id: str, now: float) -> float:
        """Count a failure. Returns the seconds to wait when there were too many, and then does not count it."""
        origin = neighbourhood(address)
        counts = (self.pairs, self.pairs.key_of(origin, client_id)), (self.addresses, self.addresses.key_of(origin))
        wait = max(window.wait_seconds(key, now) for window, key in counts)
        if wait == 0:
            for window, key in counts:
                window.add(key, now)
                window.tell(key)
        return wait
