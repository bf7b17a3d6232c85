"""The head of a request, word for word as its maker wrote it."""

from typing import Any

from aiohttp import ClientRequest, hdrs
from multidict import CIMultiDict

from billhook.outbound.trace import TRACE


class Request(ClientRequest):
    """aiohttp adds headers of its own, and keeps only one of two that differ in the case of a letter."""

    def update_headers(self, headers: Any) -> None:
        given = TRACE.get().request_headers
        self.headers = CIMultiDict(((hdrs.HOST, self.url.host_port_subcomponent or ""), *given))

    def update_auto_headers(self, skip_auto_headers: Any) -> None:
        self._skip_auto_headers = NOTHING_ADDED


NOTHING_ADDED: CIMultiDict[None] = CIMultiDict({hdrs.CONTENT_TYPE: None})
