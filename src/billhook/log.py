"""Structured logs on standard error: JSON or for people, a request id in every line, and no secrets."""

import json
import logging
import re
import sys
from contextvars import ContextVar
from functools import cache
from typing import Any

import orjson
import structlog
from structlog.types import EventDict, Processor

REQUEST_ID: ContextVar[str] = ContextVar("request_id", default="-")

HIDDEN = "[hidden]"
SECRET_NAMES = re.compile(r"secret|token|password|authorization|cookie|api_?key|master_key", re.IGNORECASE)
SECRET_SHAPES = re.compile(
    r"bhs_[0-9A-Za-z_]+"  # client secrets
    r"|eyJ[0-9A-Za-z_-]{8,}(?:\.[0-9A-Za-z_-]*)*"  # JWTs
    r"|whsec_[0-9A-Za-z+/=_-]+"  # signing secrets of webhooks
    r"|(?<=bearer )\S+|(?<=basic )\S+"  # Authorization values
    r"|(?<=://)[^/\s]+(?=@)"  # user and password in an address
    r"|(?<=DETAIL: )[^\n]+",  # PostgreSQL quotes the values of a row there
    re.IGNORECASE,
)


def redact(value: Any) -> Any:
    """The same value with everything that looks like a secret hidden."""
    if isinstance(value, str):
        return SECRET_SHAPES.sub(HIDDEN, value)
    if isinstance(value, dict):
        return {name: HIDDEN if _is_secret_name(str(name)) else redact(item) for name, item in value.items()}
    if isinstance(value, list | tuple | set):
        return [redact(item) for item in value]
    return value if isinstance(value, int | float | bool | None) else redact(str(value))


@cache
def _is_secret_name(name: str) -> bool:
    return SECRET_NAMES.search(name) is not None


def _redact_event(_logger: Any, _method: str, event: EventDict) -> EventDict:
    redacted: EventDict = redact(event)
    return redacted


def _add_request_id(_logger: Any, _method: str, event: EventDict) -> EventDict:
    event.setdefault("request_id", REQUEST_ID.get())
    return event


def configure(level: str, format: str) -> None:
    """Once, at the start of a process. Libraries that log the standard way come out in the same dress."""
    shared = _shared_processors()
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.make_filtering_bound_logger(level),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(sys.stderr)
    renderers = _renderers(as_json=is_json(format))
    handler.setFormatter(structlog.stdlib.ProcessorFormatter(foreign_pre_chain=shared, processors=renderers))
    logging.basicConfig(handlers=[handler], level=level.upper(), force=True)
    logging.raiseExceptions = False  # a line that cannot be written must not be printed as it came, secrets and all
    _quieten()


def is_json(format: str) -> bool:
    return format == "json" or (format == "auto" and not sys.stderr.isatty())


def _shared_processors() -> list[Processor]:
    return [
        structlog.stdlib.add_logger_name,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _add_request_id,
        structlog.stdlib.PositionalArgumentsFormatter(),
    ]


def _renderers(*, as_json: bool) -> list[Processor]:
    renderer: Processor = (
        structlog.processors.JSONRenderer(serializer=to_json)
        if as_json
        else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    )
    clean = structlog.stdlib.ProcessorFormatter.remove_processors_meta
    return [clean, structlog.processors.format_exc_info, _redact_event, renderer]


def to_json(event: Any, **_options: Any) -> str:
    """A line is written whatever it holds: broken Unicode and huge numbers take the slow way."""
    try:
        return orjson.dumps(event).decode()
    except TypeError:
        return json.dumps(event, default=str)


def _quieten() -> None:
    """What these say at `info` is said by us already, or by nobody's wish."""
    for name in ("uvicorn.error", "alembic", "aiosqlite", "asyncio"):
        logging.getLogger(name).setLevel(logging.WARNING)
