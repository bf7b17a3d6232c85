"""One walk through all providers that something waits for: many claims, a page each, and one rest at its end."""

import math
from dataclasses import dataclass

from billhook.delivery.queue import Claim


@dataclass(slots=True)
class Walk:
    """What was met on the pages so far. Moments are of this process's monotonic clock, in seconds."""

    after: str = ""  # the last provider of the last page
    wake_at: float = math.inf  # when something more may be claimed
    oldest_ms: int = 0  # how long the oldest due delivery has been waiting

    def go_on(self, claim: Claim, now: float) -> None:
        self.after = claim.next_provider
        self.wake_at = min(self.wake_at, now if claim.unsettled else now + claim.wake_ms / 1000)
        self.oldest_ms = max(self.oldest_ms, claim.oldest_ms)

    def resume(self) -> None:
        """After a pause in the middle: what came meanwhile may be behind it, so another walk must follow at once."""
        if self.after:
            self.wake_at = 0.0
