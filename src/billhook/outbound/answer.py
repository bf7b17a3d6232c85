"""What is kept of a response's head."""

import re

from billhook.outbound.request import Headers

# What helps to find a fault. Never cookies: they are somebody's session.
KEPT = {
    name.encode(): name
    for name in (
        "allow",
        "content-encoding",
        "content-length",
        "content-type",
        "date",
        "location",
        "request-id",
        "retry-after",
        "server",
        "webhook-delivery",
        "x-request-id",
    )
}
LONGEST_VALUE = 1024  # characters
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def kept_headers(raw: tuple[tuple[bytes, bytes], ...]) -> Headers:
    """Those on the list, names in lower case, values as text that any database and page can take."""
    return tuple((KEPT[lowered], _clean(value)) for name, value in raw if (lowered := name.lower()) in KEPT)


def _clean(value: bytes) -> str:
    text = value.decode("utf-8", "replace")[:LONGEST_VALUE]
    return text if text.isprintable() else CONTROL.sub("", text)
