"""How much a number of machines carries, computed from what was measured: `python -m bench.capacity` prints the table.

The costs are CPU times from bench/README.md. CPU time adds up over cores and machines, so the table is arithmetic; what
it leaves out (latency, disks, the network) is said on the page that shows it, docs/how-to/scale-out.md.
"""

from dataclasses import dataclass

# Microseconds of CPU, each from bench/README.md: change them there and here, then the table on the page.
TOKEN_US = 217  # of the API process, in the slowest of three runs
ACCEPT_US = 494  # of the API process, for a notification with one delivery, over HTTP and PostgreSQL
ACCEPT_DATABASE_US = 151
DELIVERY_US = 448  # of the worker, for one attempt that succeeds
DELIVERY_DATABASE_US = 220

CORES = 4  # of each machine
USE = 0.60  # of them; the rest is for bursts, for a machine that is away, and for what is not measured
MACHINES = (1, 2, 4, 8, 20)
CONNECTIONS = 10  # of a process to PostgreSQL, at most
LISTENER = 1  # more, for NOTIFY

TITLES = (
    "machines",
    "tokens/s, if nothing else",
    "notifications/s, if nothing else",
    "PostgreSQL's cores for those",
    "API + worker processes",
    "connections",
)


@dataclass(frozen=True)
class Capacity:
    machines: int
    tokens: float  # a second
    notifications: float  # a second: accepted, and delivered at the first attempt
    database_cores: float  # in use at that rate, of which there must be more by 1 / USE
    api: int  # processes
    workers: int

    @property
    def connections(self) -> int:
        return (self.api + self.workers) * (CONNECTIONS + LISTENER)

    @property
    def row(self) -> str:
        where = "on the same machine" if self.machines == 1 else f"{self.database_cores / USE:.1f}"
        rates = (f"{_round(self.tokens):,}", f"{_round(self.notifications):,}")
        return f"| {self.machines} | {' | '.join(rates)} | {where} | {self.api} + {self.workers} | {self.connections} |"


def capacity(machines: int) -> Capacity:
    """One machine has PostgreSQL on it; from two on it has a machine of its own, which is not among them."""
    microseconds = machines * CORES * USE * 1e6
    database_us = ACCEPT_DATABASE_US + DELIVERY_DATABASE_US
    each_us = ACCEPT_US + DELIVERY_US
    notifications = microseconds / (each_us + database_us if machines == 1 else each_us)
    processes = machines * CORES
    workers = max(1, round(processes * DELIVERY_US / each_us))
    return Capacity(
        machines,
        tokens=microseconds / TOKEN_US,
        notifications=notifications,
        database_cores=notifications * database_us / 1e6,
        api=processes - workers,
        workers=workers,
    )


def table() -> str:
    head = f"| {' | '.join(TITLES)} |\n|{'---|' * len(TITLES)}\n"
    return head + "".join(f"{capacity(machines).row}\n" for machines in MACHINES)


def _round(rate: float) -> int:
    """To the hundred below: more digits would say that more is known."""
    return int(rate // 100 * 100)


if __name__ == "__main__":
    print(table(), end="")
