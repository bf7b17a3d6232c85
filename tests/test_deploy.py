"""What operators copy from deploy/ names what is really there: metrics, labels, commands, settings."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import yaml  # type: ignore[import-untyped]
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from billhook.app import App
from billhook.auth.credentials import Refused
from billhook.outbound.request import ERRORS, Exchange, Timings
from billhook.settings import PREFIX, Settings
from billhook.web.server import GRACE_SECONDS
from tests.reference import commands
from tests.support import Registered, on_one_engine, token_for

DEPLOY = Path(__file__).parents[1] / "deploy"
RULES = DEPLOY / "prometheus" / "billhook.rules.yml"
DASHBOARD = DEPLOY / "grafana" / "billhook.json"
UNITS = sorted((DEPLOY / "systemd").iterdir())

FUNCTIONS = {"sum", "max", "by", "rate", "increase", "histogram_quantile", "and", "or", "on", "offset", "label_values"}
FUNCTIONS |= {"absent", "vector"}
OF_PROMETHEUS = {"up": {"job", "instance"}}
PAIRS = {")": "(", "]": "[", "}": "{"}
MADE_UP_BY_PROMETHEUS = {"job", "instance", "le"}
DURATION = re.compile(r"\[[^\]]*\]|\b\d+[smhd]\b")
SELECTOR = re.compile(r"(\w+)\{([^}]*)\}")
MATCHER = re.compile(r'(\w+)(=~|!~|!=|=)"([^"]*)"')
TEXT = re.compile(r'"[^"]*"')


@pytest.fixture
async def known(http: httpx.AsyncClient, app: App, robot: Registered) -> dict[str, set[str]]:
    """Every metric that a process tells of, with the names of its labels, after some of everything has happened."""
    await token_for(http, robot)
    app.hub.metrics.tell_of_work()  # as `billhook serve` does, which issues tokens and delivers
    app.hub.metrics.count(Exchange(200, None, None, Timings(None, None, None, None, 1.0), (), b"", truncated=False))
    labels: dict[str, set[str]] = {name: set(names) for name, names in OF_PROMETHEUS.items()}
    for family in text_string_to_metric_families((await http.get("/metrics")).text):  # type: ignore[no-untyped-call]
        for sample in family.samples:
            labels.setdefault(sample.name, set()).update(sample.labels)
    return labels


def rules() -> list[dict[str, str]]:
    return [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]


def expressions() -> Iterator[str]:
    yield from (rule["expr"] for rule in rules())
    yield from shown()


def shown() -> Iterator[str]:
    """By the dashboard."""
    dashboard = json.loads(DASHBOARD.read_text())
    yield from (target["expr"] for panel in dashboard["panels"] for target in panel["targets"])
    yield from (each["query"]["query"] for each in dashboard["templating"]["list"] if each["type"] == "query")


@on_one_engine
async def test_every_expression_names_metrics_and_labels_that_exist(known: dict[str, set[str]]) -> None:
    labels = set().union(*known.values())
    for expression in expressions():
        bare = DURATION.sub("", TEXT.sub('""', expression))
        names = set(re.findall(r"[A-Za-z_]\w*", bare))
        assert names - FUNCTIONS - known.keys() - labels == set(), expression
        assert names & known.keys(), expression
        for metric, inside in SELECTOR.findall(bare):
            assert set(re.findall(r"\w+", inside)) <= known[metric] | MADE_UP_BY_PROMETHEUS, expression


@on_one_engine
async def test_every_outcome_and_event_is_one_that_we_tell(app: App) -> None:
    told: dict[tuple[str, str], set[str]] = {
        ("billhook_attempts_total", "outcome"): {f"{number}xx" for number in range(1, 6)} | ERRORS.keys(),
        ("billhook_token_requests_total", "outcome"): {"issued", "rate-limited", *Refused},
        ("billhook_delivery_events_total", "event"): {*app.hub.metrics.events.counts},
    }
    asked = [asked for expression in expressions() for asked in asked_of(expression, {"outcome", "event"})]
    assert asked, "some ask for them"
    for metric, label, operator, value in asked:
        pattern = value if operator.endswith("~") else re.escape(value)
        assert any(re.fullmatch(pattern, each) for each in told[metric, label]), (metric, label, value)


def asked_of(expression: str, labels: set[str]) -> Iterator[tuple[str, str, str, str]]:
    """Metric, label, operator and value, of each matcher on one of the labels."""
    for metric, inside in SELECTOR.findall(expression):
        yield from ((metric, *matcher) for matcher in MATCHER.findall(inside) if matcher[0] in labels)


@on_one_engine
async def test_every_metric_of_ours_is_on_the_dashboard(known: dict[str, set[str]]) -> None:
    named = set(re.findall(r"\w+", " ".join(shown())))
    families = {re.sub(r"_(bucket|count|sum|created)$", "", name) for name in known}
    assert [name for name in sorted(families) if not named & {name, f"{name}_bucket"}] == []


@pytest.mark.parametrize("expression", list(expressions()))
def test_every_expression_is_balanced(expression: str) -> None:
    opened: list[str] = []
    for sign in re.sub(r"[^()\[\]{}]", "", TEXT.sub("", expression)):
        if sign in PAIRS:
            assert opened.pop() == PAIRS[sign]
        else:
            opened.append(sign)
    assert opened == []
    assert expression.count('"') % 2 == 0


def test_every_alert_leads_to_its_part_of_the_playbook() -> None:
    for rule in rules():
        page, _, anchor = rule["annotations"]["playbook"].partition("#")  # type: ignore[index]
        titles = re.findall(r"^## (.+)$", (DEPLOY.parent / page).read_text(), re.MULTILINE)
        assert anchor in [re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles]
        assert rule["labels"]["severity"] in ("page", "ticket")  # type: ignore[index]


def test_promtool_takes_the_rules() -> None:
    done = run("promtool", "check", "config", str(DEPLOY / "prometheus" / "prometheus.yml"))
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_is_shown_to_fire_and_to_keep_quiet() -> None:
    cases = yaml.safe_load((DEPLOY / "prometheus" / "billhook.rules.test.yml").read_text())["tests"]
    told = [(each["alertname"], bool(each["exp_alerts"])) for case in cases for each in case["alert_rule_test"]]
    assert set(told) == {(rule["alert"], fires) for rule in rules() for fires in (True, False)}


def test_the_alerts_fire_when_they_should() -> None:
    done = run("promtool", "test", "rules", str(DEPLOY / "prometheus" / "billhook.rules.test.yml"))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_a_unit_starts_a_command_that_exists_with_settings_that_exist(unit: Path) -> None:
    text = unit.read_text()
    (started,) = re.findall(r"^ExecStart=\S+/billhook (\w+)", text, re.MULTILINE)
    assert started in [name for name, _ in commands()]
    settings = {PREFIX + name.upper() for name in Settings.model_fields}
    assert set(re.findall(rf"{PREFIX}[A-Z_]+", text)) <= settings
    if "TimeoutStopSec" in text:
        (patience,) = re.findall(r"^TimeoutStopSec=(\d+)$", text, re.MULTILINE)
        assert int(patience) > GRACE_SECONDS + 2 * 10, "the server's grace, and what is finished and flushed after it"


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_systemd_takes_the_unit(unit: Path, tmp_path: Path) -> None:
    here = tmp_path / unit.name  # where the program is differs; nothing else is changed
    here.write_text(unit.read_text().replace("/opt/billhook/.venv/bin/billhook", sys.executable))
    done = run("systemd-analyze", "verify", "--man=no", str(here))
    assert (done.returncode, done.stderr) == (0, "")


def run(program: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    found = shutil.which(program)
    if found is None:
        pytest.skip(f"{program} is not on the PATH")
    return subprocess.run([found, *arguments], capture_output=True, text=True, check=False)
