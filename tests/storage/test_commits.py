"""Group commit: who comes together is written together, and nobody pays for another's mistake."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from billhook.errors import BillhookError, NotFound, Unavailable
from billhook.storage.commits import GroupCommit

Results = list[str | BillhookError]


class Ledger:
    """Writes batches down, and each only when it is let."""

    def __init__(
        self, judge: Callable[[list[str]], Results | Exception] | None = None, *, is_open: bool = True
    ) -> None:
        self.batches: list[list[str]] = []
        self.begun = asyncio.Event()
        self.gate = asyncio.Event()
        self._judge = judge or (lambda items: [f"{item} is written" for item in items])
        if is_open:
            self.gate.set()

    async def __call__(self, items: list[str]) -> Results:
        self.batches.append(items)
        self.begun.set()
        await self.gate.wait()
        judged = self._judge(items)
        if isinstance(judged, Exception):
            raise judged
        return judged


def begin(commits: GroupCommit[str, str], *items: str) -> list[asyncio.Task[str]]:
    return [asyncio.create_task(commits.add(item)) for item in items]


async def outcomes(tasks: list[asyncio.Task[str]]) -> list[str | BaseException]:
    return await asyncio.gather(*tasks, return_exceptions=True)


async def turn() -> None:
    """Let everybody who can run do so."""
    for _ in range(5):
        await asyncio.sleep(0)


async def test_an_item_gets_its_own_result() -> None:
    ledger = Ledger()
    commits: GroupCommit[str, str] = GroupCommit(ledger)
    assert await commits.add("a") == "a is written"
    assert await commits.add("b") == "b is written"
    assert ledger.batches == [["a"], ["b"]]


async def test_what_arrives_during_a_commit_shares_the_next_one() -> None:
    ledger = Ledger(is_open=False)
    commits: GroupCommit[str, str] = GroupCommit(ledger)
    tasks = begin(commits, "a")
    await ledger.begun.wait()
    tasks += begin(commits, "b", "c", "d")
    await turn()
    assert ledger.batches == [["a"]]
    ledger.gate.set()
    assert await outcomes(tasks) == [f"{item} is written" for item in "abcd"]
    assert ledger.batches == [["a"], ["b", "c", "d"]]


async def test_a_batch_is_never_larger_than_it_may_be_and_keeps_the_order() -> None:
    ledger = Ledger()
    commits: GroupCommit[str, str] = GroupCommit(ledger, largest=4)
    items = [str(number) for number in range(10)]
    await outcomes(begin(commits, *items))
    assert max(map(len, ledger.batches)) <= 4
    assert [item for batch in ledger.batches for item in batch] == items


async def test_nobody_is_answered_before_the_commit() -> None:
    ledger = Ledger(is_open=False)
    (task,) = begin(GroupCommit(ledger), "a")
    await ledger.begun.wait()
    await turn()
    assert not task.done()
    ledger.gate.set()
    assert await task == "a is written"


async def test_an_error_that_is_one_item_s_reaches_only_that_one() -> None:
    ledger = Ledger(lambda items: [NotFound() if item == "bad" else item for item in items])
    found = await outcomes(begin(GroupCommit(ledger), "a", "bad", "b"))
    assert found[0] == "a"
    assert isinstance(found[1], NotFound)
    assert found[2] == "b"
    assert ledger.batches == [["a", "bad", "b"]]


async def test_one_bad_item_cannot_sink_the_others() -> None:
    ledger = Ledger(lambda items: ValueError("bad") if "bad" in items else list(items))
    found = await outcomes(begin(GroupCommit(ledger), "a", "bad", "b"))
    assert (found[0], found[2]) == ("a", "b")
    assert isinstance(found[1], ValueError)
    assert ledger.batches == [["a", "bad", "b"], ["a"], ["bad"], ["b"]]


async def test_bad_weather_reaches_all_and_is_not_tried_again() -> None:
    ledger = Ledger(lambda items: Unavailable(detail="away"))
    found = await outcomes(begin(GroupCommit(ledger), "a", "b", "c"))
    assert [type(each) for each in found] == [Unavailable] * 3
    assert ledger.batches == [["a", "b", "c"]]


async def test_after_bad_weather_it_goes_on() -> None:
    weather = [Unavailable(), None]

    def judge(items: list[str]) -> Results | Exception:
        return weather.pop(0) or list(items)

    commits: GroupCommit[str, str] = GroupCommit(Ledger(judge))
    with pytest.raises(Unavailable):
        await commits.add("a")
    assert await commits.add("a") == "a"


@pytest.mark.parametrize("leaves", ["before its commit", "during its commit"])
async def test_who_goes_away_does_not_lose_the_item(leaves: str) -> None:
    ledger = Ledger(is_open=False)
    commits: GroupCommit[str, str] = GroupCommit(ledger)
    first, *others = begin(commits, "a")
    await ledger.begun.wait()
    second, third = begin(commits, "b", "c")
    await turn()
    leaving = second if leaves == "before its commit" else first
    leaving.cancel()
    await turn()
    ledger.gate.set()
    await commits.drain()
    assert ledger.batches == [["a"], ["b", "c"]]
    assert leaving.cancelled()
    assert await third == "c is written"
    assert others == []


async def test_who_went_away_is_told_no_error_either() -> None:
    ledger = Ledger(lambda items: ValueError("bad"), is_open=False)
    commits: GroupCommit[str, str] = GroupCommit(ledger)
    gone, stays = begin(commits, "a", "b")
    await ledger.begun.wait()
    gone.cancel()
    await turn()
    ledger.gate.set()
    with pytest.raises(ValueError, match="bad"):
        await stays
    assert ledger.batches == [["a", "b"], ["a"], ["b"]]


async def test_who_comes_when_too_many_wait_is_told_so() -> None:
    ledger = Ledger(is_open=False)
    commits: GroupCommit[str, str] = GroupCommit(ledger, most_waiting=2)
    tasks = begin(commits, "a")
    await ledger.begun.wait()
    tasks += begin(commits, "b", "c", "d")
    await turn()
    with pytest.raises(Unavailable):
        await commits.add("e")
    ledger.gate.set()
    found = await outcomes(tasks)
    assert found[:3] == [f"{item} is written" for item in "abc"]
    assert isinstance(found[3], Unavailable)
    assert await commits.add("f") == "f is written"


async def test_draining_waits_for_all_that_waits() -> None:
    ledger = Ledger(is_open=False)
    commits: GroupCommit[str, str] = GroupCommit(ledger, largest=1)
    tasks = begin(commits, "a", "b", "c")
    await ledger.begun.wait()
    draining = asyncio.create_task(commits.drain())
    await turn()
    assert not draining.done()
    ledger.gate.set()
    await draining
    assert ledger.batches == [["a"], ["b"], ["c"]]
    assert all(task.done() or not task.cancelled() for task in tasks)
    await outcomes(tasks)


async def test_draining_when_nothing_waits_is_over_at_once() -> None:
    await asyncio.wait_for(GroupCommit[str, str](Ledger()).drain(), timeout=10)


async def many(commits: GroupCommit[str, str], count: int) -> list[str]:
    adds: list[Awaitable[str]] = [commits.add(str(number)) for number in range(count)]
    return await asyncio.gather(*adds)


async def test_thousands_are_all_written_once() -> None:
    ledger = Ledger()
    commits: GroupCommit[str, str] = GroupCommit(ledger)
    written = await many(commits, 3000)
    assert written == [f"{number} is written" for number in range(3000)]
    assert sorted(int(item) for batch in ledger.batches for item in batch) == list(range(3000))
    assert len(ledger.batches) < 20
