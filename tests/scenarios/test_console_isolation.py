"""Tenants in the browser: every page and every form with ids of another organization is as if those did not exist."""

import re
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from itertools import product

import httpx
import pytest
from sqlalchemy import select
from starlette.routing import Route

from billhook.accounts import invitations, sessions
from billhook.accounts.audit import Actor
from billhook.accounts.installation import Installation
from billhook.accounts.users import Role, User
from billhook.app import App
from billhook.auth.context import Auth
from billhook.console import routes
from billhook.storage.types import metadata
from tests.console.support import add_user, form_token, signed_in
from tests.groups.setting import NOW
from tests.scenarios.test_isolation import Tenant, furnish, unlike
from tests.support import another_organization, register
from tests.tally import tally

NAME = "tenants, console"
WEBHOOK = {"type": "Webhook", "name": "two", "server_url": "http://127.0.0.1:9/", "request_method": "POST"}


@dataclass(frozen=True)
class Household:
    """An organization with one of everything, and somebody who has signed in to it."""

    tenant: Tenant
    person: User
    other: User
    ids: dict[str, str]
    browser: httpx.AsyncClient
    token: str

    @property
    def marks(self) -> list[str]:
        """What must never be seen by another."""
        own = [self.person.id, self.person.email, self.other.id, self.other.email, self.ids["session_id"]]
        return [*self.tenant.marks, *own, self.ids["invitation_id"], "guest@" + self.tenant.organization_id]


async def household(
    http: httpx.AsyncClient, app: App, installation: Installation, tenant: Tenant
) -> AsyncIterator[Household]:
    owner = tenant.organization_id
    person, other = [
        await add_user(installation, email=f"{name}@{owner}", organization_id=owner) for name in ("one", "two")
    ]
    async with installation.db.transaction() as tx:
        invited, _ = await invitations.invite(
            tx, owner, email=f"guest@{owner}", role=Role.VIEWER, actor=Actor("cli:test", owner), now=NOW
        )
        await sessions.begin(tx, person, address="192.0.2.1", agent="elsewhere", now=NOW)
        theirs = await sessions.list_sessions(tx, person.id, now=NOW)
    ids = {
        **tenant.sent,
        "client_id": str(tenant.client["client_id"]),
        "secret_id": str(tenant.client["secrets"][0]["id"]),
        "user_id": other.id,
        "session_id": theirs[0].id,
        "invitation_id": invited.id,
    }
    async with signed_in(app, installation, person) as browser:
        yield Household(tenant, person, other, ids, browser, await form_token(browser, "/console/settings/profile"))


@pytest.fixture
async def ours(http: httpx.AsyncClient, app: App, installation: Installation, auth: Auth) -> AsyncIterator[Household]:
    tenant = await furnish(http, auth, await register(installation))
    async for made in household(http, app, installation, tenant):
        yield made


@pytest.fixture
async def theirs(http: httpx.AsyncClient, app: App, installation: Installation, auth: Auth) -> AsyncIterator[Household]:
    elsewhere = await another_organization(installation)
    tenant = await furnish(http, auth, await register(installation, organization_id=elsewhere))
    async for made in household(http, app, installation, tenant):
        yield made


@dataclass(frozen=True)
class Visit:
    """A route with the places where ids go: its path, its query, its form."""

    method: str
    path: str
    query: dict[str, str] = field(default_factory=dict)
    form: dict[str, str] = field(default_factory=dict)

    @property
    def places(self) -> list[str]:
        return re.findall(r"\{(\w+)", " ".join([self.path, *self.query.values(), *self.form.values()]))

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


