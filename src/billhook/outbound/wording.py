"""A request as the bytes that go over the wire, word for word as its maker wrote it."""

from yarl import URL

from billhook.outbound.request import Outgoing


def spell(outgoing: Outgoing, url: URL) -> bytes:
    """With Host before the given headers and Content-Length after them, and nothing else added."""
    lines = [f"{outgoing.method} {url.raw_path_qs} HTTP/1.1", f"Host: {url.host_port_subcomponent}"]
    lines += [f"{name}: {value}" for name, value in outgoing.headers]
    if outgoing.body is not None:
        lines.append(f"Content-Length: {len(outgoing.body)}")
    head = "\r\n".join(lines)
    if head.count("\n") != len(lines) - 1 or head.count("\r") != len(lines) - 1 or "\0" in head:
        raise ValueError("a header must not have line breaks")  # whoever let it come this far has a bug
    return f"{head}\r\n\r\n".encode() + (outgoing.body or b"")
