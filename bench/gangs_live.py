"""Gangs on one API server, with kube-scheduler's own gangs and with Fairlead.

    python bench/gangs_live.py [--nodes 500] [--pods 512] [--rounds 2]

Both read the same native PodGroups (kube-apiserver and kube-scheduler run with their gates on).
"whole": a gang with one GPU a pod; seconds from the creation of its last pod to its last bind.
"impossible": a gang of 80 pods with 8 GPUs each where 49 nodes fit; how many pods are bound,
seconds until the first pod says why it waits, and CPU and writes of the 20 s after that.
"""

import argparse
import asyncio
import json
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

from fairlead.kube.http.client import Client
from fairlead.sim.controlplane import NO_SERVICE_ACCOUNT, ChildProcess, ControlPlane
from ground import ROOT, assets, bind_times, for_all, say, settle, start_scheduler

SIDES = {"kube-scheduler": "default-scheduler", "fairlead": "gpu-scheduler"}
GROUPS = "/apis/scheduling.k8s.io/v1alpha2/namespaces/default/podgroups"
PODS = "/api/v1/namespaces/default/pods"
GATES = "--feature-gates=GenericWorkload=true,GangScheduling=true"
SERVED = "--runtime-config=scheduling.k8s.io/v1alpha2=true"
#: Of the impossible gang: pods, nodes that fit, and how long it is watched.
LARGE, FITTING, QUIET_S = 80, 49, 20.0
_numbers = count()


def main() -> None:
    options = _options()
    plain = (*NO_SERVICE_ACCOUNT, "TaintNodesByCondition")
    with (
        tempfile.TemporaryDirectory(prefix="fairlead-bench-") as folder,
        ControlPlane.start(
            assets(), Path(folder), disable_admission=plain, apiserver_flags=(GATES, SERVED)
        ) as plane,
    ):
        gpus = {"nvidia.com/gpu": "8"}
        plane.create_nodes([f"few-{n}" for n in range(FITTING)], allocatable=gpus,
                           labels={"pool": "few"})  # fmt: skip
        plane.create_nodes([f"n-{n}" for n in range(options.nodes - FITTING)], allocatable=gpus)
        found = [
            {"side": side, **_whole(plane, side, options.pods), **_impossible(plane, side)}
            for number in range(options.rounds)
            for side in (SIDES if number % 2 == 0 else reversed(SIDES))
        ]
    _report(found, options)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--nodes", type=int, default=500)
    parser.add_argument("--pods", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=2, help="each side, in turn")
    parser.add_argument("--out", type=Path, default=ROOT / "bench" / "results" / "gangs-live.json")
    return parser.parse_args()


@contextmanager
def _scheduling(plane: ControlPlane, side: str) -> Iterator[ChildProcess]:
    """A scheduler that has read the cluster."""
    if side == "kube-scheduler":
        config = {"clientConnection": {"qps": 5000, "burst": 5000}}
        started = plane.start_kube_scheduler(config, flags=[GATES])
    else:
        started = start_scheduler(plane, side)
    with started as process:
        settle(process)
        yield process


def _whole(plane: ControlPlane, side: str, pods: int) -> dict[str, float]:
    say(f"{side}: a gang of {pods}")
    admin = str(plane.kubeconfig_for())
    gang = _group(plane, pods)
    with _scheduling(plane, side) as process:
        asyncio.run(_create(admin, gang, SIDES[side], pods - 1, gpus=1))
        settle(process)
        cpu_s = process.cpu_seconds()
        with bind_times(admin) as times:
            _post(plane, PODS, _pod(pods - 1, gang, SIDES[side], gpus=1))
            created_s = time.monotonic()
            _wait(lambda: len(times) >= pods, f"{side}: only {len(times)} pods were bound")
        settle(process)
        cpu_s = process.cpu_seconds() - cpu_s
    _delete(plane, pods)
    return {"whole_s": times[pods - 1] - created_s, "whole_cpu_ms_per_pod": 1000 * cpu_s / pods}


