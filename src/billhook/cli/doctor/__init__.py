"""billhook doctor"""

import asyncio
from typing import Any

from billhook import log
from billhook.cli.doctor.examination import Examination, examine
from billhook.cli.doctor.finding import Finding, State, several
from billhook.cli.output import Json, show
from billhook.settings import read_settings


def doctor(as_json: Json = False) -> None:
    """Look the installation over: what is well, what is not, and what to do about it. Exit status 1: a problem.

    It changes nothing but what a first start makes. Of receivers it tries a few: it connects, and sends nothing.
    """
    settings = read_settings()
    log.configure("error", settings.log_format)
    seen = asyncio.run(examine(settings))
    show([_document(finding) for finding in seen.findings], text=as_text(seen), as_json=as_json)
    if any(finding.state is State.PROBLEM for finding in seen.findings):
        raise SystemExit(1)


def _document(finding: Finding) -> dict[str, Any]:
    return {
        "check": finding.check,
        "ok": finding.state is not State.PROBLEM,
        "state": finding.state,
        "message": finding.message,
        "fix": finding.fix,
    }


def as_text(seen: Examination) -> str:
    """A line for each check, below it what to do, and the sum at the end."""
    width = max(len(finding.check) for finding in seen.findings)
    lines = [line for finding in seen.findings for line in _lines(finding, width)]
    return "\n".join([*lines, "", _sum(seen)])


def _lines(finding: Finding, width: int) -> list[str]:
    state = finding.state.upper() if finding.state is State.PROBLEM else finding.state
    line = f"{finding.check:<{width}}  {state:<7}  {finding.message}"
    return [line, f"{'':<{width}}           → {finding.fix}"] if finding.fix else [line]


def _sum(seen: Examination) -> str:
    counts = {state: sum(finding.state is state for finding in seen.findings) for state in State}
    left_out = f" Not looked at: {', '.join(seen.missed)}; what they stand on is not well." if seen.missed else ""
    if not counts[State.PROBLEM] and not counts[State.NOTICE] and not seen.missed:
        return f"All {counts[State.WELL]} checks are well."
    problems = several(counts[State.PROBLEM], "problem", "problems") if counts[State.PROBLEM] else "No problem"
    notices = f", {several(counts[State.NOTICE], 'notice', 'notices')}" if counts[State.NOTICE] else ""
    return f"{problems}{notices}, {counts[State.WELL]} well.{left_out}"
