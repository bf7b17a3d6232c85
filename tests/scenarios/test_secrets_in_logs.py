"""Secrets, tokens, passwords and Authorization values are seen in the answer that issues them, and nowhere else."""

import base64
import itertools
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.scenarios.operations import FORM, Operation, operations
from tests.scenarios.processes import Billhook, Server, bearer, billhook_in, problem, until
from tests.support import FORM_TOKEN

PASSWORD = "correct-horse-battery-staple"
MADE_UP = "bhs_0123456789_" + "Zz9" * 16 + "Z"
PLAIN = "hunter2-is-no-secret-of-our-form"
FORGED = "eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJjbGlfeCJ9.Zm9yZ2VkLXNpZ25hdHVyZQ"
HEADER = "Bearer header-value-of-a-provider"
QUERY = "query-value-of-a-provider"
URL = f"http://127.0.0.1:9/hook?token={QUERY}"  # nobody listens there
BLOCKED_URL = f"http://169.254.169.254/hook?token={QUERY}"
WEBHOOK = {
    "type": "Webhook",
    "name": "victim",
    "server_url": URL,
    "request_method": "POST",
    "request_headers": [{"key": "Authorization", "value": HEADER}],
}
ALL_SCOPES = "clients:read clients:write groups:read groups:write notifications:read notifications:send"


@dataclass
class Witness:
    """What must not be found, and everything that was said where it must not be found."""

    program: Billhook
    server: Server
    robot: dict[str, Any]
    secrets: set[str] = field(default_factory=set)
    said: list[str] = field(default_factory=list)
    reported: list[str] = field(default_factory=list)  # errors, and what became of deliveries: also without URLs
    numbers: Iterator[int] = field(default_factory=itertools.count)

    def call(self, **arguments: Any) -> httpx.Response:
        answer = self.server.http.request(**arguments)
        self.learn(answer)
        return answer

    def learn(self, answer: httpx.Response) -> None:
        """New secrets from the answers that issue them; all other answers are to be searched."""
        body = answer.json() if "json" in answer.headers.get("content-type", "") and answer.content else {}
        data = body.get("data", body)
        names = ("client_secret", "access_token", "signing_secret")
        issued = {data[name] for name in names if isinstance(data, dict) and name in data}
        self.secrets |= issued
        if not issued:
            self.said.append(answer.text)
        if answer.is_error or "/deliveries" in answer.url.path or answer.url.path.endswith("/test"):
            self.reported.append(answer.text)
        self.said.append(str(answer.headers))

    def token(self) -> str:
        token = self.server.token(self.robot)
        self.secrets.add(token)
        return token

    def leaks(self) -> set[str]:
        logs, secrets = [self.server.stdout, self.server.stderr], self.secrets | {HEADER}
        found = {secret for secret in secrets for text in [*self.said, *logs] if secret in text}
        found |= {QUERY for text in [*self.reported, *logs] if QUERY in text}
        files = list(self._files())
        return found | {secret for secret in secrets | {QUERY} for content in files if secret.encode() in content}

    def _files(self) -> Iterator[bytes]:
        yield from (path.read_bytes() for path in self.program.data_dir.glob("billhook.db*"))


@pytest.fixture(params=["json", "console"])
def witness(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Witness]:
    with billhook_in(tmp_path, BILLHOOK_LOG_LEVEL="debug", BILLHOOK_LOG_FORMAT=request.param) as program:
        robot = program.create_client(scope=ALL_SCOPES)
        server = program.serve(
            BILLHOOK_DATABASE_URL=f"sqlite:///{program.database_file}",
            BILLHOOK_OUTBOUND_ALLOW="127.0.0.0/8",
            BILLHOOK_RETRY_SCHEDULE="0.01s",
            BILLHOOK_MAX_GROUPS="10000",
        )
        secrets = {robot["client_secret"], MADE_UP, PLAIN, FORGED, PASSWORD}
        secrets.add((program.data_dir / "master.key").read_text().strip())
        yield Witness(program, server, robot, secrets)


def test_no_secret_is_logged_stored_or_told_to_the_wrong_person(witness: Witness) -> None:
    drive_every_route(witness)
    drive_the_token_doors(witness)
    drive_deliveries(witness)
    drive_the_sign_in(witness)
    provoke_a_bug(witness)
    assert witness.server.stop() == 0
    assert len(witness.server.stderr.splitlines()) > 50, "there is something to search"
    assert witness.leaks() == set()


