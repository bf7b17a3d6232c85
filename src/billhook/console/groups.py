"""Notification groups and what is in them: where the settings of notifications begin."""

from starlette.responses import Response

from billhook.console.forms import Form, Mistakes, wrong
from billhook.console.lines import Line, lines_of
from billhook.console.places import NOTIFICATIONS, after, find_group, group_id, group_path
from billhook.console.visit import SignedIn
from billhook.delivery import control, holding
from billhook.errors import GroupConflict, InvalidParameters
from billhook.groups import manage, store

GROUPS_A_PAGE = 10
MEMBERS_SHOWN = 5  # of each group; its own page shows them all
PROVIDERS_A_PAGE = 50


async def show_groups(visit: SignedIn) -> Response:
    return await _overview(visit, Mistakes())


async def _overview(visit: SignedIn, mistakes: Mistakes, *, status: int = 200) -> Response:
    async with visit.console.db.reading() as tx:
        found = await store.list_groups(tx, visit.organization_id, after=after(visit), limit=GROUPS_A_PAGE + 1)
        page = found[:GROUPS_A_PAGE]
        members = await store.list_members(tx, [group.id for group in page], most=MEMBERS_SHOWN)
        lines = await lines_of(tx, visit, [row for rows in members.values() for row in rows])
    of_group: dict[str, list[Line]] = {group.id: [] for group in page}
    for line in lines:
        of_group[line.provider.group_id].append(line)
    return visit.render(
        "groups.html",
        status=status,
        groups=page,
        lines=of_group,
        totals={id: rows[0].total if rows else 0 for id, rows in members.items()},
        after=page[-1].id if len(found) > GROUPS_A_PAGE else None,
        form=visit.form if mistakes else Form(),
        mistakes=mistakes,
    )


async def create_group(visit: SignedIn) -> Response:
    most = visit.console.settings.max_groups
    try:
        async with visit.console.db.transaction() as tx:
            group = await manage.create_group(
                tx,
                visit.form["name"],
                organization_id=visit.organization_id,
                most=most,
                author=visit.author,
                now=visit.now,
            )
    except (InvalidParameters, GroupConflict) as error:
        return await _overview(visit, _at_name(error), status=error.status)
    return visit.go(group_path(group.id), done="group-created")


async def show_group(visit: SignedIn) -> Response:
    return await _group(visit, Mistakes())


async def _group(visit: SignedIn, mistakes: Mistakes, *, status: int = 200) -> Response:
    async with visit.console.db.reading() as tx:
        group = await find_group(tx, visit)
        rows = await store.list_providers(
            tx, visit.organization_id, group_id=group.id, after=after(visit), limit=PROVIDERS_A_PAGE + 1
        )
        lines = await lines_of(tx, visit, rows[:PROVIDERS_A_PAGE])
    return visit.render(
        "group.html",
        status=status,
        group=group,
        lines=lines,
        after=lines[-1].provider.id if len(rows) > PROVIDERS_A_PAGE else None,
        name=visit.form["name"] if mistakes else group.name,
        mistakes=mistakes,
    )


async def rename_group(visit: SignedIn) -> Response:
    try:
        async with visit.console.db.transaction() as tx:
            await manage.rename_group(tx, group_id(visit), visit.form["name"], author=visit.author, now=visit.now)
    except (InvalidParameters, GroupConflict) as error:
        return await _group(visit, _at_name(error), status=error.status)
    return visit.go(group_path(group_id(visit)), done="renamed")


async def ask_to_delete_group(visit: SignedIn) -> Response:
    async with visit.console.db.reading() as tx:
        group = await find_group(tx, visit)
        count = await store.count_providers(tx, group.id)
        queued = await holding.count_queued(tx, group_id=group.id)
    return visit.render("group_delete.html", group=group, count=count, queued=queued, most=holding.MOST_COUNTED)


async def delete_group(visit: SignedIn) -> Response:
    async with visit.console.db.transaction() as tx:
        await control.delete_group(tx, group_id(visit), author=visit.author, now=visit.now)
    return visit.go(NOTIFICATIONS, done="cancelled")


def _at_name(error: InvalidParameters | GroupConflict) -> Mistakes:
    """There is no other field that it could be about."""
    return Mistakes(wrong("name", error.message) if isinstance(error, GroupConflict) else error)
