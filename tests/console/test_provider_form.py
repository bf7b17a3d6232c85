"""The provider form: headers one at a time, mistakes beside their fields, stored values that stay, tests anytime."""

from ipaddress import ip_network

import httpx
import pytest

from billhook.console.draft import MOVED, TYPED_AGAIN
from billhook.console.preview import SAMPLE, SIGNATURE, WEBHOOK_ID
from billhook.delivery import trial
from billhook.errors import RateLimited
from billhook.providers.kinds import MASK
from billhook.providers.webhook import ENTERED_AGAIN
from billhook.settings import Settings
from tests.console.group_pages import (
    HOSTILE,
    add_group,
    add_provider,
    address,
    follow,
    mistakes,
    press,
    provider_form,
    request_of,
    sheet,
    text_of,
)
from tests.delivery.receivers import received, response
from tests.outbound.receivers import RawReceiver

BEARER = "Bearer very-secret"


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """This machine may be reached, though not all of it."""
    return settings.model_copy(update={"outbound_allow": (ip_network("127.0.0.1/32"),), "max_providers": 3})


async def new_form(browser: httpx.AsyncClient) -> httpx.Response:
    return await provider_form(browser, await add_group(browser))


async def edit_form(browser: httpx.AsyncClient, provider: httpx.Response) -> httpx.Response:
    return await browser.get(f"{address(provider)}/edit")


async def try_out(browser: httpx.AsyncClient, page: httpx.Response, **typed: str) -> httpx.Response:
    """Press "Send test"."""
    form = sheet(page, "/edit" if "/edit" in page.text else "/new").typed(**typed)
    where = page.text.partition('formaction="')[2].partition('"')[0]
    return await press(browser, form, to=where)


async def test_the_form_asks_in_the_order_of_the_seed(browser: httpx.AsyncClient) -> None:
    page = await new_form(browser)
    labels = [
        "Select type",
        "Name",
        "Server URL",
        "Request method",
        "Request headers",
        "Add header",
        "Save",
        "Send test",
    ]
    shown = text_of(page).partition("Add provider")[2].replace("Save Select type", "Select type", 1)
    places = [shown.index(label) for label in labels]
    assert places == sorted(places)
    form = sheet(page, "/new")
    assert (form["type"], form["request_method"], form.all("header_key")) == ("Webhook", "POST", [])


async def test_headers_are_added_and_removed_one_at_a_time_without_a_script(browser: httpx.AsyncClient) -> None:
    form = sheet(await new_form(browser), "/new").typed(name="Half typed", server_url="htp:/half", request_method="GET")
    form = sheet(await press(browser, form, do="add"), "/new").with_header("X-One", "1")
    form = sheet(await press(browser, form, do="add"), "/new").with_header("X-Two", "2")
    page = await press(browser, form, do="remove-0")
    form = sheet(page, "/new")
    assert (form.all("header_key"), form.all("header_value")) == (["X-Two"], ["2"])
    assert (form["name"], form["server_url"], form["request_method"]) == ("Half typed", "htp:/half", "GET")
    assert mistakes(page) == {}


@pytest.mark.parametrize(
    ("field", "wrong", "said"),
    [
        ("name", "", "must have 1 to 100 characters"),
        ("name", "x" * 101, "must have 1 to 100 characters"),
        ("server_url", "", "enter the address of the receiver"),
        ("server_url", "https://receiver.example/" + "x" * 2048, "must have at most 2,048 characters"),
        ("server_url", "receiver.example/hook", "must begin with http:// or https://"),
        ("server_url", "https://user:pass@receiver.example/", "must not have a user name or password"),
        ("request_method", "PUT", "must be GET or POST"),
        ("type", "Pigeon", "must be one of Webhook"),
        ("rate_limit", "fast", "must be 1 to 1,000 requests a second"),
    ],
)
async def test_a_mistake_stands_beside_its_field_and_nothing_is_lost(
    browser: httpx.AsyncClient, field: str, wrong: str, said: str
) -> None:
    good = {"name": "Pager", "server_url": "https://receiver.example/hook", "request_method": "GET", "rate_limit": "7"}
    form = sheet(await new_form(browser), "/new").typed(**good)
    form = sheet(await press(browser, form, do="add"), "/new").with_header("X-Key", "typed")
    answer = await press(browser, form.typed(**{field: wrong}))
    assert answer.status_code == 400
    assert mistakes(answer).keys() == {field}
    assert said in mistakes(answer)[field]
    again = sheet(answer, "/new")
    kept = {name: value for name, value in good.items() if name not in (field, "request_method")}
    assert {name: again[name] for name in kept} == kept
    assert (again.all("header_key"), again.all("header_value")) == (["X-Key"], ["typed"])


