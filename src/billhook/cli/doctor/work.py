"""Work that does not get done: groups that reach nobody, providers that take nothing, deliveries that nobody takes."""

from datetime import timedelta

from billhook.cli.doctor.finding import Finding, named, notice, problem, several, spoken, well
from billhook.delivery import stuck
from billhook.delivery.stuck import Queue
from billhook.groups.model import ProviderState
from billhook.storage.database import Database

MOST = stuck.SHOWN - 1
UNTAKEN_MS = 60_000  # a worker that runs takes what is due within a second
BEHIND_MS = 5 * 60_000
LONG_RECOVERY = timedelta(hours=1)
START = "Start one: `billhook worker`, or `billhook serve`, which has a worker in it."


async def groups(db: Database) -> Finding:
    async with db.reading() as tx:
        unheard = await stuck.unheard_groups(tx)
    if not unheard:
        return well("groups", "each has somebody to reach")
    count = several(len(unheard), "group reaches", "groups reach", most=MOST)
    names = named([f"{row.id} ({row.name})" for row in unheard])
    bare = next((row for row in unheard if not row.has_providers), None)
    if bare is not None:
        fix = f"Give it a provider: `billhook provider add {bare.id} --name NAME --url URL`, or delete the group."
    else:
        fix = f"See `billhook provider list {unheard[0].id}`, and `billhook provider resume PROVIDER_ID`."
    return notice("groups", f"{count} nobody: {names}", fix=fix)


async def providers(db: Database) -> Finding:
    async with db.reading() as tx:
        ailing = await stuck.ailing_providers(tx)
    if not ailing:
        return well("providers", "none is disabled, and to none too much has failed")
    worst = ailing[0]
    names = named([f"{row.id} ({row.name})" for row in ailing])
    if worst.state == ProviderState.DISABLED:
        count = several(len(ailing), "is disabled or failing", "are disabled or failing", most=MOST)
        fix = f"Try it with `billhook provider test {worst.id}`, and then `billhook provider resume {worst.id}`."
    else:
        count = several(len(ailing), "fails so often that it rests", "fail so often that they rest", most=MOST)
        fix = f"See what its receiver says: `billhook provider test {worst.id}`."
    return notice("providers", f"{count}: {names}", fix=fix)


async def queue(db: Database) -> Finding:
    async with db.reading() as tx:
        return judge_queue(await stuck.look_at_queue(tx))


def judge_queue(found: Queue) -> Finding:
    """Only what nothing keeps from being sent counts: no breaker, no Retry-After, no rate limit."""
    waiting = spoken(found.overdue_ms / 1000)
    if found.overdue_ms >= UNTAKEN_MS and not found.under_way:
        return problem(
            "queue", f"deliveries have been due for {waiting}, and nobody takes them: no worker runs", fix=START
        )
    if found.lapsed:
        lost = several(found.lapsed, "delivery is", "deliveries are")
        return problem("queue", f"{lost} leased to a worker that is gone, and nobody takes them back", fix=START)
    if found.overdue_ms >= BEHIND_MS:
        fix = (
            "Start another `billhook worker`, or let each receiver have more at once: BILLHOOK_IN_FLIGHT_PER_PROVIDER."
        )
        return notice("queue", f"the workers are behind: the oldest delivery has been due for {waiting}", fix=fix)
    return well("queue", f"nothing waits longer than it should; {found.under_way:,} under way")


async def held_work(db: Database) -> Finding:
    async with db.reading() as tx:
        held = await stuck.held_long(tx)
    if not held:
        return well("held work", "none older than a day")
    count = several(len(held), "provider has", "providers have", most=MOST)
    names = named([f"{row.id} ({row.name}, for {spoken(row.held_ms / 1000)})" for row in held])
    fix = f"Send it: `billhook provider resume {held[0].id}`; after seven days it is given up."
    return notice("held work", f"{count} had deliveries held for more than a day: {names}", fix=fix)


async def recoveries(db: Database) -> Finding:
    async with db.reading() as tx:
        running = await stuck.long_recoveries(tx, older_than_ms=LONG_RECOVERY // timedelta(milliseconds=1))
    if not running:
        return well("recoveries", "none has been running for more than an hour")
    count = several(len(running), "has", "have", most=MOST)
    names = named([f"{row.id} ({row.recovered:,} so far)" for row in running])
    fix = "A worker does them: see that one runs, with `billhook worker` or `billhook serve`, and read its log."
    return notice("recoveries", f"{count} been running for more than an hour: {names}", fix=fix)
