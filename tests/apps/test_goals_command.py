"""`fairlead goals`: what is configured, what nodes cost, who uses it, and what could be saved."""

import io
import json
import time
from pathlib import Path

from builders import a_node, a_pod, see
from consolidation_world import running
from fairlead.apps.config.run_plan import RunOptions, plan
from fairlead.apps.goals.goals_command import goals_answer_of, show
from fairlead.apps.live.figures_once import put_figures_once
from fairlead.engine.engine import Engine
from fairlead.engine.events import NodeSeen, ServiceClassesSeen
from fairlead.model.service_classes import SERVICE_CLASS

CONFIG = """
goals:
  currency: EUR
  prices:
    - kind: table
      rows: [{capacityType: spot, perNode: 4}, {labels: {pool: a}, perNode: 12}]
    - {kind: opencost-csv, file: missing.csv}
  watts: [{kind: table, rows: [{perGpu: 700}]}]
  classes: [{name: fast, wait: 2m, target: 90%, window: 7d, gpus: {quiet: 40%}}]
profiles:
  - schedulerName: gpu-scheduler
    goals:
      rates: {hour: 3.6}
      order:
        - {sum: [Cost, {goal: LostTime, options: {lost_s: 60}}], tolerance: 5%}
        - {sum: [Watts]}
"""


async def answer(tmp_path: Path) -> dict[str, object]:
    (tmp_path / "c.yaml").write_text(CONFIG)
    planned = plan(RunOptions(config=tmp_path / "c.yaml"))
    engine = Engine(planned.profiles)
    engine.wall_offset_s = time.time()
    engine.handle(ServiceClassesSeen(planned.service_classes), now=0.0)
    for met in (True, True, True, False):
        engine.service_record.count("fast", time.time(), met=met)
    for node in (
        a_node("spot", gpus=4, labels={"karpenter.sh/capacity-type": "spot"}),
        a_node("a", gpus=4, labels={"pool": "a"}),
        a_node("b", gpus=4),
    ):
        engine.handle(NodeSeen(node), now=0.0)
    see(engine, a_pod("waits", gpus=8, annotations={SERVICE_CLASS: "fast"}))
    see(engine, running("web", 2, "a"), running("web2", 1, "spot"), a_pod("cpu", node="b"))
    problems = await put_figures_once(engine, planned)
    return goals_answer_of(engine, planned, problems, drain=True)


async def test_the_answer_has_levels_nodes_spending_and_what_could_be_saved(
    tmp_path: Path,
) -> None:
    told = await answer(tmp_path)
    assert json.loads(json.dumps(told)) == told
    first, second = told["profiles"]["gpu-scheduler"]  # type: ignore[index]
    assert first["goals"] == {"Cost": 1.0, "LostTime": 0.001}
    assert (second["goals"], second["unit"]) == ({"Watts": 1.0}, "W")
    assert len(told["problems"]) == 1  # type: ignore[arg-type]
    by_type = {each["capacityType"]: each for each in told["nodes"]}  # type: ignore[attr-defined]
    assert by_type["spot"]["pricePerHour"] == 4.0
    assert (by_type["unknown"]["withoutPrice"], by_type["unknown"]["unusedNodes"]) == (1, 1)
    jobs = told["spending"]["jobs"]  # type: ignore[index]
    assert jobs["default/ReplicaSet/web"]["money"] == 6.0
    assert jobs["default/ReplicaSet/web2"]["watts"] == 700.0
    drain = told["drain"]
    assert [each["node"] for each in drain] == ["b", "a"]  # type: ignore[attr-defined]


async def test_as_text(tmp_path: Path) -> None:
    out = io.StringIO()
    show(await answer(tmp_path), "text", out)
    text = out.getvalue()
    for line in (
        "gpu-scheduler: level 1: Cost + 0.001 × LostTime (money/h), tolerance 0.05 of the best",
        "sources: price from table, price from opencost-csv, watts from table",
        "problem: opencost-csv: ",
        "CAPACITY  NODES  ENDING  GPUS  EUR/H  NO PRICE  UNUSED  UNUSED/H",
        "2 node(s) could be removed, which saves 12.00 EUR/h:",
        "  a (12.00): 2 GPU(s) move, ",
        "    default/web → spot",
        "CLASS  WAIT GOAL  TARGET  UNITS  IN TIME  BUDGET LEFT  BURN 1H  BURN 6H  PENDING  LATE",
        "fast          2m    90 %      4     75 %       -150 %      2.5      2.5        1     0",
        "service class fast: 90 % of its units are to start within 2m, on GPUs that are less than",
    ):
        assert line in text


async def test_what_each_goal_costs_the_others(tmp_path: Path) -> None:
    """Three running pods fit on the spot node, the cheapest, and lose time there."""
    told = (await answer(tmp_path))["tradeOffs"]["gpu-scheduler"]  # type: ignore[index]
    assert told["pods"] == 3, "the pod with 8 GPUs fits nowhere"
    assert told["units"] == {"Cost": "money/h", "LostTime": "s/h", "Watts": "W"}
    by = told["onlyBy"]
    assert list(by) == ["as configured", "Cost", "LostTime", "Watts"]
    for goal in ("Cost", "LostTime", "Watts"):
        least = min(counts[goal] for counts in by.values())
        assert by[goal][goal] == least, "alone it gets the least of itself"
    assert by["Cost"]["LostTime"] > by["LostTime"]["LostTime"] == 0.0
    assert by["LostTime"]["Cost"] > by["Cost"]["Cost"]


async def test_the_trade_offs_are_a_table(tmp_path: Path) -> None:
    out = io.StringIO()
    show(await answer(tmp_path), "text", out)
    lines = out.getvalue().splitlines()
    title = "gpu-scheduler: what its goals cost each other, if each of 3 pod(s) were placed now"
    at = lines.index(title)
    assert lines[at + 1].split() == [
        "ONLY",
        "BY",
        "Cost",
        "money/h",
        "LostTime",
        "s/h",
        "Watts",
        "W",
    ]
    assert [line.split("  ")[0] for line in lines[at + 2 : at + 6]] == [
        "as configured", "Cost", "LostTime", "Watts",
    ]  # fmt: skip
