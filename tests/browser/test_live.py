"""What changes before one's eyes can be read, stopped and left alone; and moments are the reader's own."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Browser, Page, Response, expect

from tests.browser.calls import Calls
from tests.browser.conftest import home_of, watched
from tests.browser.console import Console
from tests.browser.receiver import receiver
from tests.scenarios.processes import Billhook, Server

ROWS = "#deliveries tbody tr"
OUTSIDE = """all => all.filter(text => {
    const [box, card] = [text, text.closest(".card")].map(each => each.getBoundingClientRect());
    return box.width && (box.left < card.left || box.right > card.right);
}).map(text => text.textContent)"""  # what sticks out of its card
TOKYO = timezone(timedelta(hours=9))
LEAST_PX = 11  # smaller letters cannot be read


@pytest.fixture(scope="module")
def ids(calls: Calls) -> Iterator[dict[str, str]]:
    """A group with one provider and enough deliveries to scroll, and a key."""
    with receiver() as told:
        group = calls.add_group("Live")
        provider = calls.add_provider(group, "Watched", told.url)
        key = calls.post("/clients", name="robot", scope="groups:read")
        for number in range(8):
            calls.send(group, f"Before {number}")
        yield {"group": group, "provider": provider, "key": key["client_id"]}


def send(program: Billhook, group: str, title: str) -> None:
    program.json("send", group, "--title", title, "--content", "x")


def status(page: Page) -> str:
    return page.locator(".live-note [role=status]").inner_text()


def shows(page: Page, title: str) -> None:
    expect(page.locator(ROWS).filter(has_text=title)).to_have_count(1, timeout=20_000)


@pytest.fixture
def reader(chromium: Browser, server: Server, signed_in_state: Path) -> Iterator[Console]:
    """Signed in, in Tokyo."""
    context = chromium.new_context(storage_state=signed_in_state, locale="en-GB", timezone_id="Asia/Tokyo")
    with watched(context, server) as page:
        yield Console(page, home_of(server))


def test_a_list_that_is_scrolled_stays_where_it_is_read(
    console: Console, program: Billhook, ids: dict[str, str]
) -> None:
    page = console.page
    page.set_viewport_size({"width": 1280, "height": 400})
    console.open("/deliveries")
    expect(page.locator(ROWS).filter(has_text="delivered").nth(7)).to_be_attached(timeout=20_000)
    read = page.locator(ROWS).nth(3)
    read_id = read.get_attribute("id") or ""
    read.evaluate("row => scrollTo({ top: row.getBoundingClientRect().top + scrollY - 20, behavior: 'instant' })")
    before = top_of(page, read_id)
    send(program, ids["group"], "Put above")
    shows(page, "Put above")
    assert top_of(page, read_id) == pytest.approx(before, abs=1)
    page.evaluate("scrollTo(0, 0)")
    send(program, ids["group"], "Seen to come")
    shows(page, "Seen to come")
    assert page.evaluate("scrollY") == 0


def top_of(page: Page, element_id: str) -> float:
    found: float = page.evaluate("id => document.getElementById(id).getBoundingClientRect().top", element_id)
    return found


def test_what_is_live_can_be_paused_and_resumed(console: Console, program: Billhook, ids: dict[str, str]) -> None:
    page = console.page
    console.open("/deliveries")
    pause = page.get_by_role("button", name="Pause")
    expect(pause).to_have_attribute("aria-pressed", "false")
    pause.click()
    expect(pause).to_have_attribute("aria-pressed", "true")
    assert status(page) == "Paused"
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    send(program, ids["group"], "While paused")  # takes longer than two turns
    page.wait_for_timeout(4500)
    assert asked == []
    pause.click()
    shows(page, "While paused")
    expect(pause).to_have_attribute("aria-pressed", "false")
    assert status(page) == "Live"


def test_without_script_there_is_nothing_to_pause(
    chromium: Browser, server: Server, signed_in_state: Path, ids: dict[str, str]
) -> None:
    with watched(chromium.new_context(storage_state=signed_in_state, java_script_enabled=False), server) as page:
        Console(page, home_of(server)).open("/deliveries")
        expect(page.get_by_role("button", name="Pause")).to_have_count(0)
        expect(page.get_by_label("Sent since (UTC)")).to_be_visible()


def test_with_reduced_motion_nothing_shines(console: Console, program: Billhook, ids: dict[str, str]) -> None:
    page = console.page
    console.open("/deliveries")
    for motion, name in (("no-preference", "fresh"), ("reduce", "none")):
        page.emulate_media(reduced_motion=motion)  # type: ignore[arg-type]
        shown = page.locator(ROWS).first.evaluate(
            "row => { row.classList.add('fresh'); return getComputedStyle(row).animationName; }"
        )
        assert shown == name


def test_a_list_is_filtered_by_the_readers_own_time(reader: Console, ids: dict[str, str]) -> None:
    page = reader.page
    reader.open("/deliveries?since=2026-06-01T20:30&until=2026-06-02T00:00Z")
    since = page.get_by_label("Sent since (your time)")
    expect(since).to_have_value("2026-06-02T05:30")
    expect(page.get_by_label("Sent before (your time)")).to_have_value("2026-06-02T09:00")
    since.fill("2026-06-01T08:15")
    reader.press("Filter")
    page.wait_for_url(re.compile("2026-05"))
    sent = parse_qs(urlsplit(page.url).query)
    assert sent == {"since": ["2026-05-31T23:15"], "until": ["2026-06-02T00:00"]}
    expect(since).to_have_value("2026-06-01T08:15")


def test_a_recovery_begins_at_the_readers_own_time(reader: Console, ids: dict[str, str]) -> None:
    page = reader.page
    reader.open(f"/deliveries/recover?provider_id={ids['provider']}")
    expect(page.get_by_text("since this moment, in your time:")).to_be_visible()
    page.get_by_label("Moment in your time").fill("2026-06-01T08:15")
    reader.press("Recover")
    since = page.locator("dd time").first
    assert (since.get_attribute("datetime") or "").startswith("2026-05-31T23:15:00")


def test_what_shows_on_hover_over_a_chart_is_in_the_readers_own_time(reader: Console, ids: dict[str, str]) -> None:
    reader.open(f"/deliveries?provider_id={ids['provider']}")
    title = reader.page.locator("svg.chart title").last
    at = datetime.fromisoformat(title.get_attribute("data-at") or "").astimezone(UTC)
    assert (title.text_content() or "").startswith(f"{(at.hour + 9) % 24:02}:00: ")


def test_days_below_a_chart_begin_where_they_do_for_the_reader(reader: Console, ids: dict[str, str]) -> None:
    reader.open(f"/deliveries?provider_id={ids['provider']}&span=7d")
    labels = "svg.chart text[data-step=day]"
    expect(reader.page.locator(labels).nth(3)).to_have_attribute("data-at", re.compile("T15:00:00"))  # Tokyo's midnight
    found = reader.page.locator(labels).evaluate_all(
        "all => all.map(text => [text.dataset.at, Number(text.getAttribute('x')), text.textContent])"
    )
    said = [(datetime.fromisoformat(at).astimezone(TOKYO), x, text) for at, x, text in found]
    assert [text for _, _, text in said if text] == [f"{at:%a} {at.day}" for at, _, text in said if text]
    hours = [(at - said[0][0]).total_seconds() / 3600 for at, _, _ in said]
    columns = [(x - said[0][1]) / (354 / 28) for _, x, _ in said]  # each of them six hours
    assert [round(hour / 6) for hour in hours] == [round(column) for column in columns]


def test_a_mistake_on_the_page_of_a_key_leaves_its_live_part_alive(console: Console, ids: dict[str, str]) -> None:
    page = console.page
    console.open(f"/settings/api-keys/{ids['key']}")
    page.get_by_label("Type the name of the key to revoke it").fill("another")
    console.press("Revoke the key")
    expect(page.locator("#typed_name-mistake")).to_be_visible()
    assert page.url.endswith("/revoke")
    with page.expect_response(is_of_a_live_part, timeout=30_000) as answered:
        page.locator("#requests button").focus()
    assert (answered.value.status, answered.value.url) == (304, page.url.removesuffix("/revoke"))
    assert page.evaluate("document.activeElement.dataset.copy") == "curl"


def is_of_a_live_part(answer: Response) -> bool:
    return "x-fragment" in answer.request.headers


def test_what_is_sent_again_as_it_was_is_left_alone(console: Console, ids: dict[str, str]) -> None:
    """Also when the server sends all of it, for whatever reason."""
    page = console.page
    console.open("/deliveries")
    expect(page.locator(ROWS).filter(has_text="delivered").nth(7)).to_be_attached(timeout=20_000)
    console.open("/deliveries")
    page.evaluate("document.getElementById('deliveries').dataset.etag = 'another'")
    page.evaluate("window.row = document.querySelector('#deliveries table')")
    with page.expect_response(lambda answer: is_of_a_live_part(answer) and answer.status == 200, timeout=30_000):
        pass
    page.wait_for_function("document.querySelector('.live-note [role=status]').textContent === 'Live'")
    assert page.evaluate("window.row.isConnected")


@pytest.mark.parametrize(
    ("path", "width"), [("provider", 1280), ("list", 1280), ("provider", 360), ("list", 360), ("list", 700)]
)
def test_the_labels_of_a_chart_can_be_read(console: Console, ids: dict[str, str], path: str, width: int) -> None:
    page = console.page
    page.set_viewport_size({"width": width, "height": 800})
    provider = f"/settings/notifications/groups/{ids['group']}/providers/{ids['provider']}?"
    for span in ("24h", "7d"):
        console.open(
            (provider if path == "provider" else f"/deliveries?provider_id={ids['provider']}&") + f"span={span}"
        )
        effective = page.locator("svg.chart").evaluate(
            "svg => parseFloat(getComputedStyle(svg.querySelector('text')).fontSize) * svg.getScreenCTM().a"
        )
        assert LEAST_PX <= effective <= 18
        assert overlapping(page) == []
        assert page.locator("svg.chart text").evaluate_all(OUTSIDE) == []


def overlapping(page: Page) -> list[str]:
    """Labels below the columns that run into the one before."""
    found: list[str] = page.locator("svg.chart text[data-at]").evaluate_all(
        "all => all.filter(text => text.getClientRects().length && text.getBoundingClientRect().width)"
        ".filter((text, place, shown) => place"
        " && shown[place - 1].getBoundingClientRect().right > text.getBoundingClientRect().left)"
        ".map(text => text.textContent)"
    )
    return found
