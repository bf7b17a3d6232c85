"""The headers that a provider sends with every request: which may be chosen, and how their values stay unseen. Pure."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

from billhook.errors import FieldError, InvalidParameters
from billhook.providers.kinds import MASK

FIELD = "request_headers"
MOST_HEADERS = 20
LONGEST_KEY = 128
LONGEST_VALUE = 4096
LARGEST_SUM = 8192  # of keys and values; servers commonly take 8 KiB of headers, some of it is ours

TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")  # RFC 9110 §5.6.2
VALUE = re.compile(r"[\t\x20-\x7e]*")

OURS = "is set by Billhook"
CONNECTION = "belongs to the connection"
RESERVED = {
    **dict.fromkeys(["content-type", "content-length", "content-encoding", "accept-encoding"], OURS),
    **dict.fromkeys(["date", "user-agent"], OURS),
    **dict.fromkeys(["host", "connection", "keep-alive", "upgrade", "te", "trailer", "transfer-encoding"], CONNECTION),
    **dict.fromkeys(["expect", "forwarded", "via", "x-real-ip", "cookie"], CONNECTION),
}
NOTHING_KEPT = f"must be written out: {MASK} stands for a value that is kept, and none is"
RESERVED_PREFIXES = {"webhook-": OURS, "proxy-": CONNECTION, "x-forwarded-": CONNECTION}

Header = Mapping[str, str]


def valid_headers(
    given: Sequence[Header], kept: Sequence[Header], *, nothing_kept: str = NOTHING_KEPT
) -> list[dict[str, str]]:
    """In their order, with masked values filled in from those kept; or one error with all that is wrong."""
    stripped = [{"key": item["key"].strip(" \t"), "value": item["value"].strip(" \t")} for item in given]
    if len(stripped) > MOST_HEADERS:
        raise InvalidParameters.of(FIELD, f"must not be more than {MOST_HEADERS}")
    problems = [problem for place, header in enumerate(stripped) for problem in _problems(place, header)]
    filled, missing = _fill_in(stripped, kept)
    problems += [FieldError(f"{FIELD}[{place}].value", nothing_kept) for place in missing]
    if sum(len(header["key"]) + len(header["value"]) for header in filled) > LARGEST_SUM:
        problems.append(FieldError(FIELD, f"must not have more than {LARGEST_SUM:,} characters in all"))
    if problems:
        raise InvalidParameters(errors=problems)
    return filled


def masked(headers: Sequence[Header]) -> list[dict[str, str]]:
    return [{"key": header["key"], "value": MASK} for header in headers]


def _problems(place: int, header: Header) -> Iterator[FieldError]:
    if reason := _wrong_key(header["key"]):
        yield FieldError(f"{FIELD}[{place}].key", reason)
    if reason := _wrong_value(header["value"]):
        yield FieldError(f"{FIELD}[{place}].value", reason)


def _wrong_key(key: str) -> str | None:
    if not 0 < len(key) <= LONGEST_KEY:
        return f"must have 1 to {LONGEST_KEY} characters"
    if not TOKEN.fullmatch(key):
        return "must be a header name: letters, digits and any of !#$%&'*+-.^_`|~"
    reason = _reserved(key.lower())
    return f"{key} {reason} and cannot be chosen" if reason else None


def _reserved(name: str) -> str | None:
    by_prefix = (reason for prefix, reason in RESERVED_PREFIXES.items() if name.startswith(prefix))
    return RESERVED.get(name) or next(by_prefix, None)


def _wrong_value(value: str) -> str | None:
    if value == MASK:
        return None
    if len(value) > LONGEST_VALUE:
        return f"must have at most {LONGEST_VALUE:,} characters"
    if not VALUE.fullmatch(value):
        return "must be ASCII without control characters: receivers disagree on how to read anything else in a header"
    return None


def _fill_in(given: Sequence[Header], kept: Sequence[Header]) -> tuple[list[dict[str, str]], list[int]]:
    """The second header of a name gets the second value kept under that name, and so on. Also where none is kept."""
    values: dict[str, list[str]] = defaultdict(list)
    for header in kept:
        values[header["key"].lower()].append(header["value"])
    seen: Counter[str] = Counter()
    filled, missing = [], []
    for place, header in enumerate(given):
        name, value = header["key"].lower(), header["value"]
        if value == MASK and seen[name] < len(values[name]):
            value = values[name][seen[name]]
        elif value == MASK:
            missing.append(place)
        seen[name] += 1
        filled.append({"key": header["key"], "value": value})
    return filled, missing