# What the forms hold besides ids, so that what is asked could be done; a form that is not here is sent empty.
FORMS: dict[str, dict[str, str]] = {
    "/role": {"role": "viewer"},
    "/change": {"name": "one", "scope": "clients:read", "lifespan": "1", "unit": "h"},
    "/rotate": {"grace": "now"},
    "/revoke": {"typed_name": "one"},
    "/rename": {"name": "renamed"},
    "/send": {"title": "one", "content": "two"},
    "/send/preview": {"title": "one", "content": "two"},
    "/providers/new": WEBHOOK,
    "/providers/preview": WEBHOOK,
    "/providers/test": WEBHOOK,
    "/edit": WEBHOOK,
    "/settings/users/invite": {"email": "new@example.com", "role": "viewer"},
}
NO_IDS = {"token", "name", "path"}  # one-time secrets, files and nothing at all
GROUP, PROVIDER, KEYS = routes.GROUP, routes.PROVIDER, "/settings/api-keys"
BESIDES = [
    *(Visit("GET", "/deliveries", {name: f"{{{name}}}"}) for name in ("group_id", "provider_id", "notification_id")),
    Visit("GET", "/deliveries", {"cursor": "{delivery_id}"}),
    Visit("GET", "/deliveries", {"provider_id": "{provider_id}", "group_id": "{group_id}", "span": "7d"}),
    Visit("GET", "/deliveries/recover", {"provider_id": "{provider_id}"}),
    Visit("POST", "/deliveries/recover", form={"provider_id": "{provider_id}", "period": "24h"}),
    Visit("GET", f"{GROUP}/providers/new", {"copy_of": "{provider_id}"}),
    Visit("POST", f"{GROUP}/providers/preview", form=WEBHOOK | {"provider_id": "{provider_id}"}),
    Visit("POST", f"{GROUP}/providers/test", form=WEBHOOK | {"provider_id": "{provider_id}"}),
    Visit("GET", KEYS, {"after": "{client_id}"}),
    Visit("GET", routes.NOTIFICATIONS, {"after": "{group_id}"}),
    Visit("GET", GROUP, {"after": "{provider_id}"}),
    Visit("POST", f"{KEYS}/{{client_id}}/rotate", form={"grace": "now", "newest": "{secret_id}"}),
]


def visits() -> Iterator[Visit]:
    """Every page and every form of the console that names something, and the ways to name it besides."""
    for route in routes.ROUTES:
        assert isinstance(route, Route)
        for method in sorted((route.methods or set()) - {"HEAD"}):
            visit = Visit(method, route.path, form=form_for(method, route.path))
            if not NO_IDS & set(visit.places):
                yield visit
    yield from BESIDES


def form_for(method: str, path: str) -> dict[str, str]:
    fitting = [ending for ending in FORMS if path.endswith(ending)]
    return FORMS[max(fitting, key=len)] if method == "POST" and fitting else {}


WITH_IDS = [visit for visit in visits() if visit.places]


async def ask(household: Household, visit: Visit, ids: dict[str, str], part: str = "") -> tuple[int, str, str]:
    """Status, where it leads to and what it shows; but not the ids that were asked for, nor what is made by dice."""
    sent = {name: text.format_map(ids) for name, text in visit.form.items()} | {"form_token": household.token}
    answer = await household.browser.request(
        visit.method,
        "/console" + visit.path.format_map(ids),
        params={name: text.format_map(ids) for name, text in visit.query.items()},
        data=sent if visit.method == "POST" else None,
        headers={"X-Fragment": part} if part else {},
    )
    tally.answered(NAME, str(visit), answer.status_code)
    assert answer.status_code < 500, (str(visit), answer.text)
    shown = [answer.headers.get("location", ""), answer.text]
    for place in visit.places:
        shown = [text.replace(ids[place], place) for text in shown]
    return answer.status_code, shown[0], DICE.sub("", shown[1])


DICE = re.compile(r'name="key" value="[^"]*"|data-etag="[^"]*"|name="id" value="[^"]*"|[0-9]{10,13}')


