"""A receiver in a thread: it keeps what comes, and answers as it is told."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread


@dataclass(frozen=True)
class Arrived:
    method: str
    target: str
    headers: dict[str, str]
    body: str

    @property
    def is_test(self) -> bool:
        return "webhook-test" in self.headers


@dataclass
class Receiver:
    port: int = 0
    status: int = 200
    arrived: list[Arrived] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"

    @property
    def delivered(self) -> list[Arrived]:
        return [each for each in self.arrived if not each.is_test]


@contextmanager
def receiver() -> Iterator[Receiver]:
    told = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0))).decode()
            headers = {name.lower(): value for name, value in self.headers.items()}
            told.arrived.append(Arrived(self.command, self.path, headers, body))
            self.send_response(told.status)
            self.send_header("Content-Length", "6")
            self.end_headers()
            self.wfile.write(b"<told>")

        do_GET = do_POST = answer

        def log_message(self, *_arguments: object) -> None:
            """Nothing: the tests look at what arrived."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        told.port = server.server_address[1]
        Thread(target=server.serve_forever, daemon=True).start()
        yield told
        server.shutdown()
