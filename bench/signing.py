"""How fast one core signs ES256 and does nothing else: the ceiling for any issuer of such tokens."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from time import process_time

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256

from bench.affinity import GENERATOR_CORE, SERVER_CORE, pinned_to

MESSAGE = b"x" * 450  # about the header and payload of one of our tokens
BATCH = 200  # so that reading the clock does not count


def signing_microseconds(seconds: float) -> float:
    """CPU time of one signature on the servers' own core, with a key parsed once. The servers must be idle meanwhile.

    CPU time, as for the servers: on a shared machine the clock on the wall also counts what others are given.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    algorithm = ec.ECDSA(SHA256())
    done = 0
    with pinned_to(SERVER_CORE):
        began = process_time()
        while (elapsed := process_time() - began) < seconds:
            for _ in range(BATCH):
                key.sign(MESSAGE, algorithm)
            done += BATCH
    return elapsed / done * 1e6


@contextmanager
def busy_neighbour() -> Iterator[None]:
    """Keep the generator's core at work. Two "cores" of a rented machine are often two threads of one, and then
    whatever runs beside a generator is slower than it would be alone, signing too."""
    with pinned_to(GENERATOR_CORE):
        spin = "print(flush=True)\nwhile True: pass"
        spinning = subprocess.Popen([sys.executable, "-c", spin], stdout=subprocess.PIPE)
    with spinning:
        assert spinning.stdout is not None
        spinning.stdout.readline()  # started, so its start is not what disturbs
        try:
            yield
        finally:
            spinning.kill()
