"""Connections that go only where the guard permits, and that note how they came about."""

import asyncio
import socket
from functools import lru_cache
from time import perf_counter
from typing import Any

from aiohappyeyeballs import AddrInfoType
from aiohttp import ClientRequest, TCPConnector
from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import Connection
from yarl import URL

from billhook.outbound.guard import Guard
from billhook.outbound.resolver import Resolver
from billhook.outbound.trace import TRACE, milliseconds_since
from billhook.outbound.wire import Wire

IDLE_SECONDS = 1.5  # many servers close after 2 to 5 s, and a POST into a closing connection looks like a failure
MOST_DOORS = 4096  # receivers whose origin is kept in the connector's terms
DNS_CACHE_SECONDS = 3  # a burst to one receiver looks its name up once


class Connector(TCPConnector):
    """Guarded twice: the resolver vets names, the socket factory whatever is dialled, also addresses in URLs."""

    def __init__(self, guard: Guard, resolver: Resolver, **options: Any) -> None:
        self._guard = guard
        self.door = lru_cache(maxsize=MOST_DOORS)(self._door)
        super().__init__(
            resolver=resolver,
            socket_factory=self._open_socket,
            limit=0,  # the worker limits what is in flight
            keepalive_timeout=IDLE_SECONDS,
            ttl_dns_cache=DNS_CACHE_SECONDS,
            **options,
        )

    def _door(self, origin: URL) -> ClientRequest:
        """Where to, in the form in which `connect` wants to be told. It is never sent."""
        return ClientRequest("GET", origin, loop=self._loop)

    def _open_socket(self, target: AddrInfoType) -> socket.socket:
        family, kind, protocol, _, (address, port, *_) = target
        self._guard.must_permit(str(address), int(port))
        TRACE.get().address = _format(str(address), int(port))
        return socket.socket(family, kind, protocol)

    async def connect(self, *args: Any, **options: Any) -> Connection:
        trace = TRACE.get()
        while True:
            connection = await super().connect(*args, **options)
            wire = connection.protocol
            assert isinstance(wire, Wire)
            is_pooled = trace.connect is None
            if not is_pooled or not (trace.fresh_only or wire.should_close):
                break
            connection.close()  # also when it spoke unasked: some servers send a 408 before they close an idle one
        trace.wire, trace.address = wire, wire.address
        return connection

    async def _wrap_create_connection(self, *args: Any, **options: Any) -> tuple[asyncio.Transport, ResponseHandler]:
        """aiohttp dials here: TCP first, then it asks for a protocol, then TLS."""
        trace = TRACE.get()
        dialled_at = connected_at = perf_counter()

        def connected() -> Wire:
            nonlocal connected_at
            connected_at = perf_counter()
            trace.connect = (connected_at - dialled_at) * 1000
            return Wire(self._loop)

        transport, wire = await super()._wrap_create_connection(connected, **options)
        if options["ssl"]:
            trace.tls = milliseconds_since(connected_at)
        assert isinstance(wire, Wire)
        wire.address = _peer(transport) or trace.address
        return transport, wire


def _peer(transport: asyncio.Transport) -> str | None:
    """None when the receiver hung up already."""
    peer = transport.get_extra_info("peername")
    return _format(*peer[:2]) if peer else None


def _format(address: str, port: int) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
