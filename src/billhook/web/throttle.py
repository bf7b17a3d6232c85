"""Moving windows of failures. Pure: the clock is an argument, and memory is bounded."""

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, field

from billhook.web.requests import parse_address

WINDOW_SECONDS = 300.0
MOST_KEYS = 20_000  # some 25 MB at worst; beyond it the one that failed longest ago is forgotten


@dataclass
class FailureWindow:
    """A moving window of moments for each key."""

    limit: int
    moments: OrderedDict[Hashable, list[float]] = field(default_factory=OrderedDict)

    def wait_seconds(self, key: Hashable, now: float) -> float:
        """How long until a failure of `key` fits into the window again; 0 when it fits now."""
        seen = self.moments.get(key, [])
        while seen and seen[0] <= now - WINDOW_SECONDS:
            seen.pop(0)
        if not seen:
            self.moments.pop(key, None)
        return seen[0] + WINDOW_SECONDS - now if len(seen) >= self.limit else 0.0

    def add(self, key: Hashable, now: float) -> None:
        self.moments.setdefault(key, []).append(now)
        self.moments.move_to_end(key)
        if len(self.moments) > MOST_KEYS:
            self.moments.popitem(last=False)

    def forget(self, key: Hashable, moment: float) -> None:
        """Take back one that turned out to be no failure."""
        seen = self.moments.get(key, [])
        if moment in seen:
            seen.remove(moment)
        if not seen:
            self.moments.pop(key, None)


def neighbourhood(address: str) -> str:
    """Who has one IPv6 address has the whole /64."""
    parsed = parse_address(address)
    if parsed is None:
        return address
    return str(parsed) if parsed.version == 4 else parsed.exploded[:19]
