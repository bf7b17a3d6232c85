"""The doctor on each engine, and a way to make an installation ill."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from sqlalchemy import insert, text

from billhook.delivery.store import deliveries, recoveries
from billhook.storage.database import open_database
from billhook.storage.ids import new_id
from tests.cli.conftest import Billhook

MINUTE = 60_000
HOUR = 60 * MINUTE
DAY = 24 * HOUR


@dataclass(frozen=True)
class Patient:
    """An installation that is looked at, and that tests may hurt."""

    billhook: Billhook
    location: str

    def examine(self) -> tuple[int, dict[str, Any]]:
        ran = self.billhook("doctor", "--json")
        return ran.status, {finding["check"]: finding for finding in ran.document}

    def finding(self, check: str) -> dict[str, Any]:
        """Of that one check; whatever is not well comes with a fix, and only a problem ends with status 1."""
        status, findings = self.examine()
        assert (status == 1) == any(found["state"] == "problem" for found in findings.values())
        assert all((found["fix"] is None) == (found["state"] == "well") for found in findings.values())
        assert all(found["ok"] == (found["state"] != "problem") for found in findings.values())
        found: dict[str, Any] = findings[check]
        return found

    def execute(self, *statements: Any, rows: Sequence[dict[str, Any]] | None = None) -> None:
        async def work() -> None:
            db = open_database(self.location)
            try:
                async with db.transaction() as tx:
                    for statement in statements:
                        await tx.execute(text(statement) if isinstance(statement, str) else statement, rows)
            finally:
                await db.close()

        asyncio.run(work())

    def group(self, name: str = "Alerts") -> str:
        return str(self.billhook.json("group", "create", name)["id"])

    def provider(self, url: str = "http://127.0.0.1:9/", *, group: str | None = None) -> str:
        made = ("--name", "Receiver", "--url", url, "--method", "POST")
        return str(self.billhook.json("provider", "add", group or self.group(), *made)["id"])

    def delivery(self, provider_id: str, **values: Any) -> None:
        """One that is due now, unless said otherwise."""
        now = time.time_ns() // 1_000_000
        row: dict[str, Any] = dict(id=new_id("dlv"), organization_id="org", group_id="grp", provider_id=provider_id)
        row |= dict(notification_id="ntf", state="pending", attempts=0, charged=0)
        self.execute(insert(deliveries), rows=[row | dict(created_ms=now, since_ms=now, due_ms=now) | values])

    def recovery(self, provider_id: str, *, created_ms: int) -> None:
        row: dict[str, Any] = dict(
            id=new_id("rcv"), organization_id="org", provider_id=provider_id, since_ms=0, until_ms=1
        )
        row |= dict(state="running", cursor="", recovered=1234, created_ms=created_ms)
        self.execute(insert(recoveries), rows=[row])


def ago(milliseconds: int) -> int:
    return time.time_ns() // 1_000_000 - milliseconds


@pytest.fixture
def patient(on_engine: Billhook, location: str) -> Patient:
    return Patient(on_engine, location)
