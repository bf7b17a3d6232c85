"""Work that does not get done."""

from typing import Any

import pytest
from sqlalchemy import update

from billhook.cli.doctor.finding import State
from billhook.cli.doctor.work import judge_queue
from billhook.delivery.stuck import Queue
from billhook.groups.store import providers
from tests.cli.doctor.conftest import DAY, HOUR, MINUTE, Patient, ago


def change(patient: Patient, provider_id: str, **values: Any) -> None:
    patient.execute(update(providers).where(providers.c.id == provider_id).values(**values))


def test_a_group_without_a_provider_reaches_nobody(patient: Patient) -> None:
    group = patient.group("Lonely")
    found = patient.finding("groups")
    assert found["state"] == "notice"
    assert found["message"] == f"1 group reaches nobody: {group} (Lonely)"
    assert f"`billhook provider add {group} " in found["fix"]


def test_a_group_whose_providers_are_all_paused_reaches_nobody(patient: Patient) -> None:
    group = patient.group()
    provider = patient.provider(group=group)
    assert patient.finding("groups")["state"] == "well"
    patient.billhook.json("provider", "pause", provider)
    found = patient.finding("groups")
    assert found["state"] == "notice"
    assert f"`billhook provider list {group}`" in found["fix"]


def test_a_deleted_group_is_no_matter(patient: Patient) -> None:
    group = patient.group()
    patient.billhook.json("group", "delete", group)
    assert patient.finding("groups")["state"] == "well"


def test_of_many_groups_a_few_are_named(patient: Patient) -> None:
    for number in range(12):
        patient.group(f"G{number}")
    found = patient.finding("groups")
    assert found["message"].startswith("more than 10 groups reach nobody: ")
    assert found["message"].endswith(" and more")


def test_a_disabled_provider_is_noticed(patient: Patient) -> None:
    provider = patient.provider()
    change(patient, provider, state="disabled", state_reason="failing")
    found = patient.finding("providers")
    assert found["state"] == "notice"
    assert found["message"] == f"1 is disabled or failing: {provider} (Receiver)"
    assert f"`billhook provider resume {provider}`" in found["fix"]


def test_a_provider_whose_breaker_is_open_is_noticed(patient: Patient) -> None:
    provider = patient.provider()
    change(patient, provider, open_until_ms=ago(-MINUTE))
    found = patient.finding("providers")
    assert "fails so often that it rests" in found["message"]
    assert f"`billhook provider test {provider}`" in found["fix"]


def test_due_deliveries_that_nobody_takes_are_a_problem(patient: Patient) -> None:
    patient.delivery(patient.provider(), due_ms=ago(12 * MINUTE))
    found = patient.finding("queue")
    assert found["state"] == "problem"
    assert "due for 12 minutes, and nobody takes them: no worker runs" in found["message"]
    assert "`billhook worker`" in found["fix"]


@pytest.mark.parametrize(
    "values", [{"open_until_ms": 2**50}, {"waits_until_ms": 2**50}, {"rate_limit": 1}, {"state": "paused"}]
)
def test_deliveries_that_wait_for_a_reason_are_no_matter(patient: Patient, values: dict[str, Any]) -> None:
    provider = patient.provider()
    patient.delivery(provider, due_ms=ago(HOUR))
    change(patient, provider, **values)
    assert patient.finding("queue")["state"] == "well"


def test_deliveries_that_are_not_due_are_no_matter(patient: Patient) -> None:
    patient.delivery(patient.provider(), due_ms=ago(-HOUR))
    assert patient.finding("queue")["state"] == "well"


def test_a_lease_that_nobody_takes_back_is_a_problem(patient: Patient) -> None:
    patient.delivery(patient.provider(), lease="lse", lease_until_ms=ago(5 * MINUTE))
    found = patient.finding("queue")
    assert found["state"] == "problem"
    assert found["message"].startswith("1 delivery is leased to a worker that is gone")


def test_a_lease_that_lives_is_work_under_way(patient: Patient) -> None:
    patient.delivery(patient.provider(), lease="lse", lease_until_ms=ago(-MINUTE))
    assert patient.finding("queue")["message"].endswith("1 under way")


@pytest.mark.parametrize(
    ("queue", "state"),
    [
        (Queue(0, 0, 0), State.WELL),
        (Queue(59_999, 0, 0), State.WELL),
        (Queue(60_000, 0, 0), State.PROBLEM),
        (Queue(60_000, 1, 0), State.WELL),
        (Queue(300_000, 1, 0), State.NOTICE),
        (Queue(0, 5, 1), State.PROBLEM),
    ],
)
def test_waiting_is_judged_by_whether_anybody_works(queue: Queue, state: State) -> None:
    assert judge_queue(queue).state is state


@pytest.mark.parametrize(("age", "state"), [(DAY - HOUR, "well"), (3 * DAY, "notice")])
def test_held_work_is_noticed_after_a_day(patient: Patient, age: int, state: str) -> None:
    provider = patient.provider()
    change(patient, provider, state="paused")
    patient.delivery(provider, state="held", since_ms=ago(age))
    found = patient.finding("held work")
    assert found["state"] == state
    assert state == "well" or (
        f"{provider} (Receiver, for 3 days)" in found["message"]
        and f"`billhook provider resume {provider}`" in found["fix"]
    )


@pytest.mark.parametrize(("age", "state"), [(MINUTE, "well"), (2 * HOUR, "notice")])
def test_a_recovery_that_does_not_end_is_noticed(patient: Patient, age: int, state: str) -> None:
    patient.recovery(patient.provider(), created_ms=ago(age))
    found = patient.finding("recoveries")
    assert found["state"] == state
    assert state == "well" or "1,234 so far" in found["message"]
