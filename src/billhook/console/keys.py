"""API keys: list, create, look at one, change, rotate, revoke."""

import json
from shlex import quote
from unicodedata import normalize
from urllib.parse import urlencode

from starlette.responses import Response

from billhook.auth import manage, model, store
from billhook.auth.activity import recent_requests
from billhook.auth.credentials import Refused
from billhook.auth.manage import ClientSpec
from billhook.auth.model import Client
from billhook.auth.secret import NewSecret
from billhook.console import live
from billhook.console.forms import Mistakes, wrong
from billhook.console.key_form import UNITS, Typed, read_key
from billhook.console.visit import SignedIn
from billhook.errors import BillhookError, ClientConflict, InvalidParameters
from billhook.storage.database import Transaction
from billhook.storage.ids import is_id, new_id

KEYS = "/settings/api-keys"
PREFIX = "cli"  # of their ids
PAGE = 50
MOST_REQUESTS = 50
MOST_SECRETS = 10  # the live ones are among the newest; ended ones are kept for 30 days
LOOKED_AT = 5000  # keys, for a search on one page: 20 to 40 ms where nothing matches
LONGEST_SEARCH = model.LONGEST_NAME

GRACES = {
    "now": ("Now", "whoever still has the old secret is refused at once. For a secret that somebody else may know."),
    "1h": ("In 1 hour", "for a secret that is in one place, which you change right now."),
    "24h": ("In 24 hours", "both secrets work for a day; time enough to change it everywhere."),
    "7d": ("In 7 days", "both secrets work for a week; for what is seldom started or rolled out slowly."),
}

# Why a token request was refused: in short, and what to do about it.
REFUSALS = {
    Refused.SECRET: (
        "wrong secret",
        "The client id was right, the secret was not. Compare its last four characters with those above. "
        "If it is lost, rotate. If you do not know the address, somebody is guessing.",
    ),
    Refused.ENDED: (
        "ended secret",
        "The secret was right once: it has been rotated away or ended. Put the new one where the request came from.",
    ),
    Refused.REVOKED: (
        "key revoked",
        "Somebody still uses this key. Create a new one for them, or let them stop asking.",
    ),
    Refused.ADDRESS: (
        "address not allowed",
        "The secret was right, but the address is in none of the allowed networks. If it is one of yours, add its "
        "network. If not, rotate at once: somebody else has the secret.",
    ),
}


async def list_keys(visit: SignedIn) -> Response:
    search, after = _search(visit), visit.request.query_params.get("after", "")
    after = after if is_id(after) else ""
    async with visit.console.db.reading() as tx:
        end = await _end_of_search(tx, visit, search, after)
        found = await store.list_clients(
            tx, visit.organization_id, after=after or None, limit=PAGE + 1, search=search, down_to=end
        )
    last = found[PAGE - 1].id if len(found) > PAGE else end
    return visit.render(
        "keys.html",
        keys=found[:PAGE],
        search=search,
        after=after,
        older=urlencode({"q": search, "after": last}) if last else "",
        looked_at=LOOKED_AT if end and last == end else 0,
        longest=LONGEST_SEARCH,
    )


async def _end_of_search(tx: Transaction, visit: SignedIn, search: str, after: str) -> str | None:
    """The last key that is looked at, where there are more; a whole id is not looked for, but looked up."""
    is_looked_for = search and not is_id(search.lower())
    return await store.last_of(tx, visit.organization_id, LOOKED_AT, after=after or None) if is_looked_for else None


def _search(visit: SignedIn) -> str:
    """What can stand in a name, and not more of it."""
    given = visit.request.query_params.get("q", "")
    return "".join(character for character in given[:LONGEST_SEARCH] if character.isprintable()).strip()


async def show_new(visit: SignedIn) -> Response:
    return _new(visit, Typed(), Mistakes())


def _new(visit: SignedIn, typed: Typed, mistakes: Mistakes, *, status: int = 200) -> Response:
    return visit.render(
        "keys_new.html",
        status=status,
        id=new_id(PREFIX),
        typed=typed,
        mistakes=mistakes,
        scopes=model.SCOPES,
        units=UNITS,
    )


async def create(visit: SignedIn) -> Response:
    """The form knows the id of the key to be, so that it makes one key however often it is sent."""
    console, id = visit.console, _id_to_be(visit)
    try:
        spec = ClientSpec(**read_key(visit.form))
        async with console.db.transaction() as tx:
            client, secret = await manage.create(
                tx,
                console.vault,
                spec,
                organization_id=visit.organization_id,
                author=visit.author,
                now=visit.now,
                id=id,
            )
    except InvalidParameters as error:
        return _new(visit, Typed.of_form(visit.form), Mistakes(error), status=error.status)
    except ClientConflict:
        return visit.go(f"{KEYS}/{id}", done="key-created-before")
    await console.auth.registry.refresh()
    return _show_secret(visit, client, secret, is_new=True)


def _id_to_be(visit: SignedIn) -> str:
    given = visit.form["id"]
    return given if is_id(given) and given.startswith(PREFIX) else new_id(PREFIX)


