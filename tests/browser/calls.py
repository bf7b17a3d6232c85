"""What the tests set up through the API: a command would take seconds to start for each of it."""

from dataclasses import dataclass
from typing import Any

from billhook.auth.model import SCOPES
from tests.scenarios.processes import Billhook, Server, bearer


@dataclass(frozen=True)
class Calls:
    server: Server
    token: str

    @classmethod
    def to(cls, program: Billhook, server: Server) -> "Calls":
        return cls(server, server.token(program.create_client(scope=" ".join(SCOPES))))

    def get(self, path: str) -> Any:
        return self._data(self.server.http.get(f"/api/v1{path}", headers=bearer(self.token)))

    def post(self, path: str, **body: Any) -> Any:
        return self._data(self.server.http.post(f"/api/v1{path}", json=body, headers=bearer(self.token)))

    def add_group(self, name: str) -> str:
        return str(self.post("/groups", name=name)["id"])

    def add_provider(self, group: str, name: str, url: str, **headers: str) -> str:
        rows = [{"key": key.replace("_", "-"), "value": value} for key, value in headers.items()]
        common = {"type": "Webhook", "request_method": "POST", "request_headers": rows}
        return str(self.post(f"/groups/{group}/providers", name=name, server_url=url, **common)["id"])

    def send(self, group: str, title: str, content: str = "x") -> Any:
        return self.post(f"/groups/{group}/notifications", title=title, content=content)

    @staticmethod
    def _data(answer: Any) -> Any:
        assert answer.status_code < 300, answer.text
        return answer.json()["data"]
