"""Gangs on one API server, with kube-scheduler's own gangs, with Volcano's scheduler and Fairlead.

    python bench/gangs_live.py [--nodes 500] [--pods 512] [--gangs 1000] [--rounds 2]
    python bench/gangs_live.py --parts many --sides kube-scheduler fairlead

kube-scheduler and Fairlead read native PodGroups (their gates are on), Volcano its own ones. Its
controllers do not run.
"whole": a gang with one GPU a pod; seconds from the creation of its last pod to its last bind.
"impossible": a gang of 80 pods with 8 GPUs each where 49 nodes fit; how many pods are bound,
seconds until the first pod says why it waits, and CPU and writes of the 20 s after that.
"many": gangs of 8 on as many nodes, created as fast as the API server takes them; seconds from the
first creation, and from the last one, to the last bind, and CPU until then.
"waiting": the same pods are there, and then their PodGroups are created, so that the API server has
little else to do; seconds from the first PodGroup to the last bind, and pods a second.
These two have a control plane of their own for each side, and end `--limit` seconds after the last
creation, or the first PodGroup: then the pods that are bound by then count.
"""

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import yaml

from fairlead.kube.http.client import Client
from fairlead.sim.controlplane import (
    NO_SERVICE_ACCOUNT,
    ChildProcess,
    ControlPlane,
    ControlPlaneError,
)
from ground import ROOT, assets, bind_times, for_all, say, settle, start_scheduler

VOLCANO = "volcano"
SIDES = {"kube-scheduler": "default-scheduler", VOLCANO: VOLCANO, "fairlead": "gpu-scheduler"}
GROUPS = "/apis/scheduling.k8s.io/v1alpha2/namespaces/default/podgroups"
VOLCANO_GROUPS = "/apis/scheduling.volcano.sh/v1beta1/namespaces/default/podgroups"
QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"
MERGE_PATCH = "application/merge-patch+json"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
PODS = "/api/v1/namespaces/default/pods"
GATES = "--feature-gates=GenericWorkload=true,GangScheduling=true"
SERVED = "--runtime-config=scheduling.k8s.io/v1alpha2=true"
#: Of the impossible gang: pods, nodes that fit, and how long it is watched.
LARGE, FITTING, QUIET_S = 80, 49, 20.0
PARTS = ("whole", "impossible", "many", "waiting")
#: Pods of each of many gangs.
SMALL = 8
#: As Volcano's chart writes it.
VOLCANO_CONFIG = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
    enablePreemptable: false
  - name: conformance
- plugins:
  - name: overcommit
  - name: drf
    enablePreemptable: false
  - name: predicates
  - name: proportion
  - name: nodeorder
  - name: binpack
