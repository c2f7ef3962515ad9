"""Boards and alerts: a real Prometheus takes them, and they ask for what our programs serve."""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from charts import Helm
from fairleads import PATIENCE_S
from prometheuses import Prometheus
from promql import grouped_by, series
from test_chart_values import by_name
from yaml_texts import yaml_of

ROOT = Path(__file__).parents[2]
MONITORING = ROOT / "deploy" / "monitoring"
ALERTS = MONITORING / "alerts.yaml"
PLAYED = Path(__file__).with_name("alerts_test.yaml")
BOARDS = sorted(MONITORING.glob("grafana*.json"))
#: Labels that a Prometheus puts on whatever it scrapes.
OF_TARGETS = {"job", "namespace", "pod", "instance"}


def rules() -> list[dict[str, Any]]:
    groups = yaml_of(ALERTS)["groups"]
    return [rule for group in groups for rule in group["rules"]]


def panels(board: Path) -> list[dict[str, Any]]:
    return json.loads(board.read_text())["panels"]


def expressions() -> list[str]:
    drawn = (t["expr"] for board in BOARDS for panel in panels(board) for t in panel["targets"])
    return sorted({*(rule["expr"] for rule in rules()), *drawn})


def documented() -> dict[str, set[str]]:
    """Every metric in the docs, with the labels that are named there."""
    rows = re.findall(
        r"^\| `(\w+)` \| (\w+) \|([^|]*)\|",
        (ROOT / "docs" / "metrics.md").read_text(),
        re.MULTILINE,
    )
    found: dict[str, set[str]] = {}
    before: set[str] = set()
    for name, kind, labels in rows:
        named = set(re.findall(r"`(\w+)`", re.sub(r"\([^)]*\)", "", labels)))
        before = found[name] = named | (before if "the same" in labels else set())
        if kind == "histogram":
            found |= {f"{name}_bucket": named | {"le"}, f"{name}_sum": named}
    return found


# -- what they name --------------------------------------------------------------------------------


@pytest.mark.parametrize("expression", expressions())
def test_every_series_and_label_that_is_asked_for_is_served(expression: str) -> None:
    known, asked = documented(), series(expression)
    assert asked
    for name, labels in asked.items():
        assert name in known, f"docs/metrics.md does not know {name}"
        assert labels <= known[name] | OF_TARGETS, name
    assert grouped_by(expression) <= OF_TARGETS.union(*(known[name] for name in asked))


def test_series_are_found_in_expressions() -> None:
    asked = 'sum by (le, a) (rate(x_bucket{job="a{b(", q!=""}[5m])) / on (a) y > 14 * time()'
    assert series(asked) == {"x_bucket": {"job", "q"}, "y": set()}
    assert grouped_by(asked) == {"le", "a"}


def test_every_alert_says_what_to_do_and_how_bad_it_is() -> None:
    for rule in rules():
        assert rule["labels"]["severity"] in ("critical", "warning", "info")
        assert len(rule["annotations"]["summary"]) > 20
        assert f"| `{rule['alert']}` |" in (ROOT / "docs" / "metrics.md").read_text()


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.stem)
def test_no_panel_covers_another(board: Path) -> None:
    taken: set[tuple[int, int]] = set()
    for panel in panels(board):
        at = panel["gridPos"]
        cells = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
        assert not cells & taken
        assert at["x"] + at["w"] <= 24
        taken |= cells
    assert len({panel["id"] for panel in panels(board)}) == len(panels(board))


def test_the_chart_has_the_same_files() -> None:
    inside = ROOT / "deploy" / "helm" / "fairlead" / "files"
    for file in (ALERTS, *BOARDS):
        assert file.resolve() == inside / file.name


# -- a real Prometheus -----------------------------------------------------------------------------


def promtool(prometheus: Path, *arguments: str | Path) -> str:
    command = [str(prometheus.with_name("promtool")), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_alerts_fire_when_they_should_and_only_then(prometheus: Path, tmp_path: Path) -> None:
    for file in (ALERTS, PLAYED):
        (tmp_path / file.name).write_text(file.read_text())
    promtool(prometheus, "check", "rules", tmp_path / ALERTS.name)
    promtool(prometheus, "test", "rules", tmp_path / PLAYED.name)


def test_every_alert_is_played_quiet_and_firing() -> None:
    played = yaml_of(PLAYED)["tests"]
    quiet, firing = set[str](), set[str]()
    for check in (check for scene in played for check in scene["alert_rule_test"]):
        (firing if check.get("exp_alerts") else quiet).add(check["alertname"])
    names = {rule["alert"] for rule in rules()}
    assert (quiet, firing) == (names, names)


@pytest.fixture(scope="module")
def served(prometheus: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    folder = tmp_path_factory.mktemp("prometheus")
    with Prometheus.start(prometheus, folder, {"rule_files": [str(ALERTS.resolve())]}) as server:
        yield server


def test_a_prometheus_loads_the_alerts(served: Prometheus) -> None:
    loaded = served.get("/api/v1/rules")["groups"]
    assert {rule["name"] for group in loaded for rule in group["rules"]} == {
        rule["alert"] for rule in rules()
    }
    assert not [rule for group in loaded for rule in group["rules"] if rule.get("lastError")]


@pytest.mark.parametrize("expression", expressions())
def test_a_prometheus_answers_every_panel(served: Prometheus, expression: str) -> None:
    for variable, value in {"$namespace": "fairlead", "$node": ".*"}.items():
        expression = expression.replace(variable, value)
    assert served.query(expression)["resultType"] == "vector"


def test_the_charts_alerts_are_those(charts: Helm, prometheus: Path, tmp_path: Path) -> None:
    values = {"prometheusRule": {"enabled": True, "waitSeconds": 77}}
    rule = by_name(charts.rendered(values))["PrometheusRule/fairlead"]
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump({"groups": rule["spec"]["groups"]}))
    promtool(prometheus, "check", "rules", tmp_path / "rules.yaml")
    ours = [one["alert"] for group in rule["spec"]["groups"] for one in group["rules"]]
    assert ours == [one["alert"] for one in rules()]
    text = json.dumps(rule)
    assert 'job=\\"fairlead' not in text
    assert text.count("> 77") == 1
    off = by_name(charts.rendered({**values, "webhook": {"enabled": False}}))
    assert "Webhook" not in json.dumps(off["PrometheusRule/fairlead"])
