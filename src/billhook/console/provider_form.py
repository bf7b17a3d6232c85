"""The provider form: add, edit and duplicate; see and try what it would send, before anybody saves it."""

from dataclasses import dataclass

from starlette.responses import Response

from billhook.console.draft import Draft
from billhook.console.forms import Mistakes
from billhook.console.live import is_part
from billhook.console.places import find_group, find_provider, now_ms, provider_id, provider_path
from billhook.console.preview import preview_of_draft
from billhook.console.trying import try_provider
from billhook.console.visit import SignedIn
from billhook.delivery import trial
from billhook.delivery.views import AttemptView
from billhook.errors import BillhookError, InvalidParameters, ProviderConflict, RateLimited
from billhook.groups import manage
from billhook.groups.model import Group, Provider
from billhook.providers.kinds import Config
from billhook.providers.registry import TYPES

REMOVE = "remove-"


@dataclass(frozen=True)
class Desk:
    """What the form is about."""

    group: Group
    provider: Provider | None = None  # None: a new one

    @property
    def stored(self) -> Config | None:
        return self.provider.config if self.provider else None


async def show_new(visit: SignedIn) -> Response:
    original = visit.request.query_params.get("copy_of")
    async with visit.console.db.reading() as tx:
        group = await find_group(tx, visit)
        draft = Draft.of(await find_provider(tx, visit, original)).copied() if original else Draft()
    return _form(visit, Desk(group), draft)


async def show_edit(visit: SignedIn) -> Response:
    desk = await _desk(visit, provider_id(visit))
    assert desk.provider is not None
    return _form(visit, desk, Draft.of(desk.provider))


async def create(visit: SignedIn) -> Response:
    desk, draft = await _desk(visit), Draft.typed(visit.form)
    if visit.form["do"]:
        return _form(visit, desk, _with_other_rows(visit, draft))
    console, most = visit.console, visit.console.settings.max_providers
    try:
        async with console.db.transaction() as tx:
            made, _ = await manage.create_provider(
                tx, console.vault, desk.group.id, draft.spec(), most=most, author=visit.author, now=visit.now
            )
    except (InvalidParameters, ProviderConflict) as error:
        return _again(visit, desk, draft, error)
    return visit.go(provider_path(desk.group.id, made.id), done="provider-created")


async def save(visit: SignedIn) -> Response:
    desk, draft = await _desk(visit, provider_id(visit)), Draft.typed(visit.form)
    if visit.form["do"]:
        return _form(visit, desk, _with_other_rows(visit, draft))
    group, id, vault = desk.group.id, provider_id(visit), visit.console.vault
    try:
        async with visit.console.db.transaction() as tx:
            await manage.change_provider(tx, vault, group, id, draft.changes(), author=visit.author, now=visit.now)
    except InvalidParameters as error:
        return _again(visit, desk, draft, error)
    return visit.go(provider_path(group, id), done="saved")


async def show_preview(visit: SignedIn) -> Response:
    """Only that, to be put into the page while somebody types."""
    desk, draft = await _desk(visit, visit.form["provider_id"]), Draft.typed(visit.form)
    return visit.render("preview.html", preview=preview_of_draft(draft, desk.stored, now_ms=now_ms(visit)))


async def try_out(visit: SignedIn) -> Response:
    """What is typed now, saved or not; dots stand for what is stored."""
    desk, draft = await _desk(visit, visit.form["provider_id"]), Draft.typed(visit.form)
    try:
        attempt = await try_provider(visit, _candidate(visit, desk, draft))
    except (InvalidParameters, RateLimited) as error:
        return _again(visit, desk, draft, error, is_test=True)
    return _form(visit, desk, draft, attempt=attempt)


def _candidate(visit: SignedIn, desk: Desk, draft: Draft) -> Provider:
    if desk.provider is not None:
        return trial.with_changes(desk.provider, draft.changes())
    owner = desk.group.organization_id
    return trial.unsaved(draft.spec(), organization_id=owner, group_id=desk.group.id, now=visit.now)


async def _desk(visit: SignedIn, provider_id: str = "") -> Desk:
    async with visit.console.db.reading() as tx:
        group = await find_group(tx, visit)
        return Desk(group, await find_provider(tx, visit, provider_id) if provider_id else None)


def _with_other_rows(visit: SignedIn, draft: Draft) -> Draft:
    """What "Add header" and "Remove" ask for where no script does it."""
    asked = visit.form["do"]
    return draft.without_row(asked.removeprefix(REMOVE)) if asked.startswith(REMOVE) else draft.with_row()


def _again(visit: SignedIn, desk: Desk, draft: Draft, error: BillhookError, *, is_test: bool = False) -> Response:
    """With what is wrong beside its field. To the script, which shows it in place, this is an answer like any other."""
    placed = draft.at_its_rows(error) if isinstance(error, InvalidParameters) else error
    status = 200 if is_part(visit) else error.status
    return _form(visit, desk, draft, mistakes=Mistakes(placed), status=status, is_test=is_test)


def _form(
    visit: SignedIn,
    desk: Desk,
    draft: Draft,
    *,
    mistakes: Mistakes = Mistakes(),  # noqa: B008 - nobody changes it
    attempt: AttemptView | None = None,
    is_test: bool = False,
    status: int = 200,
) -> Response:
    return visit.render(
        "provider_form.html",
        status=status,
        group=desk.group,
        provider=desk.provider,
        draft=draft,
        types=[desk.provider.type] if desk.provider else list(TYPES),
        preview=preview_of_draft(draft, desk.stored, now_ms=now_ms(visit)),
        attempt=attempt,
        is_test=is_test,
        mistakes=mistakes,
    )