async def test_all_mistakes_are_told_at_once_each_at_its_row(browser: httpx.AsyncClient) -> None:
    form = sheet(await new_form(browser), "/new").typed(server_url="nowhere")
    form = sheet(await press(browser, form, do="add"), "/new")  # a row that stays empty
    for key, value in (("X-Key", "fine"), ("Host", "no"), ("X-Key", "ü")):
        form = sheet(await press(browser, form, do="add"), "/new").with_header(key, value)
    answer = await press(browser, form)
    assert mistakes(answer).keys() == {"name", "server_url", "request_headers[2].key", "request_headers[3].value"}
    assert sheet(answer, "/new").all("header_value") == ["", "fine", "no", "ü"]


async def test_one_provider_too_many_is_told_and_nothing_is_lost(browser: httpx.AsyncClient) -> None:
    group = await add_group(browser)
    for name in ("a", "b", "c"):
        await add_provider(browser, group, name=name)
    form = sheet(await provider_form(browser, group), "/new").typed(name="d", server_url="https://receiver.example/")
    answer = await press(browser, form)
    assert answer.status_code == 409
    assert "as many providers as it may have: 3" in text_of(answer)
    assert sheet(answer, "/new")["name"] == "d"


async def test_after_saving_values_are_dots_and_leaving_them_keeps_the_values(
    browser: httpx.AsyncClient, receiver: RawReceiver
) -> None:
    made = await add_provider(
        browser, await add_group(browser), receiver.url(), ("Authorization", BEARER), ("X-Two", "2")
    )
    page = await edit_form(browser, made)
    form = sheet(page, "/edit")
    assert form.all("header_value") == [MASK, MASK]
    assert BEARER not in page.text
    form = form.typed(name="Renamed")
    saved = await follow(browser, await press(browser, form))
    assert "Saved." in text_of(saved)
    assert "<h1>Renamed</h1>" in saved.text
    await press(browser, sheet(saved, "/test"))
    (sent,) = received(receiver)
    assert (sent.all("authorization"), sent.all("x-two")) == ([BEARER], ["2"])


async def test_one_value_is_changed_and_the_others_stay(browser: httpx.AsyncClient, receiver: RawReceiver) -> None:
    made = await add_provider(
        browser, await add_group(browser), receiver.url(), ("Authorization", BEARER), ("X-Two", "2")
    )
    form = sheet(await edit_form(browser, made), "/edit").with_header("X-Two", "new")
    saved = await follow(browser, await press(browser, form))
    await press(browser, sheet(saved, "/test"))
    (sent,) = received(receiver)
    assert (sent.all("authorization"), sent.all("x-two")) == ([BEARER], ["new"])


async def test_dots_are_refused_where_it_is_not_clear_what_they_stand_for(browser: httpx.AsyncClient) -> None:
    made = await add_provider(
        browser, await add_group(browser), "https://receiver.example/", ("X-Key", "one"), ("X-Key", "two")
    )
    form = sheet(await edit_form(browser, made), "/edit")
    answer = await press(browser, sheet(await press(browser, form, do="remove-0"), "/edit"))
    assert answer.status_code == 400
    assert mistakes(answer) == {"request_headers[0].value": MOVED}


async def test_stored_values_do_not_go_to_another_host(browser: httpx.AsyncClient, receiver: RawReceiver) -> None:
    made = await add_provider(browser, await add_group(browser), "https://receiver.example/", ("Authorization", BEARER))
    page = await edit_form(browser, made)
    form = sheet(page, "/edit").typed(server_url=receiver.url())
    for answer in (await press(browser, form), await try_out(browser, page, server_url=receiver.url())):
        assert answer.status_code == 400
        assert mistakes(answer) == {"request_headers[0].value": ENTERED_AGAIN}
    assert receiver.requests == []


