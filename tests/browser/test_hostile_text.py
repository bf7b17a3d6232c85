"""Marks of direction in a name end with the name: our own words around it stay where they are."""

import pytest
from playwright.sync_api import expect

from tests.browser.calls import Calls
from tests.browser.console import Console

TURNED = "Key \u202eevil\u2067"  # never ended; turned around, the "e" comes last
CHAT = "Chat \u202eroom\u2067"
# Where on its line the first letter of each word is, in the element that holds them all.
PLACES = """(element, words) => words.map((word) => {
  const texts = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const at = texts.currentNode.data.indexOf(word);
    if (at < 0) continue;
    const range = document.createRange();
    range.setStart(texts.currentNode, at);
    range.setEnd(texts.currentNode, at + 1);
    return range.getBoundingClientRect().x;
  }
  return null;
})"""


@pytest.fixture(scope="module")
def ids(calls: Calls) -> dict[str, str]:
    group = calls.add_group(TURNED)
    provider = calls.add_provider(group, CHAT, "http://127.0.0.1:9/hook")
    key = calls.post("/clients", name=TURNED, scope="groups:read")["client_id"]
    used = calls.add_group(f"{TURNED} too")
    calls.add_provider(used, CHAT, "http://127.0.0.1:9/hook")
    sent = calls.send(used, CHAT)
    delivery = sent["deliveries"][0]["id"]
    return {"group": group, "provider": provider, "key": key, "notification": sent["id"], "delivery": delivery}


GROUP = "/settings/notifications/groups/{group}"


@pytest.mark.parametrize(
    ("path", "place", "words"),
    [
        (GROUP + "/delete", "h1", ["Delete", "Key", "evil", "?"]),
        (GROUP + "/providers/{provider}/delete", "h1", ["Delete", "Chat", "room", "?"]),
        (GROUP + "/providers/{provider}/delete", ".crumbs", ["Notifications", "Key", "evil", "Chat", "room"]),
        (GROUP + "/providers/{provider}/edit", "h1", ["Edit", "Chat", "room"]),
        (GROUP + "/send", "h3", ["What", "Chat", "room", "gets"]),
        (GROUP + "/send", "ul.plain li", ["Chat", "room", "never used"]),
        ("/deliveries?notification_id={notification}", ".filters .choice span", ["Only", "Chat", "room"]),
        (
            "/deliveries/{delivery}",
            "#delivery .facts dd:nth-of-type(2)",
            ["Chat", "room", " in ", "Key", "evil", "all its"],
        ),
        ("/deliveries/{delivery}", ".crumbs", ["Deliveries", "Chat", "room", "Live"]),
    ],
)
def test_our_words_around_a_name_keep_their_order(
    console: Console, ids: dict[str, str], path: str, place: str, words: list[str]
) -> None:
    console.open(path.format(**ids))
    found = console.page.locator(f"main {place}").first.evaluate(PLACES, words)
    assert None not in found
    assert found == sorted(found)


@pytest.mark.parametrize("path", [GROUP, GROUP + "/delete", "/settings/api-keys/{key}"])
def test_titles_have_no_marks_of_direction(console: Console, ids: dict[str, str], path: str) -> None:
    console.open(path.format(**ids))
    assert console.page.title().endswith("Key evil · Billhook")


def test_a_question_reads_as_it_was_written(console: Console, ids: dict[str, str]) -> None:
    console.open(f"/settings/api-keys/{ids['key']}")
    expect(console.page.locator("[data-confirm*='all tokens']")).to_have_attribute(
        "data-confirm", "End all tokens of Key evil?"
    )


def test_a_name_in_a_link_is_underlined_like_any_link(console: Console, ids: dict[str, str]) -> None:
    console.open(f"/deliveries/{ids['delivery']}")
    assert (
        console.page.locator("#to-provider bdi").evaluate("name => getComputedStyle(name).textDecorationLine")
        == "underline"
    )