def mixtures(visit: Visit, ours: Household, theirs: Household) -> Iterator[tuple[dict[str, str], dict[str, str]]]:
    """Ids with at least one of the other's among them; and the same with ids in its place that do not exist."""
    places = list(dict.fromkeys(visit.places))
    for whose in product((ours, theirs), repeat=len(places)):
        if theirs in whose:
            named = list(zip(places, whose, strict=True))
            foreign = {name: owner.ids[name] for name, owner in named}
            yield foreign, {name: unlike(foreign[name]) if owner is theirs else foreign[name] for name, owner in named}


async def test_every_page_and_form_takes_anothers_id_for_one_that_does_not_exist(
    installation: Installation, ours: Household, theirs: Household
) -> None:
    before = await rows_of(installation, theirs)
    for visit in WITH_IDS:
        for foreign, absent in mixtures(visit, ours, theirs):
            for part in ("", "main") if visit.method == "GET" else ("",):
                seen = await ask(ours, visit, foreign, part)
                unseen = await ask(ours, visit, absent, part)
                told = [mark for mark in theirs.marks if mark in seen[1] + seen[2]]
                if told or seen != unseen:
                    tally.leaked(NAME)
                assert seen == unseen, (str(visit), foreign)
                assert not told, (str(visit), told)
    assert await rows_of(installation, theirs) == before


async def rows_of(installation: Installation, household: Household) -> dict[str, list[str]]:
    """Every row of every table that has to do with them, but for what is tallied of tokens, which comes later."""
    found = {}
    async with installation.db.reading() as tx:
        for name, table in metadata.tables.items():
            columns = [column for column in table.c if not column.name.startswith("last_used")]
            rows = [repr(tuple(row)) for row in await tx.execute(select(*columns))]
            found[name] = sorted(row for row in rows if any(mark in row for mark in household.marks))
    return {name: rows for name, rows in found.items() if name != "token_requests"}


async def test_what_was_compared_is_everything(installation: Installation, theirs: Household) -> None:
    """Else nothing would be found changed because nothing was looked at."""
    found = await rows_of(installation, theirs)
    tables = ["users", "sessions", "invitations", "clients", "client_secrets", "groups", "providers", "deliveries"]
    assert all(found[name] for name in tables), {name: len(rows) for name, rows in found.items()}


LATE = ["/rotate", "/revoke", "/remove", "/delete"]  # what ends something comes after what needs it


def rank(path: str) -> int:
    return next((place for place, ending in enumerate(LATE, 1) if path.endswith(ending) and "secret_id" not in path), 0)


async def test_the_same_on_ones_own_ids_is_understood(ours: Household) -> None:
    """Else the pages above would be alike for the wrong reason."""
    in_turn = sorted(WITH_IDS, key=lambda each: (each.method, rank(each.path), -len(each.path)))
    for visit in in_turn:
        status, location, shown = await ask(ours, visit, ours.ids)
        assert status in (200, 303, 409), (str(visit), status, shown)


async def test_no_page_without_an_id_shows_what_belongs_to_another(ours: Household, theirs: Household) -> None:
    pages = [visit for visit in visits() if not visit.places and visit.method == "GET"]
    assert len(pages) > 5
    for visit in pages:
        _, location, shown = await ask(ours, visit, {})
        told = [mark for mark in theirs.marks if mark in location + shown]
        tally.leaked(NAME) if told else None
        assert not told, str(visit)


async def test_a_key_cannot_be_made_over_one_of_another_organization(
    installation: Installation, ours: Household, theirs: Household
) -> None:
    """The form says which id the key is to have, so that it makes one however often it is sent."""
    before = await rows_of(installation, theirs)
    form = FORMS["/change"] | {"id": "{client_id}", "name": "mine"}
    seen = await ask(ours, Visit("POST", f"{KEYS}/new", form=form), theirs.ids)
    unseen = await ask(ours, Visit("POST", f"{KEYS}/new", form=form), {"client_id": unlike(theirs.ids["client_id"])})
    assert seen[:2] == unseen[:2] == (200, "")
    assert await rows_of(installation, theirs) == before
