"""Requests on lanes are served side by side: what is heavy is done in a row, and nobody's bug is a neighbour's."""

from collections.abc import Callable
from functools import partial

import pytest
from starlette.types import Scope

from billhook.errors import BillhookError, InvalidParameters
from billhook.web.lanes import Answer, Steps, Visit, answer_to, at_once, serve_together

Handler = Callable[[str], Steps[Answer]]


class Handled:
    """A lane whose handler gets the name of the request."""

    largest_body = 10

    def __init__(self, handler: Handler) -> None:
        self._handler = handler

    def __call__(self, scope: Scope, body: bytes) -> Steps[Answer]:
        return self._handler(body.decode())

    def refuse(self, error: BillhookError) -> Answer:
        return answer_to(error)


def served(*handlers: Handler) -> list[Answer | None]:
    """What each says to a request; they are named a, b, c …"""
    scope = {"type": "http", "method": "POST", "path": "/", "headers": []}
    visits = [Visit(Handled(handler), scope, bytes([97 + number])) for number, handler in enumerate(handlers)]
    serve_together(visits)
    return [visit.answer for visit in visits]


def lift(done: list[str], what: str) -> bytes:
    done.append(f"lifts {what}")
    return what.encode()


def lifting(done: list[str], times: int) -> Handler:
    def handler(name: str) -> Steps[Answer]:
        done.append(f"begins {name}")
        lifted = b""
        for number in range(times):
            lifted += yield partial(lift, done, f"{name}{number}")
        done.append(f"ends {name}")
        return Answer(200, [], lifted)

    return handler


def test_what_is_heavy_is_done_in_a_row() -> None:
    done: list[str] = []
    answers = served(*[lifting(done, 1)] * 3)
    assert done[:3] == ["begins a", "begins b", "begins c"]
    assert done[3:6] == ["lifts a0", "lifts b0", "lifts c0"]
    assert done[6:] == ["ends a", "ends b", "ends c"]
    assert answers == [Answer(200, [], name) for name in (b"a0", b"b0", b"c0")]


@pytest.mark.parametrize("times", [0, 1, 3])
def test_who_has_less_to_do_is_ready_all_the_same(times: int) -> None:
    answers = served(lifting([], times), lifting([], 1))
    assert answers == [Answer(200, [], b"".join(b"a%d" % number for number in range(times))), Answer(200, [], b"b0")]


def test_by_itself_a_handler_gets_the_same() -> None:
    assert at_once(lifting([], 2)("a")) == Answer(200, [], b"a0a1")


def test_by_itself_a_handler_hears_as_well_what_could_not_be_lifted() -> None:
    with pytest.raises(RuntimeError, match="the tables are gone"):
        at_once(fails_while_it_lifts("a"))


def fail() -> bytes:
    raise RuntimeError("the tables are gone")


def fails_at_once(_name: str) -> Steps[Answer]:
    yield from ()
    raise RuntimeError("a bug")


def fails_while_it_lifts(_name: str) -> Steps[Answer]:
    yield fail
    raise AssertionError("never here")


def fails_afterwards(_name: str) -> Steps[Answer]:
    yield bytes
    raise RuntimeError("a bug")


@pytest.mark.parametrize("buggy", [fails_at_once, fails_while_it_lifts, fails_afterwards])
def test_a_bug_is_answered_and_harms_no_neighbour(buggy: Handler) -> None:
    first, bug, last = served(lifting([], 1), buggy, lifting([], 1))
    assert (first, last) == (Answer(200, [], b"a0"), Answer(200, [], b"c0"))
    assert bug == answer_to(BillhookError())


def test_a_handler_may_answer_for_what_could_not_be_lifted() -> None:
    def careful(_name: str) -> Steps[Answer]:
        try:
            yield fail
        except RuntimeError:
            return answer_to(InvalidParameters("too heavy"))
        raise AssertionError("never here")

    assert served(careful) == [answer_to(InvalidParameters("too heavy"))]
