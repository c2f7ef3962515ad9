"""How long `fairlead what-if` takes after the cluster was read: the first question, and later ones.

    python bench/what_if.py [--nodes 1000] [--running 2000] [--waiting 200] [--questions 3]

CPU seconds of this process. Half of the running pods declare how long they run, the other half was
learned. One line of JSON; `import_s` is the time to import the command.
"""

import argparse
import json
import time

_BEGAN_S = time.process_time()

from collections.abc import Iterator  # noqa: E402
from datetime import UTC, datetime  # noqa: E402

from fairlead.apps.config.run_plan import RunOptions, plan  # noqa: E402
from fairlead.apps.what_if import what_if_view  # noqa: E402
from fairlead.apps.what_if.changes import Changes  # noqa: E402
from fairlead.apps.what_if.what_if import WhatIfOptions, answered  # noqa: E402
from fairlead.apps.what_if.workload import ManifestDefaults, workload_of  # noqa: E402
from fairlead.engine import run_dumps  # noqa: E402
from fairlead.engine.events import Event, NodeSeen, PodSeen, RunTimesLoaded  # noqa: E402
from fairlead.engine.run_history import RunHistory  # noqa: E402
from fairlead.model.nodes import GPU, Node  # noqa: E402
from fairlead.model.pods import Pod, PodRequest  # noqa: E402
from fairlead.model.run_times import ANNOTATION, RunTime  # noqa: E402
from fairlead.model.unit_kinds import UnitKind  # noqa: E402

_IMPORTED_S = time.process_time()

_SCHEDULER = "gpu-scheduler"
_SIZES = (1, 2, 4, 8)


def cluster(nodes: int, running: int, waiting: int) -> Iterator[Event]:
    yield RunTimesLoaded(run_dumps.dump(_history()))
    room = (("cpu", 128_000), ("memory", 1 << 40), ("pods", 110), (GPU, 8))
    for number in range(nodes):
        yield NodeSeen(Node(f"node-{number:05d}", uid=f"node-{number}", allocatable=room))
    started = datetime.fromtimestamp(time.time() - 600.0, UTC).isoformat()
    free = [8] * nodes
    at = 0
    for number in range(running):
        gpus = _SIZES[number % 3]
        while free[at % nodes] < gpus:
            at += 1
        free[at % nodes] -= gpus
        yield PodSeen(_pod(number, gpus, node=f"node-{at % nodes:05d}", started=started))
        at += 1
    for number in range(running, running + waiting):
        yield PodSeen(_pod(number, _SIZES[number % 4]))


def _pod(number: int, gpus: int, node: str = "", started: str = "") -> Pod:
    known = RunTime(1200.0 + 7 * (number % 500), None, ANNOTATION) if number % 2 else None
    name = f"job-{number}"
    request = PodRequest(resources=(("cpu", 1000), (GPU, gpus)))
    return Pod(
        f"team-{number % 20}", name, name, scheduler=_SCHEDULER, request=request,
        usage=request.resources, node=node, started=started, run_time=known,
        controller=f"Job/{name}",
    )  # fmt: skip


def _history() -> RunHistory:
    history = RunHistory()
    for number in range(2000):
        kind = UnitKind(f"team-{number % 20}", "Job/job-#", "", 1000 * _SIZES[number % 4])
        history.learn(kind, 600.0 + 3 * (number % 700))
    return history


def _job() -> dict[str, object]:
    limits = {"limits": {GPU: "8"}}
    spec = {"schedulerName": _SCHEDULER, "containers": [{"name": "main", "resources": limits}]}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "asked"},
        "spec": {"template": {"metadata": {}, "spec": spec}},
    }


def main(nodes: int, running: int, waiting: int, questions: int) -> None:
    events = [*cluster(nodes, running, waiting)]
    planned = plan(RunOptions())
    options = WhatIfOptions(RunOptions(), changes=Changes(add_nodes=2, like="node-00000"))
    took = []
    for _ in range(questions):
        began_s = time.process_time()
        work = workload_of([_job()], ManifestDefaults())
        answer = answered(options, planned, events, work, "default")
        what_if_view.as_json(answer)
        took.append(round(time.process_time() - began_s, 3))
    print(
        json.dumps(
            {
                "nodes": nodes,
                "running": running,
                "waiting": waiting,
                "import_s": round(_IMPORTED_S - _BEGAN_S, 3),
                "question_s": took,
                "horizon_s": round(min(answer.before.until_s, answer.after.until_s)),
            }
        )
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--running", type=int, default=2000)
    parser.add_argument("--waiting", type=int, default=200)
    parser.add_argument("--questions", type=int, default=3)
    chosen = parser.parse_args()
    main(chosen.nodes, chosen.running, chosen.waiting, chosen.questions)
