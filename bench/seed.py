"""Fill an installation with clients before it is served."""

from pathlib import Path

from bench.credentials import Credentials

ROTATED = 500  # clients a run takes turns over: enough that no cache of "the last client" can help


def seed_clients(data_dir: Path, count: int) -> list[Credentials]:
    """Register `count` clients in the installation at `data_dir`, and return the credentials of some of them.

    Goes through Billhook's own store functions in this one process, so the rows are those that `client create` would
    write, with a real secret each; only the cost of starting a command per client is saved. Creates the database when
    there is none. Returns min(count, ROTATED) credentials spread evenly over the clients, not the first ones.
    """
    raise NotImplementedError("waits for billhook's client store")
