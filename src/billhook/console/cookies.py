"""The cookies of the console: who is signed in, which form is whose, and which browser has been here before."""

from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response

from billhook.console.context import Console

KNOWN_SECONDS = 365 * 24 * 3600


@dataclass(frozen=True)
class Cookie:
    name: str
    seconds: int | None = None  # None: until the browser is closed

    def read(self, request: Request, console: Console) -> str:
        return request.cookies.get(self._name(console), "")

    def write(self, response: Response, console: Console, value: str) -> None:
        response.set_cookie(
            self._name(console),
            value,
            max_age=self.seconds,
            path=self._path(console),
            secure=console.is_secure,
            httponly=True,
            samesite="lax",
        )

    def clear(self, response: Response, console: Console) -> None:
        response.delete_cookie(
            self._name(console),
            path=self._path(console),
            secure=console.is_secure,
            httponly=True,
            samesite="lax",
        )

    def _name(self, console: Console) -> str:
        """Browsers take `__Host-` only over https and for the whole host, so that no other host can set it."""
        return f"__Host-billhook-{self.name}" if console.is_secure else f"billhook-{self.name}"

    def _path(self, console: Console) -> str:
        return "/" if console.is_secure else console.home


SESSION = Cookie("session")
VISIT = Cookie("visit")  # of somebody who has not signed in: their forms are theirs all the same
KNOWN = Cookie("known", KNOWN_SECONDS)
