"""The request that settings would send, made by the code that sends, with dots for what is secret. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from billhook.console.draft import PLACE, Draft
from billhook.errors import FieldError, InvalidParameters
from billhook.outbound.target import parse_target
from billhook.outbound.wording import spell
from billhook.providers.kinds import Config, Message, Stamp
from billhook.providers.registry import TYPES, provider_type

SAMPLE = Message("Budget exceeded", "Team Atlas has used 105 % of its budget for June.")
SAMPLE_URL = "https://receiver.example/hook"
WEBHOOK_ID = "dlv_…"
SIGNATURE = "v1,…"  # made when the request is sent, one for each live secret


@dataclass(frozen=True)
class Preview:
    text: str
    notes: tuple[str, ...] = ()  # what is not as it was typed


def preview_of(type: str, config: Config, message: Message, *, now_ms: int) -> Preview:
    """`config` as it may be seen: what is secret in it is masked already."""
    kind = provider_type(type)
    if reason := kind.check(config, message):
        return Preview("", (f"It cannot be sent: {reason}.",))
    outgoing = kind.request(config, message, Stamp(WEBHOOK_ID, now_ms // 1000, ()))
    shown = tuple((name, SIGNATURE if name == "webhook-signature" else value) for name, value in outgoing.headers)
    spelled = spell(outgoing._replace(headers=shown), parse_target(outgoing.url))
    return Preview(spelled.decode().replace("\r\n", "\n"))


def preview_of_draft(draft: Draft, stored: Config | None, *, now_ms: int) -> Preview:
    """Also of what is not valid yet: an example stands for it, or it is left out, and the notes say so."""
    type = draft.type if draft.type in TYPES else Draft.type
    mistakes = _mistakes(type, draft, stored)
    made = preview_of(type, _without(mistakes, draft), SAMPLE, now_ms=now_ms)
    return replace(made, notes=(*made.notes, *_notes(mistakes, draft)))


def _mistakes(type: str, draft: Draft, stored: Config | None) -> Sequence[FieldError]:
    try:
        provider_type(type).configure(draft.fields(), stored)
    except InvalidParameters as error:
        return error.errors
    return ()


def _without(mistakes: Sequence[FieldError], draft: Draft) -> Config:
    """What is typed, but for what is wrong in it."""
    wrong = {each.field for each in mistakes}
    places = {int(found[1]) for field in wrong if (found := PLACE.match(field))}
    headers = [] if "request_headers" in wrong else draft.headers
    return {
        "server_url": SAMPLE_URL if "server_url" in wrong else draft.server_url.strip(" "),
        "request_method": Draft.request_method if "request_method" in wrong else draft.request_method,
        "request_headers": [header for place, header in enumerate(headers) if place not in places],
    }


def _notes(mistakes: Sequence[FieldError], draft: Draft) -> Iterator[str]:
    for each in mistakes:
        if found := PLACE.match(each.field):
            key = draft.headers[int(found[1])]["key"] or "without a key"
            yield f"The header {key} is left out: its {each.field.rpartition('.')[2]} {each.message}."
        elif each.field == "request_headers":
            yield f"The headers are left out: there {each.message}."
        elif not draft.server_url.strip():
            yield "An example stands for the server URL until you type yours."
        elif each.field == "server_url":
            yield f"An example stands for the server URL: yours {each.message}."
