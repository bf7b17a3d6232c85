"""One walk through all providers that something waits for: many claims, a page each, and one rest at its end."""

import math
from dataclasses import dataclass, field

from billhook.delivery.fairness import ANYBODY
from billhook.delivery.queue import Claim, Leased


@dataclass(slots=True)
class Walk:
    """What was met on the pages so far. Moments are of this process's monotonic clock, in seconds."""

    after: str = ""  # the last provider of the last page
    wake_at: float = math.inf  # when something more may be claimed
    oldest_ms: int = 0  # how long the oldest due delivery has been waiting
    awaited: set[str] = field(default_factory=set)  # of whom a place must become free first
    freed: set[str] = field(default_factory=set)  # of whom one became free since this walk began
    is_resting: bool = False

    def go_on(self, claim: Claim, now: float) -> None:
        self.after = claim.next_provider
        self.wake_at = min(self.wake_at, now if claim.unsettled else now + claim.wake_ms / 1000)
        self.oldest_ms = max(self.oldest_ms, claim.oldest_ms)
        self.awaited |= claim.awaited

    def resumed(self) -> "Walk":
        """On from a pause in the middle, or from the beginning.

        What came during a pause may be behind us, so that another walk must follow at once.
        """
        if not self.after:
            return Walk()
        self.wake_at, self.is_resting = 0.0, False
        return self

    def rest(self, now: float, *, longest: float) -> float:
        """How long, if nobody rings: not at all if an awaited place became free while we were looking elsewhere."""
        self.is_resting = True
        if not self.awaited.isdisjoint(self.freed):
            return 0.0
        return min(longest, max(self.wake_at - now, 0.0))

    def rest_for_a_place(self, *, longest: float) -> float:
        """In the middle: this process has no place left for anybody."""
        self.awaited.add(ANYBODY)
        self.is_resting = True
        return longest

    def land(self, leased: Leased) -> bool:
        """A place became free. Whether somebody must look at once: it is awaited, and nobody is looking anyway."""
        places = (leased.provider.id, leased.provider.organization_id, ANYBODY)
        self.freed.update(places)
        return self.is_resting and not self.awaited.isdisjoint(places)
