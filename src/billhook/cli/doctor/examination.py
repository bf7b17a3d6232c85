"""The whole examination: what stands on nothing is always looked at, and the rest as far as the ground holds."""

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

from billhook.accounts.installation import Installation, open_installation
from billhook.cli.doctor import ground, keys, reach, surroundings, work
from billhook.cli.doctor.finding import Finding, State, attempt, problem
from billhook.errors import BillhookError, Unavailable
from billhook.settings import Settings
from billhook.storage.database import Database, open_database

ON_DATABASE = ("clock", "schema")
ON_SCHEMA = ("master key", "client secrets", "groups", "providers", "queue", "held work", "recoveries")
ON_MASTER_KEY = ("signing keys", "DNS", "receivers")
SCHEMA_FIX = "Run `billhook migrate`; should it say that the schema is newer, install that newer Billhook here."
AGAIN = "Run `billhook doctor` again; should it stay, look at the log of the database."


@dataclass
class Examination:
    findings: list[Finding] = field(default_factory=list)
    missed: list[str] = field(default_factory=list)  # checks that stand on something that is not well

    def add(self, *findings: Finding) -> bool:
        """Whether one can go on from there."""
        self.findings += findings
        return all(finding.state is not State.PROBLEM for finding in findings)


async def examine(settings: Settings) -> Examination:
    seen = Examination()
    async with AsyncExitStack() as stack:
        try:
            db = open_database(settings.database_location)
        except BillhookError as error:
            seen.add(problem("database", error.message, fix=ground.database_fix(settings)))
            seen.missed += [*ON_DATABASE, *ON_SCHEMA, *ON_MASTER_KEY]
        else:
            stack.push_async_callback(db.close)
            await _look_into(db, settings, seen)
    seen.add(surroundings.base_url(settings), surroundings.proxies(settings), surroundings.allowed_networks(settings))
    return seen


async def _look_into(db: Database, settings: Settings, seen: Examination) -> None:
    is_there = seen.add(await attempt("database", ground.database(db), fix=ground.database_fix(settings)))
    if db.is_sqlite:
        seen.add(ground.disk(db))
    if not is_there:
        seen.missed += [*ON_DATABASE, *ON_SCHEMA, *ON_MASTER_KEY]
        return
    seen.add(await attempt("clock", ground.clock(db), fix=AGAIN))
    if not seen.add(await attempt("schema", ground.schema(db), fix=SCHEMA_FIX)):
        seen.missed += [*ON_SCHEMA, *ON_MASTER_KEY]
        return
    async with AsyncExitStack() as stack:
        if (installation := await _unlocked(stack, settings, seen)) is None:
            seen.missed += ON_MASTER_KEY
        else:
            await _look_behind_the_key(installation, seen)
    await _look_at_work(db, seen)


async def _unlocked(stack: AsyncExitStack, settings: Settings, seen: Examination) -> Installation | None:
    try:
        installation = await stack.enter_async_context(open_installation(settings))
    except Unavailable as error:
        seen.add(problem("master key", error.detail or error.message, fix=AGAIN))
        return None
    except BillhookError as error:
        seen.add(problem("master key", error.message, fix=keys.master_key_fix(settings)))
        return None
    seen.add(await attempt("master key", keys.master_key(installation), fix=AGAIN))
    return installation


async def _look_behind_the_key(installation: Installation, seen: Examination) -> None:
    seen.add(await attempt("signing keys", keys.signing_keys(installation), fix=keys.SIGNING_FIX))
    try:
        receivers = await reach.find_receivers(installation)
    except BillhookError as error:
        seen.add(problem("receivers", error.message, fix=AGAIN))
        seen.missed.append("DNS")
        return
    probed = await reach.probe_all(receivers, installation.settings)
    seen.add(reach.dns(probed, receivers), reach.receivers(probed, receivers))


async def _look_at_work(db: Database, seen: Examination) -> None:
    looks = {
        "client secrets": keys.client_secrets,
        "groups": work.groups,
        "providers": work.providers,
        "queue": work.queue,
        "held work": work.held_work,
        "recoveries": work.recoveries,
    }
    found = await asyncio.gather(*(attempt(name, look(db), fix=AGAIN) for name, look in looks.items()))
    seen.add(*found)
