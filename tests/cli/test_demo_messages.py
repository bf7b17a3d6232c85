"""The notifications of the demo."""

from billhook.cli.demo_data import GROUPS
from billhook.cli.demo_messages import TEMPLATES, message
from billhook.delivery.accept import valid_message
from billhook.providers.webhook import Webhook

ROUNDS = 20 * len(TEMPLATES)


def test_the_same_number_says_the_same() -> None:
    assert [message(number) for number in range(ROUNDS)] == [message(number) for number in range(ROUNDS)]


def test_every_message_can_be_sent_by_every_method() -> None:
    config = {"server_url": "http://127.0.0.1:65535/a/path", "request_method": "GET", "request_headers": []}
    for number in range(ROUNDS):
        _, said = message(number)
        assert valid_message(said.title, said.content) == said
        assert "{" not in said.title + said.content
        assert Webhook().check(config, said) is None


def test_every_template_has_its_turn() -> None:
    turn = [message(number)[1].content for number in range(len(TEMPLATES))]
    assert len(set(turn)) == len(TEMPLATES)


def test_every_group_gets_some_of_any_few() -> None:
    names = {group.name for group in GROUPS}
    assert all({message(first + number)[0] for number in range(10)} == names for first in range(ROUNDS))


def test_a_template_says_something_else_the_next_time() -> None:
    said = {message(number)[1] for number in range(ROUNDS)}
    assert len(said) > 0.9 * ROUNDS