def test_no_command_prints_logs_or_stores_a_secret_that_it_was_given_or_has_shown_before(billhook: Billhook) -> None:
    client = billhook.create_client()
    rotated = billhook.json("client", "rotate", client["client_id"], "--grace", "1h")
    billhook.json("group", "create", "Ops")
    header = ("--header", f"Authorization: {HEADER}")
    added = billhook.json("provider", "add", "Ops", "--name", "Pager", "--url", URL, *header)
    commands: list[tuple[str, ...]] = [
        ("user", "create", "--email", "ada@example.com"),
        ("user", "create", "--email", "ada@example.com"),  # refused: there is one already
        ("client", "show", client["client_id"]),
        ("audit", "--json"),
        ("keys", "rotate", "--emergency"),
        ("doctor",),
        ("provider", "show", added["id"]),
        ("provider", "test", added["id"]),  # its address is not allowed
        ("provider", "change", added["id"], "--header", f"Host: {HEADER}"),  # refused
    ]
    done = [billhook.run(*command, stdin=f"{PASSWORD}\n", BILLHOOK_LOG_LEVEL="debug") for command in commands]
    assert [each.returncode for each in done] == [0, 1, 0, 0, 0, 0, 0, 1, 1]
    said = "".join(each.stdout + each.stderr for each in done).encode()
    stored = b"".join(path.read_bytes() for path in billhook.data_dir.glob("billhook.db*"))
    master_key = (billhook.data_dir / "master.key").read_text().strip()
    issued = (client["client_secret"], rotated["client_secret"], added["signing_secret"])
    for secret in (*issued, PASSWORD, master_key, HEADER):
        assert secret.encode() not in said + stored
    assert QUERY.encode() not in stored


def drive_every_route(witness: Witness) -> None:
    document = witness.server.http.get("/openapi.json").json()
    for operation in operations(document):
        for headers in ({}, bearer(FORGED), bearer(MADE_UP), {"Authorization": PLAIN}, bearer(witness.token())):
            request = operation.request(fresh_ids(witness, operation))
            if "server_url" in request.get("json", {}) or operation.path.endswith("/test"):
                request["json"] = {**request.get("json", {}), **tried(operation)}
            witness.call(**request, headers=headers)
    for path in ("/healthz", "/readyz", "/metrics", "/docs", f"/nowhere/{MADE_UP}"):
        witness.call(method="GET", url=path, params={"access_token": witness.token(), "client_secret": MADE_UP})


def tried(operation: Operation) -> dict[str, Any]:
    """Settings of a provider for a route that takes them."""
    return WEBHOOK | {"server_url": BLOCKED_URL} if operation.path.endswith("/test") else WEBHOOK


def fresh_ids(witness: Witness, operation: Operation) -> dict[str, str]:
    """Of things made for this one call, so that nothing deletes what the next one needs."""
    names, ids = set(operation.parameters), dict[str, str]()
    if names & {"client_id", "secret_id"}:
        made = make(witness, "clients", {"name": "victim", "scope": "clients:read"})
        ids |= {"client_id": made["client_id"], "secret_id": made["secrets"][0]["id"]}
    if names - ids.keys():
        ids |= sent_ids(witness)
    return ids


def make(witness: Witness, path: str, body: dict[str, Any]) -> dict[str, Any]:
    answer = witness.call(method="POST", url=f"/api/v1/{path}", json=body, headers=bearer(witness.token()))
    assert answer.is_success, answer.text
    return dict(answer.json()["data"])


def sent_ids(witness: Witness) -> dict[str, str]:
    group = make(witness, "groups", {"name": f"victim {next(witness.numbers)}"})["id"]
    provider = make(witness, f"groups/{group}/providers", WEBHOOK)["id"]
    accepted = make(witness, f"groups/{group}/notifications", {"title": "one", "content": "two"})
    recovery = make(witness, f"groups/{group}/providers/{provider}/recover", {"since": "2026-01-01T00:00:00Z"})
    return {
        "group_id": group,
        "provider_id": provider,
        "notification_id": accepted["id"],
        "delivery_id": accepted["deliveries"][0]["id"],
        "recovery_id": recovery["id"],
    }


