"""The alert rules are valid and tested, have a runbook, and use metrics that the services export."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]
from prometheus_client import Counter, Gauge, Histogram

from channel_dispatcher import metrics as _dispatcher
from event_relay import metrics as _relay
from notification_fanout import metrics as _fanout
from reservation_api import metrics as _api
from tablebell import health as _health
from tablebell import http_protocol as _http
from tablebell import purging as _purging
from tablebell.outbox import gauges as _outbox
from ws_gateway import metrics as _gateway

DEPLOY = Path(__file__).resolve().parents[2]
PROMETHEUS = DEPLOY / "prometheus"
DASHBOARD = DEPLOY / "grafana" / "dashboards" / "tablebell.json"

# A selector: the name of a metric of the services or of every process, and its labels.
SELECTOR = re.compile(
    r"\b((?:service|http|api|purge|outbox|relay|fanout|dispatcher|gateway|process)_[a-z_]+|up)\b(?!\s*\()(?:\{([^}]*)\})?"
)
GROUPING = re.compile(r"\b(?:by|without|on|ignoring) \(([^)]*)\)")
LABEL = re.compile(r"([a-z_]+)\s*(?:=|!)")

MODULES = (_health, _http, _purging, _outbox, _api, _relay, _fanout, _dispatcher, _gateway)

# Prometheus adds these to every target, and its client library to every process.
OF_EVERY_PROCESS = ("up", "process_cpu_seconds_total", "process_resident_memory_bytes", "process_open_fds")
OF_EVERY_TARGET = {"job", "instance"}


def samples() -> dict[str, set[str]]:
    """The samples that the services export, by name, with their labels."""
    found = dict.fromkeys(OF_EVERY_PROCESS, OF_EVERY_TARGET)
    for module in MODULES:
        for metric in vars(module).values():
            if isinstance(metric, Counter | Gauge | Histogram):
                labels = {*metric._labelnames, *OF_EVERY_TARGET}
                found |= dict.fromkeys(_sample_names(metric), labels)
                if isinstance(metric, Histogram):
                    found[f"{metric._name}_bucket"] = {*labels, "le"}
    return found


def _sample_names(metric: Counter | Gauge | Histogram) -> list[str]:
    match metric:
        case Counter():
            return [f"{metric._name}_total"]
        case Histogram():
            return [f"{metric._name}_sum", f"{metric._name}_count"]
        case Gauge():
            return [metric._name]


def rules() -> list[dict[str, Any]]:
    groups = yaml.safe_load((PROMETHEUS / "alerts.yml").read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def panels() -> list[dict[str, Any]]:
    return [panel for panel in json.loads(DASHBOARD.read_text())["panels"] if panel["type"] != "row"]


def expressions() -> list[tuple[str, str]]:
    of_rules = [(rule["alert"], rule["expr"]) for rule in rules()]
    return of_rules + [(panel["title"], target["expr"]) for panel in panels() for target in panel["targets"]]


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "arguments",
    [
        ("check", "config", "prometheus.yml"),
        ("check", "config", "local.yml"),
        ("check", "rules", "alerts.yml"),
        ("test", "rules", "alerts_test.yml"),
    ],
    ids=" ".join,
)
def test_promtool_finds_nothing_wrong(promtool: str, arguments: tuple[str, ...]) -> None:
    done = subprocess.run([promtool, *arguments], cwd=PROMETHEUS, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_rule_has_a_case_that_fires_and_one_that_does_not() -> None:
    tests = yaml.safe_load((PROMETHEUS / "alerts_test.yml").read_text())["tests"]
    cases = [(each["alertname"], bool(each["exp_alerts"])) for test in tests for each in test["alert_rule_test"]]
    for rule in rules():
        assert (rule["alert"], False) in cases
        assert (rule["alert"], True) in cases


def test_every_rule_has_a_section_in_the_runbook() -> None:
    sections = re.findall(r"^#+ (\w+)$", (DEPLOY / "README.md").read_text(), re.MULTILINE)
    for rule in rules():
        assert rule["annotations"]["runbook"] == f"deploy/README.md#{rule['alert'].lower()}"
        assert sections.count(rule["alert"]) == 1, f"the runbook has no section {rule['alert']}"


def test_every_metric_in_an_expression_is_exported() -> None:
    exported = samples()
    for name, expression in expressions():
        _check(name, expression, exported)


def _check(name: str, expression: str, exported: dict[str, set[str]]) -> None:
    selectors = SELECTOR.findall(GROUPING.sub("", expression))
    assert selectors, f"{name} uses no known metric: {expression}"
    known: set[str] = set()
    for metric, selection in selectors:
        assert metric in exported, f"{name}: no service exports {metric}"
        assert set(LABEL.findall(selection)) <= exported[metric], f"{name}: {metric} has no such label: {selection}"
        known |= exported[metric]
    grouped = {label.strip() for group in GROUPING.findall(expression) for label in group.split(",")}
    assert grouped <= known, f"{name} groups by unknown labels: {grouped - known}"


@pytest.mark.timeout(300)
def test_the_expressions_of_the_dashboard_are_promql(promtool: str, tmp_path: Path) -> None:
    valid = [expression.replace("$__rate_interval", "1m") for _, expression in expressions()]
    recorded = [{"record": f"expression:{number}", "expr": each} for number, each in enumerate(valid)]
    file = tmp_path / "expressions.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "expressions", "rules": recorded}]}))
    done = subprocess.run([promtool, "check", "rules", file], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_dashboard_is_laid_out_without_overlaps() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        assert place["x"] + place["w"] <= 24
        taken |= cells