"""
_numbers = count()


def main() -> None:
    options = _options()
    _report(_measured(options), options)


@contextmanager
def _plane(nodes: int) -> Iterator[ControlPlane]:
    """A control plane that knows gangs, with so many nodes of 8 GPUs."""
    plain = (*NO_SERVICE_ACCOUNT, "TaintNodesByCondition")
    programs = assets("--with", "vc-scheduler,vc-controller-manager")
    with (
        tempfile.TemporaryDirectory(prefix="fairlead-bench-") as folder,
        ControlPlane.start(
            programs, Path(folder), disable_admission=plain, apiserver_flags=(GATES, SERVED)
        ) as plane,
    ):
        _define(plane, programs)
        gpus = {"nvidia.com/gpu": "8"}
        plane.create_nodes([f"few-{n}" for n in range(FITTING)], allocatable=gpus,
                           labels={"pool": "few"})  # fmt: skip
        plane.create_nodes([f"n-{n}" for n in range(nodes - FITTING)], allocatable=gpus)
        yield plane


def _measured(options: argparse.Namespace) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    sides, parts = options.sides, options.parts
    if {"whole", "impossible"} & {*parts}:
        with _plane(options.nodes) as plane:
            for number in range(options.rounds):
                for side in sides if number % 2 == 0 else sides[::-1]:
                    one: dict[str, Any] = {"side": side}
                    if "whole" in parts:
                        one |= _whole(plane, side, options.pods)
                    if "impossible" in parts:
                        one |= _impossible(plane, side)
                    found.append(one)
    for part, measure in (("many", _many), ("waiting", _waiting)):
        for side in sides if part in parts and options.gangs else ():
            with _plane(options.gangs) as plane:
                one = measure(plane, side, options.gangs, options.limit)
            say(f"{side}: {one}")
            found.append({"side": side, **one})
    return found


def _define(plane: ControlPlane, programs: Path) -> None:
    """The kinds of Volcano."""
    folder = (programs / "vc-controller-manager").resolve().parent / "definitions"
    for path in sorted(folder.glob("*.yaml")):
        for body in filter(None, yaml.safe_load_all(path.read_text())):
            _post(plane, CRDS, body)
    _wait(lambda: _is_served(plane), "the kinds of Volcano are not served")
    for name in ("root", "default"):  # its controller would open them
        kind = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue"}
        spec = {"weight": 1, **({"parent": "root"} if name == "default" else {})}
        _post(plane, QUEUES, {**kind, "metadata": {"name": name}, "spec": spec})
        is_open = {"status": {"state": "Open"}}
        path = f"{QUEUES}/{name}/status"
        status, answer = plane.api("PATCH", path, is_open, content_type=MERGE_PATCH)
        assert status == 200, answer


def _is_served(plane: ControlPlane) -> bool:
    try:
        return all(plane.api("GET", path)[0] == 200 for path in (VOLCANO_GROUPS, QUEUES))
    except ControlPlaneError:  # a group that is not served answers in plain text
        return False


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--nodes", type=int, default=500)
    parser.add_argument("--pods", type=int, default=512)
    parser.add_argument("--gangs", type=int, default=1000, help="of 8 pods; 0 for none")
    parser.add_argument("--rounds", type=int, default=2, help="each side, in turn")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--sides", nargs="+", choices=SIDES, default=list(SIDES))
    parser.add_argument(
        "--limit", type=float, default=120.0, help="seconds after the last creation"
    )
    parser.add_argument("--out", type=Path, default=ROOT / "bench" / "results" / "gangs-live.json")
    return parser.parse_args()


@contextmanager
def _scheduling(plane: ControlPlane, side: str) -> Iterator[ChildProcess]:
    """A scheduler that has read the cluster."""
    with _started(plane, side) as process:
        _settle(process, side)
        yield process


def _started(plane: ControlPlane, side: str) -> AbstractContextManager[ChildProcess]:
    if side == "kube-scheduler":
        config = {"clientConnection": {"qps": 5000, "burst": 5000}}
        return plane.start_kube_scheduler(config, flags=[GATES])
    return _volcano(plane) if side == VOLCANO else start_scheduler(plane, side)


def _settle(process: ChildProcess, side: str) -> None:
    """Volcano looks at everything once a second, and is never idle."""
    settle(process, 0.3 if side == VOLCANO else 0.04, 15 if side == VOLCANO else 600)


def _volcano(plane: ControlPlane) -> ChildProcess:
    config = plane.directory / "volcano.conf"
    config.write_text(VOLCANO_CONFIG)
    flags = [
        f"--kubeconfig={plane.kubeconfig_for()}", f"--scheduler-conf={config}",
        "--leader-elect=false", "--cache-dumper=false", "--listen-address=127.0.0.1:0",
    ]  # fmt: skip
    program = assets("--with", "vc-scheduler") / "vc-scheduler"
    return ChildProcess(VOLCANO, [str(program), *flags], plane.logs / "vc-scheduler.log")


def _many(plane: ControlPlane, side: str, gangs: int, limit_s: float) -> dict[str, float]:
    say(f"{side}: {gangs} gangs of {SMALL}")
    admin, pods = str(plane.kubeconfig_for()), gangs * SMALL
    with _scheduling(plane, side) as process, bind_times(admin) as times:
        cpu_s, begun_s = process.cpu_seconds(), time.monotonic()
        _create_many(admin, side, [f"many-{next(_numbers)}" for _ in range(gangs)])
        created_s = time.monotonic()
        found = _awaited(times, pods, created_s + limit_s)
        cpu_s = process.cpu_seconds() - cpu_s
    return {"many_bound": len(found), "many_s": found[-1] - begun_s,
            "many_after_s": max(0.0, found[-1] - created_s),
            "many_cpu_ms_per_pod": 1000 * cpu_s / len(found)}  # fmt: skip


def _waiting(plane: ControlPlane, side: str, gangs: int, limit_s: float) -> dict[str, float]:
    say(f"{side}: {gangs} gangs of {SMALL} that wait for their PodGroups")
    admin, pods = str(plane.kubeconfig_for()), gangs * SMALL
    names = [f"many-{next(_numbers)}" for _ in range(gangs)]
    with _scheduling(plane, side) as process, bind_times(admin) as times:
        _create_many(admin, side, names, groups=False)
        _settle(process, side)
        cpu_s, begun_s = process.cpu_seconds(), time.monotonic()
        _create_many(admin, side, names, pods=False)
        found = _awaited(times, pods, begun_s + limit_s)
        cpu_s = process.cpu_seconds() - cpu_s
    return {"waiting_bound": len(found), "waiting_s": found[-1] - begun_s,
            "waiting_pods_per_s": len(found) / (found[-1] - begun_s),
            "waiting_cpu_ms_per_pod": 1000 * cpu_s / len(found)}  # fmt: skip


def _create_many(
    admin: str, side: str, names: list[str], *, groups: bool = True, pods: bool = True
) -> None:
    async def create(client: Client, number: int) -> None:
        bodies = [(_groups(side), _group_body(names[number], side, SMALL))] if groups else []
        members = range(number * SMALL, (number + 1) * SMALL) if pods else ()
        bodies += [(PODS, _pod(n, names[number], side, 1)) for n in members]
        for path, body in bodies:
            reply = await client.request("POST", path, body=json.dumps(body).encode())
            assert reply.status == 201, reply.message

    asyncio.run(for_all(admin, create, len(names)))


def _awaited(times: list[float], pods: int, until_s: float) -> list[float]:
    """When pods were bound, in order; all of them, or those of the time limit."""
    while len(times) < pods and time.monotonic() < until_s:
        time.sleep(0.01)
    return sorted(times)[:pods] or [until_s]


def _groups(side: str) -> str:
    return VOLCANO_GROUPS if side == VOLCANO else GROUPS


def _whole(plane: ControlPlane, side: str, pods: int) -> dict[str, float]:
    say(f"{side}: a gang of {pods}")
    admin = str(plane.kubeconfig_for())
    gang = _group(plane, side, pods)
    with _scheduling(plane, side) as process:
        asyncio.run(_create(admin, gang, side, pods - 1, gpus=1))
        _settle(process, side)
        cpu_s = process.cpu_seconds()
        with bind_times(admin) as times:
            _post(plane, PODS, _pod(pods - 1, gang, side, gpus=1))
            created_s = time.monotonic()
            _wait(lambda: len(times) >= pods, f"{side}: only {len(times)} pods were bound")
        _settle(process, side)
        cpu_s = process.cpu_seconds() - cpu_s
    _delete(plane, pods)
    return {"whole_s": times[pods - 1] - created_s, "whole_cpu_ms_per_pod": 1000 * cpu_s / pods}


def _impossible(plane: ControlPlane, side: str) -> dict[str, float]:
    say(f"{side}: an impossible gang of {LARGE}")
    admin = str(plane.kubeconfig_for())
    gang = _group(plane, side, LARGE)
    with _scheduling(plane, side) as process:
        asyncio.run(_create(admin, gang, side, LARGE - 1, gpus=8, pool="few"))
        _settle(process, side)
        _post(plane, PODS, _pod(LARGE - 1, gang, side, gpus=8, pool="few"))
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
    # Volcano says Schedulable of pods that would fit.
    return any(each["type"] == "PodScheduled" and "chedulable" in each.get("reason", "")
               for each in pod["status"].get("conditions", ()))  # fmt: skip


def _version(plane: ControlPlane) -> int:
    """Of the whole store: it grows by one with each write."""
    _, found = plane.api("GET", "/api/v1/namespaces?limit=1")
    return int(found["metadata"]["resourceVersion"])


def _pod(number: int, gang: str, side: str, gpus: int, pool: str = "") -> dict[str, Any]:
    limits = {"nvidia.com/gpu": str(gpus)}
    container = {"name": "main", "image": "bench", "resources": {"limits": limits}}
    spec: dict[str, Any] = {"schedulerName": SIDES[side], "containers": [container]}
    meta: dict[str, Any] = {"name": f"pod-{number:05d}"}
    if side == VOLCANO:
        meta["annotations"] = {"scheduling.k8s.io/group-name": gang}
    else:
        spec["schedulingGroup"] = {"podGroupName": gang}
    if pool:
        spec["nodeSelector"] = {"pool": pool}
    return {"metadata": meta, "spec": spec}


def _group(plane: ControlPlane, side: str, minimum: int) -> str:
    """A new one: a finalizer keeps the old ones."""
    name = f"gang-{next(_numbers)}"
    _post(plane, _groups(side), _group_body(name, side, minimum))
    return name


def _group_body(name: str, side: str, minimum: int) -> dict[str, Any]:
    meta = {"name": name}
    if side == VOLCANO:
        return {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup",
                "metadata": meta, "spec": {"minMember": minimum, "queue": "default"},
                "status": {"phase": "Pending"}}  # fmt: skip
    return {"metadata": meta, "spec": {"schedulingPolicy": {"gang": {"minCount": minimum}}}}


def _post(plane: ControlPlane, path: str, body: dict[str, Any]) -> None:
    status, answer = plane.api("POST", path, body)
    assert status == 201, answer


async def _create(
    kubeconfig: str, gang: str, side: str, pods: int, gpus: int, pool: str = ""
) -> None:
    async def create(client: Client, number: int) -> None:
        body = json.dumps(_pod(number, gang, side, gpus, pool)).encode()
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
    fields = dict.fromkeys(field for one in found for field in one if field != "side")
    print(f"\na gang of {options.pods} on {options.nodes} nodes, {options.gangs} gangs; medians:")
    print(f"{'':28}" + "".join(f"{side:>16}" for side in options.sides))
    for field in fields:
        values = (_median(found, side, field) for side in options.sides)
        print(f"{field:28}" + "".join(f"{value:>16.3f}" for value in values))
    command = " ".join(["python", "bench/gangs_live.py", *sys.argv[1:]])
    print(f"again: {command}")
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps({"measured": found, "command": command}, indent=1) + "\n")


def _median(found: list[dict[str, Any]], side: str, field: str) -> float:
    values = [one[field] for one in found if one["side"] == side and field in one]
    return statistics.median(values) if values else float("nan")


if __name__ == "__main__":
    main()
