"""The way out: rules as tables, and real receivers on this machine."""

import socket
from collections.abc import Iterator

import pytest
from sqlalchemy import update

from billhook.cli.doctor import reach
from billhook.cli.doctor.finding import State
from billhook.cli.doctor.reach import Receivers
from billhook.groups.store import providers
from billhook.outbound.probe import Reach
from tests.cli.doctor.conftest import Patient

A, B = ("a.example", 443), ("b.example", 443)
FOUND = Receivers({A: "prv_a", B: "prv_b"}, [])


@pytest.fixture
def listening() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


@pytest.fixture
def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@pytest.mark.parametrize(
    ("one", "other", "dns", "receivers"),
    [
        (Reach.REACHED, Reach.REACHED, State.WELL, State.WELL),
        (Reach.NO_NAME, Reach.REACHED, State.NOTICE, State.WELL),
        (Reach.NO_NAME, Reach.NO_NAME, State.NOTICE, State.WELL),
        (Reach.NO_DNS, Reach.REACHED, State.NOTICE, State.NOTICE),
        (Reach.NO_DNS, Reach.NO_DNS, State.PROBLEM, State.NOTICE),
        (Reach.BLOCKED, Reach.REACHED, State.WELL, State.NOTICE),
        (Reach.REFUSED, Reach.REFUSED, State.WELL, State.NOTICE),
        (Reach.SILENT, Reach.REACHED, State.WELL, State.NOTICE),
        (Reach.SILENT, Reach.UNREACHABLE, State.WELL, State.PROBLEM),
    ],
)
def test_one_that_is_away_is_a_notice_and_all_of_them_a_problem(
    one: Reach, other: Reach, dns: State, receivers: State
) -> None:
    probed = {A: one, B: other}
    assert reach.dns(probed, FOUND).state is dns
    assert reach.receivers(probed, FOUND).state is receivers


def test_one_receiver_alone_that_does_not_answer_says_nothing_about_the_way_out() -> None:
    assert reach.receivers({A: Reach.SILENT}, FOUND).state is State.NOTICE


def test_where_no_receiver_has_a_name_nothing_is_looked_up() -> None:
    probed = {("192.0.2.1", 443): Reach.REACHED}
    found = reach.dns(probed, Receivers(dict.fromkeys(probed, "prv_a"), []))
    assert found.state is State.WELL
    assert found.message == "nothing was tried: no active provider has a name to look up"


def test_a_receiver_on_a_private_address_is_noticed(patient: Patient, listening: socket.socket) -> None:
    port = listening.getsockname()[1]
    provider = patient.provider(f"http://127.0.0.1:{port}/secret-path")
    found = patient.finding("receivers")
    assert found["state"] == "notice"
    assert f"127.0.0.1:{port}" in found["message"]
    assert "BILLHOOK_OUTBOUND_ALLOW" in found["fix"]
    assert provider in found["fix"]
    assert "secret-path" not in str(patient.examine())


def test_a_receiver_that_listens_is_reached_and_hears_nothing(
    patient: Patient, listening: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BILLHOOK_OUTBOUND_ALLOW", "127.0.0.0/8")
    patient.provider(f"http://127.0.0.1:{listening.getsockname()[1]}/")
    assert patient.finding("receivers")["message"] == "1 receiver takes connections from here; nothing was sent"
    connection, _ = listening.accept()
    assert connection.recv(100) == b""
    connection.close()


def test_a_receiver_that_refuses_is_noticed(patient: Patient, free_port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BILLHOOK_OUTBOUND_ALLOW", "127.0.0.0/8")
    provider = patient.provider(f"http://127.0.0.1:{free_port}/")
    found = patient.finding("receivers")
    assert "1 of 1 cannot be reached" in found["message"]
    assert "it refuses connections" in found["message"]
    assert f"`billhook provider test {provider}`" in found["fix"]


def test_paused_providers_are_not_tried(patient: Patient, free_port: int) -> None:
    patient.billhook.json("provider", "pause", patient.provider(f"http://127.0.0.1:{free_port}/"))
    assert "no active provider" in patient.finding("receivers")["message"]


def test_no_more_than_a_few_are_tried(patient: Patient, free_port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BILLHOOK_OUTBOUND_ALLOW", "127.0.0.0/8")
    group = patient.group()
    for number in range(12):
        patient.provider(f"http://127.0.0.{number + 1}:{free_port}/", group=group)
    assert patient.finding("receivers")["message"].startswith("10 of 10 cannot be reached: ")


def test_a_provider_that_cannot_be_read_is_a_problem(patient: Patient) -> None:
    provider = patient.provider()
    patient.execute(update(providers).values(config=bytes(100)))
    found = patient.finding("receivers")
    assert found["state"] == "problem"
    assert f"`billhook provider delete {provider}`" in found["fix"]


def test_no_more_than_one_port_of_a_name_hides_another() -> None:
    probed = {("a.example", 80): Reach.NO_NAME, ("a.example", 443): Reach.NO_NAME}
    found = Receivers(dict.fromkeys(probed, "prv_a"), [])
    assert reach.dns(probed, found).message == "answers, but has no address for a.example"
