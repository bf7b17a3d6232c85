"""`billhook …` with a sampler in it: `python -m bench.sampled FILE COMMAND…`.

SIGUSR1 begins, SIGUSR2 ends and writes FILE: stacks and how often each was met, a sample for every so much CPU time. A
stack is seen at the next bytecode, so what C code takes is counted for the Python function that called it.
"""

import json
import signal
import sys
from collections import Counter
from pathlib import Path
from types import FrameType

from billhook.cli import main

EVERY_SECONDS = 0.001  # of CPU
DEEPEST = 40  # frames of a stack, from the innermost

Stack = tuple[str, ...]

_seen: Counter[Stack] = Counter()


def _note(_signal: int, frame: FrameType | None) -> None:
    names: list[str] = []
    while frame is not None and len(names) < DEEPEST:
        names.append(f"{frame.f_globals.get('__name__', '')}.{frame.f_code.co_name}")
        frame = frame.f_back
    _seen[tuple(names)] += 1


def sample_into(path: Path) -> None:
    def begin(*_: object) -> None:
        signal.setitimer(signal.ITIMER_PROF, EVERY_SECONDS, EVERY_SECONDS)

    def end(*_: object) -> None:
        signal.setitimer(signal.ITIMER_PROF, 0)
        document = [[list(stack), count] for stack, count in _seen.items()]
        part = path.with_suffix(".part")
        part.write_text(json.dumps(document))
        part.rename(path)  # whole, or not there

    signal.signal(signal.SIGPROF, _note)
    signal.signal(signal.SIGUSR1, begin)
    signal.signal(signal.SIGUSR2, end)


if __name__ == "__main__":
    sample_into(Path(sys.argv[1]))
    sys.argv = ["billhook", *sys.argv[2:]]
    main()
