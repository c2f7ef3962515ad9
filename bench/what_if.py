"""How long `fairlead what-if` takes after the cluster was read: the first question, and later ones.

    python bench/what_if.py [--nodes 1000] [--running 2000] [--waiting 200] [--questions 3]
    python bench/what_if.py --commands 5 [--nodes 12]

CPU seconds of this process. Half of the running pods declare how long they run, the other half was
learned. One line of JSON; `import_s` is the time to import the command.

With `--commands`, the whole command `fairlead what-if` is run so often against the embedded API
server with so many empty nodes: CPU and wall-clock seconds of the process, the shortest first.
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

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
from fairlead.kube.access.kubeconfig import load_access  # noqa: E402
from fairlead.kube.http.client import Client  # noqa: E402
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


async def _create_nodes(kubeconfig: Path, count: int) -> None:
    client = Client(load_access(kubeconfig, None))
    room = {"cpu": "128", "memory": "1Ti", "pods": "110", GPU: "8"}
    for number in range(count):
        node = {"metadata": {"name": f"node-{number:05d}"}, "status": {"allocatable": room}}
        reply = await client.request("POST", "/api/v1/nodes", body=json.dumps(node).encode())
        assert reply.status == 201, reply.message
    await client.close()


def _timed(kubeconfig: Path) -> tuple[float, float]:
    """CPU and wall-clock seconds of one command."""
    fairlead = Path(sys.executable).with_name("fairlead")
    asked = ["what-if", "--add-nodes", "2", "--like", "node-00000", "--kubeconfig", str(kubeconfig)]
    before, began_s = os.times(), time.perf_counter()
    subprocess.run([fairlead, *asked], check=True, stdout=subprocess.DEVNULL)
    after = os.times()
    cpu_s = after.children_user + after.children_system
    cpu_s -= before.children_user + before.children_system
    return round(cpu_s, 3), round(time.perf_counter() - began_s, 3)


def commands(count: int, nodes: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        kubeconfig = Path(folder) / "kubeconfig"
        module = "fairlead.sim.apiserver"
        serve = [sys.executable, "-m", module, "--no-controllers", "--kubeconfig-out", kubeconfig]
        with subprocess.Popen(serve, stdout=subprocess.PIPE) as server:
            assert server.stdout is not None
            server.stdout.readline()
            asyncio.run(_create_nodes(kubeconfig, nodes))
            took = sorted(_timed(kubeconfig) for _ in range(count))
            server.terminate()
    cpu_s, wall_s = zip(*took, strict=True)
    keeps = not sys.dont_write_bytecode
    print(json.dumps({"nodes": nodes, "bytecode_is_kept": keeps, "cpu_s": cpu_s, "wall_s": wall_s,
                      "load": os.getloadavg()[0]}))  # fmt: skip


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
    parser.add_argument("--nodes", type=int, default=0, help="1000, or with --commands 12")
    parser.add_argument("--commands", type=int, default=0)
    parser.add_argument("--running", type=int, default=2000)
    parser.add_argument("--waiting", type=int, default=200)
    parser.add_argument("--questions", type=int, default=3)
    chosen = parser.parse_args()
    if chosen.commands:
        commands(chosen.commands, chosen.nodes or 12)
    else:
        main(chosen.nodes or 1000, chosen.running, chosen.waiting, chosen.questions)
