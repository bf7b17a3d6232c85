"""The API as the tests of deliveries call it."""

from dataclasses import dataclass, replace
from typing import Any

import httpx

from tests.support import until

API = "/api/v1"


@dataclass(frozen=True)
class Desk:
    """Somebody with a token."""

    http: httpx.AsyncClient
    headers: dict[str, str]

    def of(self, headers: dict[str, str]) -> "Desk":
        return replace(self, headers=headers)

    async def call(self, method: str, path: str, **arguments: Any) -> httpx.Response:
        more = arguments.pop("headers", {})
        return await self.http.request(method, f"{API}{path}", headers=self.headers | more, **arguments)

    async def ask(self, method: str, path: str, *, status: int = 200, **arguments: Any) -> Any:
        """What a call gives when all is well."""
        answer = await self.call(method, path, **arguments)
        assert answer.status_code == status, answer.text
        return answer.json()["data"]

    async def group(self, name: str = "Ops") -> str:
        return str((await self.ask("POST", "/groups", status=201, json={"name": name}))["id"])

    async def provider(self, group_id: str, url: str, **fields: Any) -> dict[str, Any]:
        body = {"type": "Webhook", "name": "Pager", "server_url": url, "request_method": "POST"} | fields
        made = await self.ask("POST", f"/groups/{group_id}/providers", status=201, json=body)
        return {**made, "path": f"/groups/{group_id}/providers/{made['id']}"}

    async def send(
        self, group_id: str, title: str = "Budget", content: str = "exceeded", *, key: str | None = None
    ) -> dict[str, Any]:
        headers = {} if key is None else {"Idempotency-Key": key}
        body = {"title": title, "content": content}
        accepted = await self.ask("POST", f"/groups/{group_id}/notifications", status=202, json=body, headers=headers)
        return dict(accepted)

    async def delivery(self, delivery_id: str) -> dict[str, Any]:
        return dict(await self.ask("GET", f"/deliveries/{delivery_id}"))

    async def settled(self, delivery_id: str, state: str = "delivered") -> dict[str, Any]:
        """The delivery, once it is in that state."""

        async def is_settled() -> bool:
            return bool((await self.delivery(delivery_id))["state"] == state)

        await until(is_settled, seconds=20)
        return await self.delivery(delivery_id)

    async def delivered(self, group_id: str, title: str = "Budget", content: str = "exceeded") -> dict[str, Any]:
        """Sent, and arrived at the first provider of the group."""
        accepted = await self.send(group_id, title, content)
        return await self.settled(accepted["deliveries"][0]["id"])
