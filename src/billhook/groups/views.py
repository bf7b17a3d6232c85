"""Groups and providers as the API, the command line and the documents show them."""

import time
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeAlias

from pydantic import BaseModel, Field

from billhook.groups.model import Group, Health, Provider, ProviderState, Status
from billhook.providers.registry import any_of, joined, provider_type
from billhook.web.documents import Meta


class GroupView(BaseModel):
    id: str
    organization_id: str
    name: str
    created_at: datetime


class GroupList(BaseModel):
    code: str = "success"
    data: list[GroupView]
    meta: Meta


class HealthView(BaseModel):
    status: Status = Field(
        description="`failing`: the last attempts failed. `open`: after many failures nothing is sent until "
        "`open_until`. `waiting`: the receiver asked to wait until `waits_until`."
    )
    failures: int = Field(description="In a row.")
    failing_since: datetime | None
    open_until: datetime | None
    waits_until: datetime | None
    last_success_at: datetime | None
    last_failure_at: datetime | None


class ProviderView(BaseModel):
    id: str
    group_id: str
    type: str
    name: str
    rate_limit: int | None = Field(description="Requests a second at most.")
    state: ProviderState = Field(description="What is sent while it is `paused` or `disabled` is held.")
    state_reason: str | None = Field(description="Why it is not active, when it was not a person who decided so.")
    health: HealthView
    created_at: datetime
    changed_at: datetime


class NewProviderView(ProviderView):
    signing_secret: str = Field(description="Verifies the signatures of requests. Shown this once.")


VIEWS, NEW_VIEWS = joined(ProviderView), joined(NewProviderView)

# With the fields of the types there are, which nobody can know but the registry.
if TYPE_CHECKING:
    AnyProviderView: TypeAlias = ProviderView
    AnyNewProviderView: TypeAlias = NewProviderView
else:
    AnyProviderView = any_of(VIEWS)
    AnyNewProviderView = any_of(NEW_VIEWS)


class ProviderList(BaseModel):
    code: str = "success"
    data: list[AnyProviderView]
    meta: Meta


def group_view(group: Group) -> GroupView:
    return GroupView(**asdict(group))


def provider_view(provider: Provider) -> ProviderView:
    return VIEWS[provider.type](**_fields(provider))


def new_provider_view(provider: Provider, secret: str) -> NewProviderView:
    return NEW_VIEWS[provider.type](**_fields(provider), signing_secret=secret)


def health_view(health: Health) -> HealthView:
    now_ms = time.time_ns() // 1_000_000
    return HealthView(
        status=health.status(now_ms),
        failures=health.failures,
        failing_since=_moment(health.failing_since_ms),
        open_until=_moment(health.open_until_ms) if health.open_until_ms > now_ms else None,
        waits_until=_moment(health.waits_until_ms) if health.waits_until_ms > now_ms else None,
        last_success_at=_moment(health.last_success_ms),
        last_failure_at=_moment(health.last_failure_ms),
    )


def _fields(provider: Provider) -> dict[str, Any]:
    own = ("id", "group_id", "type", "name", "rate_limit", "state", "state_reason", "created_at", "changed_at")
    shown = provider_type(provider.type).show(provider.config)
    return {**{name: getattr(provider, name) for name in own}, **shown, "health": health_view(provider.health)}


def _moment(milliseconds: int | None) -> datetime | None:
    return None if milliseconds is None else datetime.fromtimestamp(milliseconds / 1000, UTC)