def drive_deliveries(witness: Witness) -> None:
    """A provider nobody listens at, one that may not be reached, and settings that are refused."""
    for url in (URL, BLOCKED_URL):
        group = make(witness, "groups", {"name": f"victim {next(witness.numbers)}"})["id"]
        make(witness, f"groups/{group}/providers", WEBHOOK | {"server_url": url})
        accepted = make(witness, f"groups/{group}/notifications", {"title": "one", "content": "two"})
        path = f"/api/v1/deliveries/{accepted['deliveries'][0]['id']}"
        until(lambda path=path: has_failed(witness, path), what="it fails")  # type: ignore[misc]
        for wrong in (
            {"server_url": f"ftp://127.0.0.1/?token={QUERY}"},
            {"server_url": f"http://user:{QUERY}@127.0.0.1/"},
            {"request_headers": [{"key": "X-Key", "value": f"{HEADER}\r\n"}]},
            {"request_headers": [{"key": "Host", "value": HEADER}]},
            {"request_headers": HEADER},
        ):
            refused = witness.call(
                method="POST",
                url=f"/api/v1/groups/{group}/providers",
                json=WEBHOOK | wrong,
                headers=bearer(witness.token()),
            )
            assert refused.status_code == 400


def has_failed(witness: Witness, path: str) -> bool:
    shown = witness.call(method="GET", url=path, headers=bearer(witness.token())).json()["data"]
    return bool(shown["state"] == "failed" and shown["attempt_log"])


def drive_the_sign_in(witness: Witness) -> None:
    """A wrong password, then the right one; the session that it opens is a secret as well."""
    made = witness.program.run("user", "create", "--email", "ada@example.com", stdin=f"{PASSWORD}\n")
    assert made.returncode == 0, made.stderr
    with httpx.Client(base_url=witness.server.http.base_url, trust_env=False) as browser:
        found = FORM_TOKEN.search(browser.get("/console/sign-in").text)
        assert found is not None
        for password, status in ((PLAIN, 400), (PASSWORD, 303)):
            form = {"form_token": found[1], "email": "ada@example.com", "password": password, "next": ""}
            answer = browser.post("/console/sign-in", data=form)
            assert answer.status_code == status, answer.text
            witness.said.append(answer.text)
        cookies = [value for value in browser.cookies.values() if len(value) >= 16]
        assert cookies
        witness.secrets.update(cookies)
        witness.said.append(browser.get("/console/settings/users").text)


def drive_the_token_doors(witness: Witness) -> None:
    """Right and wrong credentials in every way they can be given."""
    right = {name: witness.robot[name] for name in ("client_id", "client_secret")}
    for given in (right, right | {"client_secret": MADE_UP}, right | {"client_secret": PLAIN}, {"client_id": MADE_UP}):
        witness.call(method="POST", url="/auth", json=given)
        witness.call(method="POST", url="/auth", data=given)
        form = given | {"grant_type": "client_credentials", "token": witness.token()}
        basic = base64.b64encode(f"{given['client_id']}:{given.get('client_secret', PLAIN)}".encode()).decode()
        witness.secrets.add(basic)
        for path in ("/oauth2/token", "/oauth2/introspect", "/oauth2/revoke"):
            witness.call(method="POST", url=path, data=form)
            bare = {"grant_type": "client_credentials", "token": form["token"]}
            witness.call(method="POST", url=path, data=bare, headers={"Authorization": f"Basic {basic}"})
    witness.call(method="POST", url="/oauth2/token", content=MADE_UP, headers={"Content-Type": FORM})


def provoke_a_bug(witness: Witness) -> None:
    """A row that is always there is not: whatever the handler then trips over, it is logged with its stack."""
    with closing(sqlite3.connect(witness.program.database_file, isolation_level=None)) as db:
        db.execute("DELETE FROM feed")
    body = {"name": MADE_UP, "scope": "clients:read"}
    answer = witness.call(method="POST", url="/api/v1/clients", json=body, headers=bearer(witness.token()))
    assert (answer.status_code, problem(answer)) == (500, "internal/error")
    until(lambda: "Traceback" in witness.server.stderr, what="the stack is logged")