async def show_key(visit: SignedIn) -> Response:
    return await _key(visit)


async def change(visit: SignedIn) -> Response:
    try:
        wanted = read_key(visit.form)
        async with visit.console.db.transaction() as tx:
            client = await manage.get(tx, _client_id(visit), author=visit.author)
            changes = {field: value for field, value in wanted.items() if value != getattr(client, field)}
            if changes:
                await manage.change(tx, client.id, changes, author=visit.author, now=visit.now)
    except (InvalidParameters, ClientConflict) as error:
        return await _key(visit, error, typed=Typed.of_form(visit.form))
    return await _back(visit, done="saved")


async def rotate(visit: SignedIn) -> Response:
    console = visit.console
    try:
        grace, newest = model.parse_grace(visit.form["grace"]), visit.form["newest"]
        async with console.db.transaction() as tx:
            client, secret = await manage.rotate(
                tx, console.vault, _client_id(visit), grace=grace, author=visit.author, now=visit.now, follows=newest
            )
    except (InvalidParameters, ClientConflict) as error:
        return await _key(visit, error)
    await console.auth.registry.refresh()
    return _show_secret(visit, client, secret, is_new=False)


async def revoke(visit: SignedIn) -> Response:
    """Only when the name was typed: this cannot be undone."""
    try:
        async with visit.console.db.transaction() as tx:
            client = await manage.get(tx, _client_id(visit), author=visit.author)
            if _as_seen(visit.form["typed_name"]) != _as_seen(client.name):
                raise wrong("typed_name", "is not the name of this key")
            await manage.revoke(tx, client.id, author=visit.author, now=visit.now)
    except InvalidParameters as error:
        return await _key(visit, error)
    return await _back(visit, done="revoked")


def _as_seen(name: str) -> str:
    """Names that look the same on the page are the same: it shows many spaces as one."""
    return " ".join(normalize("NFC", name).split())


async def revoke_tokens(visit: SignedIn) -> Response:
    try:
        async with visit.console.db.transaction() as tx:
            await manage.revoke_tokens(tx, _client_id(visit), author=visit.author, now=visit.now)
    except ClientConflict as error:
        return await _key(visit, error)
    return await _back(visit, done="tokens-revoked")


async def revoke_secret(visit: SignedIn) -> Response:
    secret_id = str(visit.request.path_params["secret_id"])
    try:
        async with visit.console.db.transaction() as tx:
            await manage.revoke_secret(tx, _client_id(visit), secret_id, author=visit.author, now=visit.now)
    except ClientConflict as error:
        return await _key(visit, error)
    return await _back(visit, done="secret-revoked")


async def _back(visit: SignedIn, *, done: str) -> Response:
    """To the page of the key, once this process goes by the change."""
    await visit.console.auth.registry.refresh()
    return visit.go(f"{KEYS}/{_client_id(visit)}", done=done)


async def _key(visit: SignedIn, error: BillhookError | None = None, *, typed: Typed | None = None) -> Response:
    """The page of one key. `typed`: the form that changes it is open, with what was typed there."""
    async with visit.console.db.reading() as tx:
        client = await manage.get(tx, _client_id(visit), author=visit.author)
        requests = await recent_requests(tx, client.id, limit=MOST_REQUESTS)
    version = live.version_of(client.state, *requests)
    if live.is_unchanged(visit, version):
        return live.not_modified(visit, version)
    working = [secret for secret in client.secrets if secret.is_live(visit.now)]
    outcomes = {each.outcome for each in requests}
    return live.render(
        visit,
        "keys_one",
        version,
        status=error.status if error else 200,
        key=client,
        secrets=client.secrets[: -MOST_SECRETS - 1 : -1],
        live=working,
        is_ending=all(secret.ends_at for secret in working),
        requests=requests,
        refusals={reason: words for reason, words in REFUSALS.items() if reason in outcomes},
        curl=_curl(visit, client.id, "…"),
        is_changing=typed is not None,
        typed=typed or Typed.of_client(client),
        form=visit.form,
        mistakes=Mistakes(error),
        scopes=model.SCOPES,
        units=UNITS,
        graces=GRACES,
    )


def _show_secret(visit: SignedIn, client: Client, secret: NewSecret, *, is_new: bool) -> Response:
    """In the answer itself and nowhere else: no address leads to it, and nothing keeps it."""
    others = [each for each in client.secrets if each.id != secret.id and each.is_live(visit.now)]
    curl = _curl(visit, client.id, secret.text)
    return visit.render("keys_secret.html", key=client, secret=secret.text, curl=curl, is_new=is_new, others=others)


def _curl(visit: SignedIn, client_id: str, secret: str) -> str:
    body = json.dumps({"client_id": client_id, "client_secret": secret}, separators=(",", ":"), ensure_ascii=False)
    url = quote(f"{visit.console.settings.base_url}/auth")
    return f"curl -X POST {url} -H 'Content-Type: application/json' -d {quote(body)}"


def _client_id(visit: SignedIn) -> str:
    return str(visit.request.path_params["client_id"])
