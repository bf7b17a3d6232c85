"""What the pages of the console take with a million deliveries: server time by page, as our own log has it."""

import argparse
import asyncio
import re
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from statistics import median, quantiles

import httpx

from bench import command, report
from bench.backlog import Door, make_doors
from bench.engines import Engine, Site, engine
from bench.history import fill
from bench.report import Figure, Report, at_most
from bench.servers import Failed, billhook
from billhook.accounts import sessions
from billhook.accounts.audit import Actor
from billhook.accounts.installation import open_installation
from billhook.accounts.organizations import find_organization
from billhook.accounts.passwords import hash_password
from billhook.accounts.users import Role, create_user
from billhook.settings import Settings

MOST_MS = 50
PROVIDERS = 20  # in groups of their own
WARM_UP = 3
LINE = re.compile(r'"path":"([^"]+)","status":200,"milliseconds":([0-9.]+)')
PAGES = {
    "notifications": "/console/settings/notifications",
    "group": "/console/settings/notifications/groups/{group}",
    "provider": "/console/settings/notifications/groups/{group}/providers/{provider}",
    "provider form": "/console/settings/notifications/groups/{group}/providers/{provider}/edit",
    "what deleting cancels": "/console/settings/notifications/groups/{group}/providers/{provider}/delete",
    "deliveries": "/console/deliveries",
    "delivery": "/console/deliveries/{delivery}",
    "recover": "/console/deliveries/recover",
    "API keys": "/console/settings/api-keys",
}


def measure(on: Engine, *, rows: int, times: int) -> Report:
    with on.site() as site:
        doors = make_doors(site, "http://127.0.0.1:9/hook", PROVIDERS)
        report.tell(f"{on.name}: making {rows:,} rows ...")
        fill(site, rows, finished=doors, later=doors, broken=doors[:1])
        token = asyncio.run(_sign_in(site.settings))
        with billhook(site.data_dir, settings=site.environment, options=["--no-worker"]) as server:
            paths = _visit(server.port, token, doors[0], times=times)
        taken = _taken(site, paths)
    figures = [Figure(f"{on.name}: {name}, p95", quantiles(each, n=20)[-1], "ms") for name, each in taken.items()]
    goals = [at_most(f"{on.name}: {name}, p50 in ms", median(each), MOST_MS) for name, each in taken.items()]
    return Report(figures, goals)


async def _sign_in(settings: Settings) -> str:
    """The token of a session."""
    now, actor = datetime.now(UTC), Actor("cli:bench")
    async with open_installation(settings) as installation, installation.db.transaction() as tx:
        owner = await find_organization(tx, None)
        hashed = hash_password("a password of the benchmark")
        user = await create_user(
            tx, owner.id, email="bench@example.com", password_hash=hashed, role=Role.ADMIN, actor=actor, now=now
        )
        return await sessions.begin(tx, user, address="127.0.0.1", agent="bench", now=now)


def _visit(port: int, token: str, door: Door, *, times: int) -> dict[str, str]:
    """Every page in turn, so that none has the caches for itself. Returns the pages with their ids filled in."""
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60, trust_env=False) as http:
        http.cookies.set("billhook-session", token, path="/console")
        newest = re.search(r"/console/deliveries/(dlv_\w+)", http.get("/console/deliveries").text)
        if newest is None:
            raise Failed("the list of deliveries has none")
        ids = {"group": door.group_id, "provider": door.provider_id, "delivery": newest[1]}
        paths = {name: path.format(**ids) for name, path in PAGES.items()}
        for _ in range(WARM_UP + times):
            for name, path in paths.items():
                if (status := http.get(path).status_code) != 200:
                    raise Failed(f"{name} answers {status}")
    return paths


def _taken(site: Site, paths: dict[str, str]) -> dict[str, list[float]]:
    """Milliseconds of each visit, as the access log has them."""
    lines = LINE.findall((site.data_dir / "serve.log").read_text())
    return {name: [float(ms) for at, ms in lines if at == path][WARM_UP:] for name, path in paths.items()}


def run(engines: Sequence[str], *, rows: int, times: int, as_document: bool) -> int:
    done: list[Report] = []
    for name in engines:
        with engine(name) as on:
            done.append(measure(on, rows=rows, times=times))
    return report.conclude(done, as_document=as_document)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="scripts/bench pages", description=__doc__)
    command.offer_engines(parser)
    parser.add_argument("--rows", type=int, default=1_000_000, help="deliveries (1000000)")
    parser.add_argument("--times", type=int, default=20, help="how often each page is opened (20)")
    parser.add_argument("--json", action="store_true", help="print one JSON document instead of a table")
    given = parser.parse_args(arguments)
    engines = command.engines_of(given.engine)
    return command.carry_out(lambda: run(engines, rows=given.rows, times=given.times, as_document=given.json))


if __name__ == "__main__":
    sys.exit(main())