def _impossible(plane: ControlPlane, side: str) -> dict[str, float]:
    say(f"{side}: an impossible gang of {LARGE}")
    admin = str(plane.kubeconfig_for())
    gang = _group(plane, LARGE)
    with _scheduling(plane, side) as process:
        asyncio.run(_create(admin, gang, SIDES[side], LARGE - 1, gpus=8, pool="few"))
        settle(process)
        _post(plane, PODS, _pod(LARGE - 1, gang, SIDES[side], gpus=8, pool="few"))
        created_s = time.monotonic()
        _wait(lambda: _said(plane), f"{side}: no pod says why it waits")
        said_s = time.monotonic() - created_s
        cpu_s, version = process.cpu_seconds(), _version(plane)
        time.sleep(QUIET_S)
        cpu_s = process.cpu_seconds() - cpu_s
        _, found = plane.api("GET", PODS)
        bound = sum(bool(pod["spec"].get("nodeName")) for pod in found["items"])
        writes = _version(plane) - version
    _delete(plane, LARGE)
    return {"impossible_bound": bound, "impossible_said_s": said_s,
            "impossible_cpu_s_in_20_s": cpu_s, "impossible_writes_in_20_s": writes}  # fmt: skip


def _said(plane: ControlPlane) -> bool:
    _, pod = plane.api("GET", f"{PODS}/pod-00000")
    return any(each["type"] == "PodScheduled" and each.get("reason") == "Unschedulable"
               for each in pod["status"].get("conditions", ()))  # fmt: skip


def _version(plane: ControlPlane) -> int:
    """Of the whole store: it grows by one with each write."""
    _, found = plane.api("GET", "/api/v1/namespaces?limit=1")
    return int(found["metadata"]["resourceVersion"])


def _pod(number: int, gang: str, scheduler: str, gpus: int, pool: str = "") -> dict[str, Any]:
    limits = {"nvidia.com/gpu": str(gpus)}
    container = {"name": "main", "image": "bench", "resources": {"limits": limits}}
    spec = {"schedulerName": scheduler, "containers": [container],
            "schedulingGroup": {"podGroupName": gang}}  # fmt: skip
    if pool:
        spec["nodeSelector"] = {"pool": pool}
    return {"metadata": {"name": f"pod-{number:05d}"}, "spec": spec}


def _group(plane: ControlPlane, minimum: int) -> str:
    """A new one: a finalizer keeps the old ones."""
    name = f"gang-{next(_numbers)}"
    spec = {"schedulingPolicy": {"gang": {"minCount": minimum}}}
    _post(plane, GROUPS, {"metadata": {"name": name}, "spec": spec})
    return name


def _post(plane: ControlPlane, path: str, body: dict[str, Any]) -> None:
    status, answer = plane.api("POST", path, body)
    assert status == 201, answer


async def _create(
    kubeconfig: str, gang: str, scheduler: str, pods: int, gpus: int, pool: str = ""
) -> None:
    async def create(client: Client, number: int) -> None:
        body = json.dumps(_pod(number, gang, scheduler, gpus, pool)).encode()
        reply = await client.request("POST", PODS, body=body)
        assert reply.status == 201, reply.message

    await for_all(kubeconfig, create, pods)


def _delete(plane: ControlPlane, pods: int) -> None:
    async def delete(client: Client, number: int) -> None:
        path = f"{PODS}/pod-{number:05d}"
        await client.request("DELETE", path, params={"gracePeriodSeconds": "0"})

    admin = str(plane.kubeconfig_for())
    asyncio.run(for_all(admin, delete, pods))


def _wait(done: Any, problem: str, within_s: float = 120.0) -> None:
    until = time.monotonic() + within_s
    while not done():
        if time.monotonic() > until:
            raise SystemExit(problem)
        time.sleep(0.005)


def _report(found: list[dict[str, Any]], options: argparse.Namespace) -> None:
    fields = [field for field in found[0] if field != "side"]
    print(f"\na gang of {options.pods} on {options.nodes} nodes, medians:")
    print(f"{'':28}" + "".join(f"{side:>16}" for side in SIDES))
    for field in fields:
        values = (
            statistics.median(each[field] for each in found if each["side"] == side)
            for side in SIDES
        )
        print(f"{field:28}" + "".join(f"{value:>16.3f}" for value in values))
    command = f"python bench/gangs_live.py --nodes {options.nodes} --pods {options.pods}"
    print(f"again: {command} --rounds {options.rounds}")
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps({"rounds": found, "command": command}, indent=1) + "\n")


if __name__ == "__main__":
    main()
