"""Stop, then kill, the leader of two Fairleads: how long until the standby binds the next pod?

python bench/failover.py [--nodes 100] [--pods 0] [--times 3]

Lease durations are the defaults. Pods come all the time, so the first bind by the standby is the
first that it could make. The goals are 3 s after a clean stop and 20 s after a crash.
"""

import argparse
import asyncio
import json
import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from fairlead.sim.controlplane import ChildProcess, ControlPlane
from ground import FAIRLEAD, ROOT, assets, say, settle
from restart import _create as create_pods

GOALS_S = {"clean_stop": 3.0, "crash": 20.0}
_PODS = "/api/v1/namespaces/default/pods"
_EPOCH = "fairlead.dev/epoch"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--pods", type=int, default=0, help="already bound")
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--out", type=Path, default=ROOT / "bench" / "results" / "failover.json")
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="fairlead-bench-") as folder,
        ControlPlane.start(assets(), Path(folder)) as plane,
    ):
        report = _measure(plane, options)
    print("  ".join(f"{key}={value}" for key, value in report.items()))
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(report, indent=1) + "\n")


def _measure(plane: ControlPlane, options: argparse.Namespace) -> dict[str, object]:
    nodes = plane.create_nodes(options.nodes, allocatable={"nvidia.com/gpu": "64"})
    if options.pods:
        say(f"creating {options.pods} bound pods")
        asyncio.run(create_pods(str(plane.kubeconfig_for()), options.pods, nodes))
    settle(plane.process("kube-apiserver"))
    report: dict[str, object] = {"nodes": options.nodes, "pods": options.pods}
    with ExitStack() as stack, _customers(plane):
        leader = _start(plane, stack)
        for kind, how in (("clean_stop", signal.SIGTERM), ("crash", signal.SIGKILL)):
            found = []
            for _ in range(options.times):
                standby = _start(plane, stack)
                found.append(_fail_over(plane, leader, how))
                leader = standby
                say(f"{kind}: {found[-1]:.2f} s")
            report[f"{kind}_s"] = found
            report[f"{kind}_within_goal"] = max(found) <= GOALS_S[kind]
    return report


def _start(plane: ControlPlane, stack: ExitStack) -> ChildProcess:
    """A candidate that leads, or stands by with everything read."""
    log = plane.logs / f"fairlead-{time.monotonic_ns()}.log"
    command = [
        FAIRLEAD, "run", "--port", "0", "--leader-elect", "--kubeconfig",
        str(plane.kubeconfig_for()),
    ]  # fmt: skip
    process = stack.enter_context(ChildProcess("fairlead", command, log))
    _until(lambda: any(text in log.read_text() for text in ('"standing by"', '"taken over"')), 180)
    time.sleep(3.0)  # it has looked at the lease more than once
    return process


def _fail_over(plane: ControlPlane, leader: ChildProcess, how: signal.Signals) -> float:
    """Seconds from the signal until a pod is seen that the next leader bound."""
    old = _transitions(plane)
    began = time.monotonic()
    os.kill(leader.pid, how)
    _until(lambda: _bound_since(plane, old), 120)
    return round(time.monotonic() - began, 2)


def _transitions(plane: ControlPlane) -> int:
    path = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/fairlead"
    _, found = plane.api("GET", path)
    return int(found["spec"]["leaseTransitions"])


def _bound_since(plane: ControlPlane, old: int) -> bool:
    _, found = plane.api("GET", f"{_PODS}?labelSelector=customer")
    epochs = (pod["metadata"].get("annotations", {}).get(_EPOCH, "-1/") for pod in found["items"])
    return any(int(epoch.partition("/")[0]) > old for epoch in epochs)


@contextmanager
def _customers(plane: ControlPlane) -> Iterator[None]:
    """Two pods a second, and the oldest leave: somebody always waits."""
    done = threading.Event()

    def come_and_go() -> None:
        names: list[str] = []
        while not done.wait(0.5):
            names.append(f"customer-{time.monotonic_ns()}")
            container = {"name": "main", "image": "bench"}
            meta = {"name": names[-1], "labels": {"customer": "yes"}}
            spec = {"schedulerName": "gpu-scheduler", "containers": [container]}
            plane.api("POST", _PODS, {"metadata": meta, "spec": spec})
            if len(names) > 80:
                plane.api("DELETE", f"{_PODS}/{names.pop(0)}?gracePeriodSeconds=0")

    thread = threading.Thread(target=come_and_go)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _until(holds: Callable[[], bool], within_s: float) -> None:
    deadline = time.monotonic() + within_s
    while not holds():
        if time.monotonic() > deadline:
            raise SystemExit(f"not within {within_s:g} s")
        time.sleep(0.02)


if __name__ == "__main__":
    main()
