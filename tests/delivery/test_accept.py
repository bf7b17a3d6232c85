"""Accepting: all in one commit, exactly what was given, and the same key never twice."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import func, select

from billhook.accounts.installation import Installation
from billhook.delivery.accept import (
    KEY_KEPT_MS,
    LATER,
    NOBODY,
    Accepted,
    Answer,
    Send,
    accept,
    valid_key,
    valid_message,
)
from billhook.delivery.store import State, deliveries, idempotency_keys, notifications
from billhook.errors import GroupNotFound, InvalidParameters, NotificationConflict
from billhook.groups import manage
from billhook.groups.directory import Directory
from billhook.groups.model import ProviderState
from billhook.providers.kinds import Message
from billhook.storage.ids import new_id
from tests.delivery.support import (
    SENDER,
    Team,
    a_send,
    answers_to,
    make_team,
    now_of,
    rows_of,
    send,
    set_deliveries,
    set_provider,
    set_values,
)
from tests.groups.setting import NOW
from tests.support import OPERATOR, another_organization

KIB = 1024


@pytest.mark.parametrize(
    ("title", "content"),
    [
        ("t", "c"),
        ("t" * 256, "c" * 32 * KIB),
        ("\U0001f4a5" * 256, "\U0001f4a5" * 8 * KIB),
        (" \t\r\n ", "\n"),
        ("\x01\x7f\x9f\u2028", "\ufeff\uffff"),
    ],
)
def test_a_message_is_kept_exactly_as_it_was_given(title: str, content: str) -> None:
    assert valid_message(title, content) == Message(title, content)


@pytest.mark.parametrize(
    ("title", "content", "fields"),
    [
        ("", "c", ["title"]),
        ("t" * 257, "c", ["title"]),
        ("t", "", ["content"]),
        ("t", "c" * (32 * KIB + 1), ["content"]),
        ("t", "\U0001f4a5" * 8 * KIB + "c", ["content"]),
        ("", "", ["title", "content"]),
        ("a\0b", "c", ["title"]),
        ("t", "a\0b", ["content"]),
        ("\ud800", "c", ["title"]),
        ("t", "c\udfff", ["content"]),
        ("\0" * 257, "c", ["title", "title"]),
    ],
)
def test_a_message_that_cannot_be_sent_is_refused_by_its_fields(title: str, content: str, fields: list[str]) -> None:
    with pytest.raises(InvalidParameters) as refused:
        valid_message(title, content)
    assert [error.field for error in refused.value.errors] == fields


@given(title=st.text(max_size=300), content=st.text(max_size=300))
def test_a_message_is_kept_or_refused_and_never_changed(title: str, content: str) -> None:
    is_storable = all("\0" not in text and text.encode("utf-8", "ignore").decode() == text for text in (title, content))
    if is_storable and 1 <= len(title) <= 256 and content:
        assert valid_message(title, content) == Message(title, content)
    else:
        with pytest.raises(InvalidParameters):
            valid_message(title, content)


@pytest.mark.parametrize("key", [None, "a", "x" * 255, "2f1c-~ !"])
def test_a_key_of_printable_characters_is_taken(key: str | None) -> None:
    assert valid_key(key) == key


@pytest.mark.parametrize("key", ["", "x" * 256, "é", "a\nb", "\0", "\x7f"])
def test_any_other_key_is_refused(key: str) -> None:
    with pytest.raises(InvalidParameters, match="Idempotency-Key"):
        valid_key(key)


def accepted(answer: Answer) -> Accepted:
    assert isinstance(answer, Accepted), answer
    return answer


async def answer_to(team: Team, send: Send) -> Answer:
    (answer,) = await answers_to(team.installation, [send])
    return answer


async def count(installation: Installation) -> tuple[int, int]:
    """Notifications and deliveries."""
    async with installation.db.reading() as tx:
        counts = [select(func.count()).select_from(table) for table in (notifications, deliveries)]
        said, queued = [(await tx.execute(each)).scalar_one() for each in counts]
    return said, queued


async def test_a_notification_gets_a_delivery_for_every_provider(installation: Installation) -> None:
    team = await make_team(installation, 3)
    before = await now_of(installation.db)
    answer = accepted(await answer_to(team, a_send(team, "Hello", "World")))
    (said,) = await rows_of(installation.db, notifications)
    queued = await rows_of(installation.db, deliveries)
    assert (said.id, said.title, said.content, said.sender) == (answer.id, "Hello", "World", SENDER)
    assert (said.organization_id, said.group_id) == (team.group.organization_id, team.group.id)
    assert before <= said.created_ms == answer.created_ms <= await now_of(installation.db)
    assert {row.provider_id for row in queued} == {provider.id for provider in team.providers}
    assert [(row.id, row.provider_id, row.state) for row in queued] == [
        (each.id, each.provider_id, each.state) for each in answer.deliveries
    ]
    for row in queued:
        assert (row.organization_id, row.group_id) == (said.organization_id, said.group_id)
        assert (row.notification_id, row.state, row.attempts, row.charged) == (said.id, State.PENDING, 0, 0)
        assert row.created_ms == row.since_ms == row.due_ms == said.created_ms
    assert (answer.warning, answer.is_repeated) == (None, False)


async def test_all_of_it_is_committed_or_nothing(installation: Installation) -> None:
    team = await make_team(installation, 2)
    with pytest.raises(RuntimeError, match="halfway"):
        async with installation.db.transaction() as tx:
            sends = [a_send(team, idempotency_key="k"), a_send(team)]
            assert len(await accept(tx, Directory(installation.vault), sends)) == 2
            raise RuntimeError("halfway")
    assert await count(installation) == (0, 0)
    assert await rows_of(installation.db, idempotency_keys) == []


TEXTS = [
    "\"quotes\" 'and' \\backslashes\\ {}[]",
    "line\r\nbreaks\ttabs \x01 \x1f \x7f \x85",
    "&=+%#?;/ %00 \\u0000 $1 :name ?",
    "\U0001f4a5\u200d\u2028\u2029\ufeff\uffff\U0010ffff e\u0301 \u00e9",
    "123",
    "null",
    "  spaces  ",
    "".join(map(chr, [*range(1, 0xD800, 7), *range(0xE000, 0x10000, 7)]))[:9000],
]


async def test_what_was_said_is_stored_character_by_character(installation: Installation) -> None:
    team = await make_team(installation)
    sends = [a_send(team, text[:256], text) for text in TEXTS]
    answers = [accepted(answer) for answer in await answers_to(installation, sends)]
    stored = {row.id: row for row in await rows_of(installation.db, notifications)}
    assert [(stored[each.id].title, stored[each.id].content) for each in answers] == [
        (text[:256], text) for text in TEXTS
    ]


async def test_a_group_of_nobody_or_of_somebody_else_is_not_found(installation: Installation) -> None:
    team = await make_team(installation)
    gone = await make_team(installation, name="Gone")
    async with installation.db.transaction() as tx:
        await manage.delete_group(tx, gone.group.id, author=OPERATOR, now=NOW)
    sends = [
        a_send(team, organization_id=await another_organization(installation)),
        a_send(gone),
        a_send(team, group_id=new_id("grp")),
        a_send(team, group_id="'; --"),
        a_send(team, group_id="\0"),
    ]
    answers = await answers_to(installation, sends)
    assert [type(answer) for answer in answers] == [GroupNotFound] * 5
    assert await count(installation) == (0, 0)


async def test_one_that_is_refused_stops_no_other(installation: Installation) -> None:
    team = await make_team(installation)
    answers = await answers_to(installation, [a_send(team), a_send(team, group_id=new_id("grp")), a_send(team)])
    assert [type(answer) for answer in answers] == [Accepted, GroupNotFound, Accepted]
    assert await count(installation) == (2, 2)


async def test_what_is_too_long_for_a_get_is_refused_by_name(installation: Installation) -> None:
    team = await make_team(installation, name="Ops", request_method="GET")
    long = "x" * 7950
    answers = await answers_to(installation, [a_send(team, content=long), a_send(team, content="x" * 7000)])
    refusal = answers[0]
    assert isinstance(refusal, InvalidParameters)
    assert [error.field for error in refusal.errors] == ["content"]
    assert team.provider.id in refusal.message
    assert team.provider.name in refusal.message
    assert isinstance(answers[1], Accepted)
    assert await count(installation) == (1, 1)


@pytest.mark.parametrize("state", [ProviderState.PAUSED, ProviderState.DISABLED])
async def test_what_a_provider_does_not_take_now_is_held(installation: Installation, state: ProviderState) -> None:
    team = await make_team(installation, 2)
    await set_provider(team, team.provider, state=state)
    answer = accepted(await answer_to(team, a_send(team)))
    assert [each.state for each in answer.deliveries] == [State.HELD, State.PENDING]
    assert [row.state for row in await rows_of(installation.db, deliveries)] == [State.HELD, State.PENDING]
    assert answer.warning is None


async def test_a_group_without_an_active_provider_warns_that_nobody_will_be_told(installation: Installation) -> None:
    nobody, paused = await make_team(installation, 0), await make_team(installation, name="Paused")
    await set_provider(paused, paused.provider, state=ProviderState.PAUSED)
    for team, held in ((nobody, 0), (paused, 1)):
        answer = accepted(await answer_to(team, a_send(team)))
        assert (answer.warning, len(answer.deliveries)) == (LATER if held else NOBODY, held)
    assert await count(installation) == (2, 1)


async def test_a_deleted_provider_is_not_told(installation: Installation) -> None:
    team = await make_team(installation, 2)
    async with installation.db.transaction() as tx:
        await manage.delete_provider(tx, None, team.provider.id, author=OPERATOR, now=NOW)
    answer = accepted(await answer_to(team, a_send(team)))
    assert [each.provider_id for each in answer.deliveries] == [team.providers[1].id]


async def test_the_same_key_and_body_give_the_same_answer(installation: Installation) -> None:
    team = await make_team(installation, 2)
    first = accepted(await answer_to(team, a_send(team, idempotency_key="k")))
    second = accepted(await answer_to(team, a_send(team, idempotency_key="k")))
    assert (second.id, second.created_ms, second.group_id) == (first.id, first.created_ms, first.group_id)
    assert set(second.deliveries) == set(first.deliveries)
    assert (first.is_repeated, second.is_repeated) == (False, True)
    assert await count(installation) == (1, 2)


async def test_a_repeated_answer_shows_what_has_become_of_it(installation: Installation) -> None:
    team = await make_team(installation)
    first = accepted(await answer_to(team, a_send(team, idempotency_key="k")))
    await set_deliveries(installation.db, first.deliveries[0].id, state=State.DELIVERED)
    second = accepted(await answer_to(team, a_send(team, idempotency_key="k")))
    assert [each.state for each in second.deliveries] == [State.DELIVERED]


async def test_the_same_key_with_anything_else_is_a_conflict(installation: Installation) -> None:
    team, other = await make_team(installation), await make_team(installation, name="Other")
    assert isinstance(await answer_to(team, a_send(team, idempotency_key="k")), Accepted)
    others = [a_send(team, "Other"), a_send(team, content="Other"), a_send(other)]
    for one in others:
        keyed = Send(one.organization_id, one.group_id, one.sender, one.message, "k")
        assert isinstance(await answer_to(team, keyed), NotificationConflict)
    assert await count(installation) == (1, 1)


async def test_keys_belong_to_their_sender(installation: Installation) -> None:
    team = await make_team(installation)
    answers = [
        accepted(await answer_to(team, a_send(team, idempotency_key="k", sender=sender)))
        for sender in ("client:a", "client:b")
    ]
    assert [answer.is_repeated for answer in answers] == [False, False]
    assert await count(installation) == (2, 2)


async def test_a_key_lasts_for_a_day_and_is_then_free_for_another_body(installation: Installation) -> None:
    team = await make_team(installation)
    first = accepted(await answer_to(team, a_send(team, idempotency_key="k")))
    (key,) = await rows_of(installation.db, idempotency_keys)
    assert key.expires_ms == first.created_ms + KEY_KEPT_MS
    await set_values(installation.db, idempotency_keys, expires_ms=await now_of(installation.db))
    second = accepted(await answer_to(team, a_send(team, "Other", idempotency_key="k")))
    assert (second.is_repeated, second.id == first.id) == (False, False)
    (key,) = await rows_of(installation.db, idempotency_keys)
    assert (key.notification_id, key.expires_ms) == (second.id, second.created_ms + KEY_KEPT_MS)


async def test_two_of_one_key_that_come_together_are_one(installation: Installation) -> None:
    team = await make_team(installation)
    same, other = a_send(team, idempotency_key="k"), a_send(team, "Other", idempotency_key="k")
    first, second, third = await answers_to(installation, [same, same, other])
    assert accepted(second).id == accepted(first).id
    assert accepted(second).is_repeated
    assert isinstance(third, NotificationConflict)
    assert await count(installation) == (1, 1)


async def test_what_was_refused_does_not_use_up_its_key(installation: Installation) -> None:
    team = await make_team(installation)
    wrong = a_send(team, group_id=new_id("grp"), idempotency_key="k")
    answers = await answers_to(installation, [wrong, a_send(team, idempotency_key="k")])
    assert [type(answer) for answer in answers] == [GroupNotFound, Accepted]


async def test_many_are_written_in_one_call(installation: Installation) -> None:
    teams = [await make_team(installation, providers, name=f"Team {providers}") for providers in range(3)]
    answers = await answers_to(installation, [a_send(teams[number % 3], f"{number}") for number in range(300)])
    assert [len(accepted(answer).deliveries) for answer in answers] == [0, 1, 2] * 100
    assert await count(installation) == (300, 300)
    assert len({accepted(answer).id for answer in answers}) == 300


async def test_ids_follow_the_order_of_the_sends(installation: Installation) -> None:
    team = await make_team(installation, 2)
    sent = await send(team, 20)
    ids = [each.id for answer in sent for each in answer.deliveries]
    assert ids == sorted(ids)
    assert [answer.id for answer in sent] == sorted(answer.id for answer in sent)
