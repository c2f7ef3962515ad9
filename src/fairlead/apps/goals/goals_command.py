"""`fairlead goals`: reads the live cluster, and changes nothing."""

import json
import time
from typing import Any, TextIO

from fairlead.apps.config.run_plan import RunOptions, RunPlan, plan
from fairlead.apps.goals.forecasts_told import forecasts_told
from fairlead.apps.goals.goals_view import goals_lines
from fairlead.apps.goals.report_view import report_rows
from fairlead.apps.goals.service_classes import classes_told
from fairlead.apps.goals.spending import node_groups, spending
from fairlead.apps.goals.trade_offs import trade_offs
from fairlead.apps.live import live_cluster
from fairlead.apps.live.figures_once import put_figures_once
from fairlead.apps.live.learned import kept_report
from fairlead.apps.live.live_engine import live_engine
from fairlead.apps.run.forecast_feed import taken_once
from fairlead.engine.consolidation.draining import FreedNode, moved_gpus
from fairlead.engine.engine import Engine
from fairlead.kube.access.kubeconfig import load_access
from fairlead.kube.http.client import Client
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.named_readings import ReadingTerms


@dataclass(frozen=True, slots=True)
class GoalsOptions:
    run: RunOptions
    #: Whether to look for nodes that could be removed.
    drain: bool = False


async def goals(options: GoalsOptions) -> dict[str, Any]:
    """What `-o json` prints."""
    client = Client(load_access(options.run.kubeconfig, options.run.context))
    try:
        planned = plan(options.run)
        behaviour = await live_cluster.ask_behaviour(client)
        planned.meet(behaviour)
        engine = await live_engine(client, planned, behaviour, planned.profiles.values())
        feed = await taken_once(planned.forecasts, client, engine)
    finally:
        await client.close()
    problems = await put_figures_once(engine, planned)
    told = goals_answer_of(engine, planned, problems, drain=options.drain)
    return told | {"forecasts": forecasts_told(feed, engine, time.time())}


async def report(options: RunOptions, month: str) -> dict[str, Any]:
    """What the scheduler has recorded by month."""
    client = Client(load_access(options.kubeconfig, options.context))
    try:
        planned = plan(options)
        book, problem = await kept_report(client, planned)
    finally:
        await client.close()
    rows = report_rows(book, month)
    return {"currency": planned.currency or "MONEY", "problem": problem, "rows": rows}


def goals_answer_of(
    engine: Engine, planned: RunPlan, problems: list[str], *, drain: bool
) -> dict[str, Any]:
    told: dict[str, Any] = {
        "currency": planned.currency,
        "profiles": {name: _levels(planned, name) for name in planned.profiles},
        "sources": [
            {"figure": each.figure.value, "name": each.name, "kind": each.kind}
            for each in planned.figures
        ],
        "readings": [_reading(engine, each.terms) for each in planned.readings],
        "problems": problems,
        "nodes": node_groups(engine.cluster),
        "spending": spending(engine),
        "classes": classes_told(engine, time.time()),
        "tradeOffs": trade_offs(engine),
        "forecasts": [],
    }
    if drain:
        found = engine.planning.drain(planned.consolidation.limits, time.time())
        told["drain"] = [_freed(each) for each in found]
    return told


def _reading(engine: Engine, terms: ReadingTerms) -> dict[str, Any]:
    """How many nodes or GPUs of the cluster have a value."""
    cluster = engine.cluster
    inventories = cluster.columns.devices.inventories.values()
    uuids = [gpu.uuid for inventory in inventories for gpu in inventory.gpus]
    keys = uuids if terms.by_gpu else list(cluster.row_of)
    values = cluster.columns.readings.values(terms.name)
    return {
        "name": terms.name,
        "unit": terms.unit,
        "by": "gpu" if terms.by_gpu else "node",
        "known": sum(key in values for key in keys),
        "of": len(keys),
        "others": len(values.keys() - set(keys)),
        "fallback": terms.fallback,
    }


def _levels(planned: RunPlan, name: str) -> list[dict[str, Any]]:
    goals = planned.profiles[name].goals
    return [
        {
            "goals": {goal.name: rate for goal, rate in level.goals},
            "unit": str(level.unit),
            "tolerance": level.tolerance,
            "slack": level.slack,
        }
        for level in (goals.levels if goals else ())
    ]


def _freed(freed: FreedNode) -> dict[str, Any]:
    return {
        "node": freed.node,
        "pricePerHour": freed.price,
        "gpusMoved": moved_gpus(freed),
        "gpuSecondsLost": round(freed.lost_gpu_s, 1),
        "moves": [
            {"pod": move.pod.key, "from": move.node, "to": move.target} for move in freed.moves
        ],
    }


def show(told: dict[str, Any], output: str, out: TextIO) -> None:
    if output == "json":
        out.write(json.dumps(told, indent=2) + "\n")
    else:
        out.writelines(line + "\n" for line in goals_lines(told))
