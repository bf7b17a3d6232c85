"""Text that people can read and both engines can store: no control characters, no broken Unicode, bounded."""

from billhook.errors import InvalidParameters

LINE_BREAKS = "\n\t"


def plain_text(field: str, text: str, *, shortest: int, longest: int, may_break: bool = False) -> str:
    """The text without the spaces around it, or an error that names the field."""
    stripped = text.strip()
    if not shortest <= len(stripped) <= longest:
        raise InvalidParameters.of(field, f"must have {shortest} to {longest} characters")
    if not all(_is_plain(character, may_break=may_break) for character in stripped):
        raise InvalidParameters.of(field, "must not have control characters or broken Unicode")
    return stripped


def _is_plain(character: str, *, may_break: bool) -> bool:
    if character in LINE_BREAKS:
        return may_break
    is_control = character < " " or "\x7f" <= character <= "\x9f"
    is_surrogate = "\ud800" <= character <= "\udfff"
    return not is_control and not is_surrogate
