"""Moving windows of failures. Pure: the clock is an argument, and memory is bounded."""

from base64 import urlsafe_b64encode
from collections import OrderedDict, deque
from dataclasses import dataclass, field
from hashlib import blake2b

from billhook.web.requests import parse_address

WINDOW_SECONDS = 300.0
MOST_KEYS = 20_000  # some 25 MB at worst; beyond it the one that failed longest ago is forgotten
MOST_UNTOLD = 1_000  # beyond it the oldest are not told: who has so many addresses is not stopped by counting them


@dataclass
class FailureWindow:
    """A moving window of moments for each key."""

    limit: int
    secret: bytes = field(default=b"", repr=False)  # so that who overhears a key learns nothing from it
    moments: OrderedDict[str, list[float]] = field(default_factory=OrderedDict)
    untold: deque[str] = field(default_factory=lambda: deque(maxlen=MOST_UNTOLD))  # keys, for the other processes

    def key_of(self, *parts: str) -> str:
        """Short, whatever somebody sends, and the same in every process."""
        told = "\0".join(parts).encode("utf-8", "surrogatepass")
        return urlsafe_b64encode(blake2b(told, digest_size=15, key=self.secret).digest()).decode()

    def wait_seconds(self, key: str, now: float) -> float:
        """How long until a failure of `key` fits into the window again; 0 when it fits now."""
        seen = self.moments.get(key, [])
        while seen and seen[0] <= now - WINDOW_SECONDS:
            seen.pop(0)
        if not seen:
            self.moments.pop(key, None)
        return seen[0] + WINDOW_SECONDS - now if len(seen) >= self.limit else 0.0

    def add(self, key: str, now: float) -> None:
        self.moments.setdefault(key, []).append(now)
        self.moments.move_to_end(key)
        if len(self.moments) > MOST_KEYS:
            self.moments.popitem(last=False)

    def tell(self, key: str) -> None:
        """To the other processes, as soon as somebody asks what there is to tell."""
        self.untold.append(key)

    def hear(self, key: str, now: float) -> None:
        """Another process has counted one. What does not fit any more was counted by both at once."""
        if self.wait_seconds(key, now) == 0:
            self.add(key, now)

    def forget(self, key: str, moment: float) -> None:
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
