"""The way out: a few of the receivers are looked up and connected to, and nothing is sent to them."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from billhook.accounts.installation import Installation
from billhook.cli.doctor.finding import Finding, named, notice, problem, several, well
from billhook.groups.model import ProviderState
from billhook.groups.store import list_providers, open_provider
from billhook.outbound.guard import Guard, parse_address
from billhook.outbound.probe import Reach, probe
from billhook.outbound.resolver import Resolver
from billhook.providers.urls import origin
from billhook.settings import Settings
from billhook.storage.vault import WrongKey

MOST_READ = 200  # providers, the newest
MOST_TRIED = 10  # receivers: all at once, so that this takes no longer than the slowest

Place = tuple[str, int]  # host and port


@dataclass(frozen=True)
class Receivers:
    places: Mapping[Place, str]  # each with the id of a provider that sends there, the newest first
    unreadable: list[str]  # ids of providers whose settings cannot be decrypted


async def find_receivers(installation: Installation) -> Receivers:
    async with installation.db.reading() as tx:
        rows = await list_providers(tx, None, limit=MOST_READ)
    places: dict[Place, str] = {}
    unreadable = []
    for row in rows:
        try:
            provider = open_provider(installation.vault, row)
        except WrongKey:
            unreadable.append(row.id)
            continue
        if provider.state is ProviderState.ACTIVE:
            _, host, port = origin(provider.config["server_url"])
            places.setdefault((host, port), provider.id)
    return Receivers(places, unreadable)


async def probe_all(found: Receivers, settings: Settings) -> dict[Place, Reach]:
    resolver = Resolver(Guard(settings.outbound_allow))
    tried = list(found.places)[:MOST_TRIED]
    try:
        reached = await asyncio.gather(*(probe(resolver, *place) for place in tried))
    finally:
        await resolver.close()
    return dict(zip(tried, reached, strict=True))


def dns(probed: Mapping[Place, Reach], found: Receivers) -> Finding:
    reached = {host: reach for (host, _), reach in probed.items() if parse_address(host) is None}
    if not reached:
        return well("DNS", "nothing was tried: no active provider has a name to look up")
    silent = [host for host, reach in reached.items() if reach is Reach.NO_DNS]
    unknown = [host for host, reach in reached.items() if reach is Reach.NO_NAME]
    asked = several(len(reached), "name", "names")
    if len(silent) == len(reached):
        fix = f"See that /etc/resolv.conf names a DNS server that answers here: `getent hosts {silent[0]}`."
        return problem("DNS", f"no answer, for none of {asked}: {named(silent)}", fix=fix)
    if silent or unknown:
        missing = [*unknown, *silent]
        owner = next(id for (host, _), id in found.places.items() if host == missing[0])
        fix = f"If `getent hosts {missing[0]}` finds none either: `billhook provider change {owner} --url URL`."
        return notice("DNS", f"answers, but has no address for {named(missing)}", fix=fix)
    return well("DNS", f"{asked} looked up")


def receivers(probed: Mapping[Place, Reach], found: Receivers) -> Finding:
    """A receiver that is away is its owner's affair; that none can be reached is ours."""
    if found.unreadable:
        message = (
            f"the settings of {named(found.unreadable)} cannot be read: they were damaged, or moved from elsewhere"
        )
        fix = f"Restore the database from a backup, or delete it: `billhook provider delete {found.unreadable[0]}`."
        return problem("receivers", message, fix=fix)
    if not probed:
        return well("receivers", "nothing was tried: there is no active provider")
    blocked = [place for place, reach in probed.items() if reach is Reach.BLOCKED]
    tried = {place: reach for place, reach in probed.items() if reach not in (Reach.BLOCKED, Reach.NO_NAME)}
    lost = {place: reach for place, reach in tried.items() if reach is not Reach.REACHED}
    if len(tried) > 1 and all(reach in (Reach.SILENT, Reach.UNREACHABLE) for reach in tried.values()):
        fix = (
            f"Open the way out of this machine (firewall, route, security group): `nc -vz {_spaced(next(iter(lost)))}`."
        )
        return problem("receivers", f"none of {len(tried)} can be reached from here: {_listed(lost)}", fix=fix)
    if blocked:
        return _blocked(blocked, found)
    if lost:
        fix = f"See what it says to `billhook provider test {found.places[next(iter(lost))]}`."
        return notice("receivers", f"{len(lost)} of {len(probed)} cannot be reached: {_listed(lost)}", fix=fix)
    reached = several(len(tried), "receiver takes", "receivers take")
    return well("receivers", f"{reached} connections from here; nothing was sent")


def _blocked(blocked: list[Place], found: Receivers) -> Finding:
    places = named([_spelt(place) for place in blocked])
    message = f"nothing is ever sent to a private address or a forbidden port: {places}"
    fix = (
        "If it is yours, name its network in BILLHOOK_OUTBOUND_ALLOW (such as 10.0.0.0/8) and restart; "
        f"else tell the owner of {found.places[blocked[0]]}."
    )
    return notice("receivers", message, fix=fix)


def _listed(lost: Mapping[Place, Reach]) -> str:
    return named([f"{_spelt(place)} ({reach})" for place, reach in lost.items()])


def _spelt(place: Place) -> str:
    host, port = place
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _spaced(place: Place) -> str:
    return f"{place[0]} {place[1]}"
