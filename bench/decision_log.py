"""What the decision log costs: CPU and bytes for a pod from its creation to its bind.

    python bench/decision_log.py [--nodes 1000] [--pods 3000] [--rounds 3]

The engine alone, with and without a log, in turn; CPU of the whole process, so that the thread that
compresses and writes counts. One line of JSON with the best round of each.
"""

import argparse
import json
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from fairlead.apps.config.profiles import built_in
from fairlead.apps.decision_log.frames import LogHeader
from fairlead.apps.decision_log.log_writer import LogPlan
from fairlead.apps.decision_log.recording import DecisionLog, RecordedEngine
from fairlead.engine.engine import Engine
from fairlead.engine.events import BindDone, NodeSeen, PodSeen
from fairlead.engine.instructions import Bind
from fairlead.model.nodes import GPU, Node
from fairlead.model.pods import Pod, PodRequest

_SCHEDULER = "gpu-scheduler"
_ROOM = (("cpu", 128_000), ("memory", 1 << 40), ("pods", 110), (GPU, 8))
_REQUEST = PodRequest(resources=(("cpu", 1000), (GPU, 1)))


def drained(engine: Engine, nodes: int, pods: int) -> None:
    for number in range(nodes):
        node = Node(f"n{number}", uid=f"n{number}", allocatable=_ROOM)
        engine.handle(NodeSeen(node), now=0.0)
    for number in range(pods):
        name = f"pod-{number}"
        pod = Pod(
            "default", name, name, scheduler=_SCHEDULER, request=_REQUEST, usage=_REQUEST.resources
        )
        engine.handle(PodSeen(pod), now=1.0)
    while (attempt := engine.decide(now=2.0)) is not None:
        for made in attempt.instructions:
            if isinstance(made, Bind):
                engine.handle(BindDone(made.pod.uid), now=2.0)
                engine.handle(PodSeen(replace(made.pod, node=made.node)), now=2.0)


def measured(nodes: int, pods: int, folder: Path | None) -> tuple[float, float]:
    """CPU microseconds and bytes of log for a pod."""
    profiles = {_SCHEDULER: built_in(_SCHEDULER)}
    log = DecisionLog(LogPlan(folder, 256 << 20), LogHeader("bench")) if folder else None
    began_s = time.process_time()
    engine = RecordedEngine(log, profiles) if log else Engine(profiles)
    drained(engine, nodes, pods)
    if log:
        log.close(60.0)
    cpu_us = 1e6 * (time.process_time() - began_s) / pods
    return cpu_us, log.written_bytes / pods if log else 0.0


def main(nodes: int, pods: int, rounds: int) -> None:
    without, logged, written = [], [], 0.0
    for _ in range(rounds):
        without.append(measured(nodes, pods, None)[0])
        with tempfile.TemporaryDirectory() as folder:
            cpu_us, written = measured(nodes, pods, Path(folder))
        logged.append(cpu_us)
    figures = {
        "nodes": nodes,
        "pods": pods,
        "us_per_pod": round(min(without), 1),
        "us_per_pod_with_log": round(min(logged), 1),
        "bytes_per_pod": round(written, 1),
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--pods", type=int, default=3000)
    parser.add_argument("--rounds", type=int, default=3)
    chosen = parser.parse_args()
    main(chosen.nodes, chosen.pods, chosen.rounds)
