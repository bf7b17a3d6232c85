"""What the demo begins with: people, API keys, and groups with their providers."""

from dataclasses import dataclass
from datetime import timedelta

from billhook.accounts.users import Role
from billhook.auth.credentials import Refused

PIPELINE = "Cost pipeline"  # the key that sends the notifications

DAY = timedelta(days=1)
HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)


@dataclass(frozen=True)
class Provider:
    name: str
    path: str  # at the receiver; `demo_receiver` says what happens there
    method: str = "POST"
    headers: tuple[tuple[str, str], ...] = ()
    rate_limit: int | None = None
    broke: timedelta | None = None  # how long ago it became what its path says; None: it always was
    paused: timedelta | None = None  # how long ago


@dataclass(frozen=True)
class Group:
    name: str
    providers: tuple[Provider, ...]


@dataclass(frozen=True)
class Refusal:
    reason: Refused
    address: str
    ago: timedelta
    times: int = 1


@dataclass(frozen=True)
class Key:
    name: str
    description: str
    scopes: tuple[str, ...]
    age: timedelta
    lifespan: timedelta = HOUR
    networks: tuple[str, ...] = ()
    address: str = ""  # where its token requests come from
    every: timedelta | None = None  # how often it asks for a token; None: it never did
    refusals: tuple[Refusal, ...] = ()
    rotated: timedelta | None = None  # how long ago
    revoked: timedelta | None = None


@dataclass(frozen=True)
class Person:
    email: str
    role: Role
    age: timedelta


GROUPS = (
    Group(
        "Budget alerts",
        (
            Provider("FinOps channel", "/chat/finops", headers=(("X-Channel", "finops-alerts"),)),
            Provider("On-call pager", "/pager/events", headers=(("Authorization", "Bearer demo-pager-9f2c41"),)),
            Provider("Approval workflow", "/approvals/requests", headers=(("X-Api-Key", "demo-approvals-77d0"),)),
        ),
    ),
    Group(
        "Cost anomalies",
        (
            Provider("Anomaly triage", "/triage/inbox"),
            Provider("Data warehouse", "/warehouse/load", rate_limit=5),
            Provider("Service desk", "/service-desk/tickets", broke=9 * HOUR),
        ),
    ),
    Group(
        "Daily digest",
        (
            Provider("Digest mailer", "/mailer/send?list=finance", method="GET"),
            Provider("Team wiki", "/wiki/cost-report", broke=20 * HOUR),
            Provider("Old dashboard", "/old-dashboard/feed", method="GET", broke=0 * HOUR),
        ),
    ),
    Group(
        "Commitments and savings",
        (
            Provider("Procurement portal", "/procurement/offers"),
            Provider("Savings tracker", "/savings/track", paused=2 * DAY),
        ),
    ),
    Group(
        "Kubernetes spend",
        (
            Provider(
                "Platform team",
                "/chat/platform",
                headers=(("Authorization", "Bearer demo-platform-31ab"), ("X-Cluster-Region", "eu-central")),
            ),
            Provider("Rightsizing bot", "/rightsizing/suggest", method="GET", headers=(("X-Mode", "dry-run"),)),
        ),
    ),
)

KEYS = (
    Key(
        PIPELINE,
        "Sends what the nightly and hourly cost jobs find.",
        ("notifications:send",),
        age=120 * DAY,
        networks=("10.20.0.0/16", "127.0.0.0/8"),
        address="10.20.4.17",
        every=55 * MINUTE,
        refusals=(Refusal(Refused.ADDRESS, "203.0.113.9", 26 * HOUR, times=3),),
    ),
    Key(
        "Terraform",
        "Keeps groups and providers as they stand in the infrastructure repository.",
        ("groups:read", "groups:write"),
        age=90 * DAY,
        lifespan=15 * MINUTE,
        address="198.51.100.23",
        every=7 * HOUR,
        refusals=(Refusal(Refused.SECRET, "198.51.100.23", 50 * HOUR, times=2),),
    ),
    Key(
        "Delivery dashboard",
        "Reads deliveries for the screen in the hall.",
        ("notifications:read",),
        age=45 * DAY,
        lifespan=12 * HOUR,
        address="10.20.8.3",
        every=12 * HOUR,
    ),
    Key(
        "Key rotation job",
        "Rotates the secrets of all other keys every quarter.",
        ("clients:read", "clients:write"),
        age=200 * DAY,
        lifespan=5 * MINUTE,
        address="10.20.4.40",
        every=DAY,
        rotated=3 * HOUR,
    ),
    Key(
        "Month-end report",
        "For the close of the month; not used before the 30th.",
        ("groups:read", "notifications:read"),
        age=4 * DAY,
    ),
    Key(
        "Old build server",
        "Replaced by Terraform.",
        ("groups:read", "groups:write", "notifications:send"),
        age=400 * DAY,
        address="192.0.2.77",
        every=8 * HOUR,
        refusals=(
            Refusal(Refused.REVOKED, "192.0.2.77", 30 * HOUR, times=12),
            Refusal(Refused.REVOKED, "192.0.2.77", 5 * HOUR, times=8),
        ),
        revoked=9 * DAY,
    ),
)

PEOPLE = (
    Person("maria.lindqvist@example.com", Role.ADMIN, age=300 * DAY),
    Person("tom.okafor@example.com", Role.VIEWER, age=80 * DAY),
)
INVITED = Person("jana.novak@example.com", Role.VIEWER, age=DAY)