async def test_a_duplicate_has_everything_but_the_secrets(browser: httpx.AsyncClient) -> None:
    group = await add_group(browser)
    made = await add_provider(browser, group, "https://receiver.example/x", ("Authorization", BEARER), method="GET")
    page = await browser.get(f"{address(group)}/providers/new?copy_of={address(made).rpartition('/')[2]}")
    form = sheet(page, "/new")
    assert (form["name"], form["server_url"], form["request_method"]) == (
        "Pager (copy)",
        "https://receiver.example/x",
        "GET",
    )
    assert (form.all("header_key"), form.all("header_value")) == (["Authorization"], [""])
    assert "provider_id" not in [name for name, _ in form.pairs]
    assert "Must be entered again." in text_of(page)
    refused = await press(browser, form)
    assert mistakes(refused) == {"request_headers[0].value": TYPED_AGAIN}
    await follow(browser, await press(browser, sheet(await press(browser, form, do="remove-0"), "/new")))


# Send test


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_a_test_works_before_anything_is_saved(
    browser: httpx.AsyncClient, receiver: RawReceiver, method: str
) -> None:
    form = sheet(await new_form(browser), "/new").typed(server_url=receiver.url("/hook?a=b"), request_method=method)
    page = await press(browser, form, do="add")
    form = sheet(page, "/new").with_header("Authorization", BEARER)
    answer = await press(browser, form, to=page.text.partition('formaction="')[2].partition('"')[0])
    assert answer.status_code == 200
    said = text_of(answer)
    assert "It works: the receiver took the request." in said
    assert "200 OK" in said
    assert all(
        word in said for word in ("Connect", "First byte", "In all", "Response headers", "content-length: 2", "ok")
    )
    (sent,) = received(receiver)
    assert (sent.method, sent.all("authorization"), sent.all("webhook-test")) == (method, [BEARER], ["true"])
    assert sheet(answer, "/new").all("header_value") == [BEARER]


async def test_a_test_uses_unsaved_edits_and_stored_secrets(browser: httpx.AsyncClient, receiver: RawReceiver) -> None:
    made = await add_provider(browser, await add_group(browser), receiver.url("/old"), ("Authorization", BEARER))
    answer = await try_out(browser, await edit_form(browser, made), server_url=receiver.url("/new"))
    assert "200 OK" in text_of(answer)
    assert BEARER not in answer.text
    assert sheet(answer, "/edit").all("header_value") == [MASK]
    (sent,) = received(receiver)
    assert (sent.target, sent.all("authorization")) == ("/new", [BEARER])
    assert "/old" in text_of(await browser.get(address(made)))


async def test_a_test_tells_what_the_receiver_did_not_like(browser: httpx.AsyncClient) -> None:
    async with RawReceiver(response(401, "Server: strict", body=b"<b>who are you?</b>")) as strict:
        answer = await try_out(browser, await new_form(browser), server_url=strict.url())
    said = text_of(answer)
    assert "The receiver answered 401 Unauthorized: it wants to know who is calling." in said
    assert "Check the request headers of the provider, such as Authorization." in said
    assert "server: strict" in said
    assert "&lt;b&gt;who are you?&lt;/b&gt;" in answer.text


@pytest.mark.parametrize(
    ("url", "reason", "advice"),
    [
        ("http://127.0.0.2:9/", "The receiver's address is not allowed.", "BILLHOOK_OUTBOUND_ALLOW"),
        ("http://10.0.0.1/", "The receiver's address is not allowed.", "Use a public address"),
        ("http://127.0.0.1:9/", "The receiver refused the connection.", "Nothing listens there."),
    ],
)
async def test_a_test_that_reaches_nobody_says_why_and_what_to_do(
    browser: httpx.AsyncClient, url: str, reason: str, advice: str
) -> None:
    answer = await try_out(browser, await new_form(browser), server_url=url)
    assert answer.status_code == 200
    assert reason in text_of(answer)
    assert advice in text_of(answer)


