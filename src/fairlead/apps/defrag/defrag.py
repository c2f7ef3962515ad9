"""`fairlead defrag --plan`: reads the live cluster, plans moves, and carries out none."""

import json
import time
from typing import TextIO

from fairlead.apps.config.run_plan import RunOptions, RunPlan, plan
from fairlead.apps.defrag.answers import DefragAnswer, plan_answer, plan_lines
from fairlead.apps.explain.targets import Target, pod_of
from fairlead.apps.live import live_cluster
from fairlead.apps.live.live_engine import live_engine
from fairlead.engine.engine import Engine
from fairlead.kube.access.kubeconfig import load_access
from fairlead.kube.http.client import Client
from fairlead.model.errors import FairleadError
from fairlead.queue.entries import Entry

#: Units for which a plan is looked for: of equal ones only the first.
MOST_PLANNED = 100


class NothingWaits(FairleadError):
    """The pod does not wait for a node; the text says what to check."""


async def plans(options: RunOptions, target: Target | None = None) -> list[DefragAnswer]:
    """What `-o json` prints: for the pod or gang, or for every unit that waits with GPUs."""
    access = load_access(options.kubeconfig, options.context)
    client = Client(access)
    try:
        key = ""
        if target is not None:
            namespace = target.namespace or access.namespace or "default"
            key = f"{namespace}/{await pod_of(client, target, namespace)}"
        planned = plan(options)
        behaviour = await live_cluster.ask_behaviour(client)
        planned.meet(behaviour)
        engine = await live_engine(client, planned, behaviour, planned.profiles.values())
    finally:
        await client.close()
    entries = [_entry(engine, key)] if key else list(engine.planning.candidates())[:MOST_PLANNED]
    return [_answer(engine, entry, planned) for entry in entries]


def _entry(engine: Engine, key: str) -> Entry:
    found = (entry for entry in engine.queue.entries() if _has(entry, key))
    entry = next(found, None)
    if entry is None:
        names = ", ".join(sorted(engine.schedulers))
        raise NothingWaits(
            f"{key} does not wait for a node of the schedulers {names}; check the name, "
            "`fairlead explain`, and --scheduler-name or --config"
        )
    return entry


def _has(entry: Entry, key: str) -> bool:
    return any(pod.key == key for pod in entry.unit.pods)


def _answer(engine: Engine, entry: Entry, planned: RunPlan) -> DefragAnswer:
    found = engine.planning.plan(entry, planned.consolidation.limits, time.time())
    return plan_answer(entry.unit, found)


def show(answers: list[DefragAnswer], output: str, out: TextIO) -> None:
    if output == "json":
        out.write(json.dumps(answers, indent=2) + "\n")
    else:
        out.writelines(line + "\n" for line in plan_lines(answers))