async def test_a_test_of_what_is_not_valid_is_not_sent_and_says_where(browser: httpx.AsyncClient) -> None:
    page = await new_form(browser)
    answer = await try_out(browser, page, server_url="nowhere")
    assert answer.status_code == 400
    assert mistakes(answer).keys() == {"server_url"}
    assert "Nothing was sent: please look at what is marked above." in text_of(answer)


async def test_to_the_script_mistakes_are_an_answer_like_any_other(browser: httpx.AsyncClient) -> None:
    """A browser would report anything else as an error of the page."""
    browser.headers["X-Fragment"] = "test-result"
    answer = await try_out(browser, await new_form(browser), server_url="nowhere")
    assert answer.status_code == 200
    assert mistakes(answer).keys() == {"server_url"}


async def test_too_many_tests_at_once_are_told(browser: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "MOST_AT_ONCE", 0)
    answer = await try_out(browser, await new_form(browser), server_url="https://receiver.example/")
    assert answer.status_code == RateLimited.status
    assert "Nothing was sent: too many tests at once." in text_of(answer)


# Preview


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_the_preview_is_what_is_sent(
    browser: httpx.AsyncClient, receiver: RawReceiver, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    """Byte for byte, but for what each request has of its own."""
    monkeypatch.setattr("billhook.console.trying.MESSAGE", SAMPLE)
    form = sheet(await new_form(browser), "/new").typed(server_url=receiver.url("/ü?a=%20"), request_method=method)
    page = await press(browser, form, do="add")
    form = sheet(page, "/new").with_header("X-Key", "a  b")
    answer = await press(browser, form, to=page.text.partition('formaction="')[2].partition('"')[0])
    (raw,) = receiver.requests
    (sent,) = received(receiver)
    (stamp,), (signature,), (id,) = (sent.all(f"webhook-{name}") for name in ("timestamp", "signature", "id"))
    lines = raw.decode().replace("webhook-test: true\r\n", "").replace(id, WEBHOOK_ID).replace(signature, SIGNATURE)
    shown = request_of(answer)
    shown_stamp = shown.partition("webhook-timestamp: ")[2].partition("\n")[0]
    assert shown.strip() == lines.replace("\r\n", "\n").replace(stamp, shown_stamp).strip()


async def test_the_preview_comes_alone_for_the_script(browser: httpx.AsyncClient) -> None:
    page = await new_form(browser)
    where = page.text.partition('data-preview="')[2].partition('"')[0]
    form = sheet(page, "/new").typed(server_url="https://other.example/path", request_method="GET")
    answer = await press(browser, form, to=where)
    assert answer.status_code == 200
    assert "<html" not in answer.text
    assert request_of(answer).startswith("GET /path?title=Budget%20exceeded&content=")


async def test_the_preview_of_a_stored_provider_does_not_tell_its_values(browser: httpx.AsyncClient) -> None:
    made = await add_provider(browser, await add_group(browser), "https://receiver.example/", ("Authorization", BEARER))
    page = await edit_form(browser, made)
    where = page.text.partition('data-preview="')[2].partition('"')[0]
    for answer in (page, await press(browser, sheet(page, "/edit"), to=where)):
        assert f"Authorization: {MASK}" in request_of(answer)
        assert BEARER not in answer.text


async def test_hostile_text_is_shown_as_text_in_every_field(browser: httpx.AsyncClient) -> None:
    names = ("type", "name", "server_url", "request_method", "rate_limit")
    form = sheet(await new_form(browser), "/new").typed(**dict.fromkeys(names, HOSTILE))
    form = sheet(await press(browser, form, do="add"), "/new").with_header(HOSTILE, HOSTILE)
    for answer in (await press(browser, form), await press(browser, form, do="add")):
        assert "<script>alert" not in answer.text
        again = sheet(answer, "/new")
        assert (again["name"], again["server_url"], again["rate_limit"]) == (HOSTILE, HOSTILE, HOSTILE)
        assert (again.all("header_key")[0], again.all("header_value")[0]) == (HOSTILE, HOSTILE)


async def test_what_a_browser_never_sends_is_refused_without_harm(browser: httpx.AsyncClient) -> None:
    form = sheet(await new_form(browser), "/new")
    bare = await browser.post(form.action, data={"form_token": form["form_token"]})
    assert bare.status_code == 400
    assert mistakes(bare).keys() == {"type"}
