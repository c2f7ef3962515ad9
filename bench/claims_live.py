"""kube-scheduler's DRA cases (scheduler_perf), with kube-scheduler, with Fairlead, and the floor.

    python bench/claims_live.py [--nodes 500] [--pods 1000] [--cases claims templates full steady]

500 nodes have 10 devices each, in one slice. Each case and side has a control plane of its own.
"claims": pods with a claim each that exists, onto an empty cluster. "templates": the claims come
from a template, half of the devices are in use before. "full": 90 % are in use before. In these the
backlog is there before the scheduler starts, and pods a second count from the first bind to the
last. "steady": pods with a template come while others end, 100 at a time, for --seconds; a pod is
deleted when it is bound, and kube-controller-manager frees its device.
The floor is a client that only writes: finalizer, allocation with reservation, binding, and then
events, in the bodies that Fairlead sends, as the same ServiceAccount. It watches pods and claims,
since every scheduler has to, and reads nothing of what it is told. It decides nothing: devices are
taken as they are free; in the steady state it reads the watches, and a pod is bound when they have
shown it and its claim, with its event.
"""

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import uvloop

from bare_client import each, tell, watch
from fairlead.engine.instructions import Bind
from fairlead.kube.access.kubeconfig import load_access
from fairlead.kube.claims.claims import decode_claim
from fairlead.kube.claims.patches import allocated, finalizer_patch
from fairlead.kube.codec import decode_pod
from fairlead.kube.http.client import Client
from fairlead.kube.http.transport import JSON_PATCH
from fairlead.kube.writes.binder import encode_binding
from fairlead.model.claims import AllocatedDevice, Allocation, ClaimUser, ResourceClaim
from fairlead.model.pods import NodeTerm, Pod
from fairlead.model.selectors import Requirement
from fairlead.sim.controlplane import NO_SERVICE_ACCOUNT, ChildProcess, ControlPlane
from ground import (
    ROOT,
    api_cpu_s,
    assets,
    bind_times,
    for_all,
    say,
    scheduler_account,
    settle,
    start_scheduler,
)

DRIVER, CLASS, DEVICES = "test-driver.cdi.k8s.io", "test-class", 10
API = "/apis/resource.k8s.io/v1"
CLAIMS = f"{API}/namespaces/default/resourceclaims"
ALL_CLAIMS = f"{API}/resourceclaims"
TEMPLATES = f"{API}/namespaces/default/resourceclaimtemplates"
PODS = "/api/v1/namespaces/default/pods"
FLOOR = "floor"
SIDES = {"kube-scheduler": "default-scheduler", "fairlead": "gpu-scheduler", FLOOR: "floor"}
SPEC = {"devices": {"requests": [{"name": "req-0", "exactly": {"deviceClassName": CLASS}}]}}
CONTROLLERS = ("resourceclaim-controller",)
#: By default it writes 20 times a second.
FAST = ("--kube-api-qps=5000", "--kube-api-burst=5000")
AT_ONCE = 100


@dataclass(frozen=True, slots=True)
class Case:
    #: Part of the devices that is in use before.
    used: float
    has_templates: bool


CASES = {
    "claims": Case(0.0, has_templates=False),
    "templates": Case(0.5, has_templates=True),
    "full": Case(0.9, has_templates=False),
    "steady": Case(0.5, has_templates=True),
}


def main() -> None:
    options = _options()
    found = []
    for number in range(options.rounds):
        for case in options.cases:
            for side in options.sides if number % 2 == 0 else options.sides[::-1]:
                found.append({"case": case, "side": side, **_measured(case, side, options)})
                say(str(found[-1]))
    command = f"python bench/claims_live.py --nodes {options.nodes} --pods {options.pods}"
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps({"command": command, "rounds": found}, indent=1) + "\n")
    _print(found)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--nodes", type=int, default=500)
    parser.add_argument("--pods", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--sides", nargs="+", choices=SIDES, default=list(SIDES))
    parser.add_argument("--out", type=Path, default=ROOT / "bench" / "results" / "claims-live.json")
    return parser.parse_args()


def _measured(name: str, side: str, options: argparse.Namespace) -> dict[str, float]:
    case = CASES[name]
    free = round(options.nodes * DEVICES * (1 - case.used))
    pods = min(options.pods, free)
    with (
        tempfile.TemporaryDirectory(prefix="fairlead-bench-") as folder,
        ControlPlane.start(assets(), Path(folder), disable_admission=NO_SERVICE_ACCOUNT) as plane,
        ExitStack() as controllers,
    ):
        say(f"{name}, {side}: {options.nodes} nodes, {pods} pods")
        admin = str(plane.kubeconfig_for())
        _publish(plane, options.nodes)
        if case.has_templates:
            manager = plane.start_controller_manager(CONTROLLERS, flags=FAST)
            controllers.enter_context(manager)
            path, kind = TEMPLATES, {"metadata": {"name": "one"}, "spec": {"spec": SPEC}}
            _post(plane, path, kind)
        asyncio.run(_occupy(admin, round(options.nodes * DEVICES * case.used), options.nodes))
        if name == "steady":
            return _steady(plane, side, admin, options.seconds)
        asyncio.run(_backlog(admin, SIDES[side], pods, case))
        return _drained(plane, side, admin, pods)


def _publish(plane: ControlPlane, nodes: int) -> None:
    plane.create_nodes([f"n-{number}" for number in range(nodes)])
    selector = {"cel": {"expression": f"device.driver == '{DRIVER}'"}}
    _post(plane, f"{API}/deviceclasses",
          {"metadata": {"name": CLASS}, "spec": {"selectors": [selector]}})  # fmt: skip
    for number in range(nodes):
        node = f"n-{number}"
        pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
        devices = [{"name": f"device-{index}"} for index in range(DEVICES)]
        spec = {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": devices}
        _post(plane, f"{API}/resourceslices", {"metadata": {"name": node}, "spec": spec})


def _post(plane: ControlPlane, path: str, body: dict[str, Any]) -> None:
    status, answer = plane.api("POST", path, body)
    assert status == 201, answer


async def _occupy(admin: str, count: int, nodes: int) -> None:
    """Claims that have devices, the same number on each node.

    As in scheduler_perf no pod has them reserved: kube-controller-manager would free them.
    """

    async def occupy(client: Client, number: int) -> None:
        body = {"metadata": {"name": f"used-{number}"}, "spec": SPEC}
        reply = await client.request("POST", CLAIMS, body=json.dumps(body).encode())
        assert reply.status == 201, reply.message
        where = _allocation(f"n-{number % nodes}", number // nodes)
        await _write(client, decode_claim(reply.body), None, where)

    await for_all(admin, occupy, count)


def _allocation(node: str, device: int) -> Allocation:
    only = NodeTerm(fields=(Requirement("metadata.name", "In", (node,)),))
    result = AllocatedDevice("req-0", DRIVER, node, f"device-{device}")
    return Allocation((result,), node_terms=(only,), allocated_at=time.time())


async def _write(
    client: Client, claim: ResourceClaim, user: ClaimUser | None, allocation: Allocation
) -> None:
    path, patch = f"{CLAIMS}/{claim.name}", msgspec.json.encode(finalizer_patch(claim))
    reply = await client.request("PATCH", path, body=patch, content_type=JSON_PATCH)
    assert reply.status == 200, reply.message
    body = allocated(decode_claim(reply.body), user, allocation)
    reply = await client.request("PUT", f"{path}/status", body=msgspec.json.encode(body))
    assert reply.status == 200, reply.message


async def _backlog(admin: str, scheduler: str, pods: int, case: Case) -> None:
    async def create(client: Client, number: int) -> None:
        name = f"pod-{number:05d}"
        if not case.has_templates:
            claim = {"metadata": {"name": name}, "spec": SPEC}
            await client.request("POST", CLAIMS, body=json.dumps(claim).encode())
        await _create_pod(client, name, scheduler, case)

    await for_all(admin, create, pods)
    client = Client(load_access(admin))
    while case.has_templates and not await _all_have_claims(client):
        await asyncio.sleep(0.5)
    await client.close()


async def _create_pod(client: Client, name: str, scheduler: str, case: Case) -> None:
    source = {"resourceClaimTemplateName": "one"} if case.has_templates else {
        "resourceClaimName": name
    }  # fmt: skip
    container = {"name": "c", "image": "bench", "resources": {"claims": [{"name": "r"}]}}
    spec = {
        "schedulerName": scheduler, "containers": [container],
        "resourceClaims": [{"name": "r", **source}],
    }  # fmt: skip
    body = {"metadata": {"name": name, "labels": {"app": "bench"}}, "spec": spec}
    reply = await client.request("POST", PODS, body=json.dumps(body).encode())
    assert reply.status == 201, reply.message


async def _all_have_claims(client: Client) -> bool:
    reply = await client.request("GET", PODS, timeout_s=60)
    pods = json.loads(reply.body)["items"]
    return all(pod["status"].get("resourceClaimStatuses") for pod in pods)


@contextmanager
def _side(plane: ControlPlane, side: str, *, is_steady: bool = False) -> Iterator[ChildProcess]:
    if side != FLOOR:
        with start_scheduler(plane, side) as process:
            yield process
        return
    kubeconfig = str(plane.kubeconfig_for(scheduler_account(plane)))
    command = [sys.executable, __file__, "--steady" if is_steady else "--floor", kubeconfig]
    with ChildProcess(FLOOR, command, plane.logs / "floor.log") as process:
        yield process
        if not process.alive:
            raise SystemExit((plane.logs / "floor.log").read_text()[-2000:])


def _drained(plane: ControlPlane, side: str, admin: str, pods: int) -> dict[str, float]:
    settle(plane.process("kube-apiserver"), within_s=20)
    before_s = api_cpu_s(plane)
    with bind_times(admin) as times, _side(plane, side) as process:
        _wait(times, pods, process)
        cpu_s, rss = process.cpu_seconds(), process.peak_rss_bytes()
        api_s = api_cpu_s(plane) - before_s
    return {
        "pods_per_s": round((pods - 1) / (times[-1] - times[0]), 1),
        "cpu_ms_per_pod": round(cpu_s / pods * 1e3, 2),
        "api_cpu_ms_per_pod": round(api_s / pods * 1e3, 2),
        "peak_rss_mib": round(rss / 2**20, 1),
    }


def _wait(times: list[float], pods: int, process: ChildProcess) -> None:
    until = time.monotonic() + 300
    while len(times) < pods:
        if not process.alive or time.monotonic() > until:
            raise SystemExit(f"{process.name}: only {len(times)} of {pods} pods were bound")
        time.sleep(0.05)


# -- pods that come and go -------------------------------------------------------------------------


def _steady(plane: ControlPlane, side: str, admin: str, seconds: float) -> dict[str, float]:
    with _side(plane, side, is_steady=True) as process:
        settle(process, within_s=30)
        cpu_s, api_s = process.cpu_seconds(), api_cpu_s(plane)
        count, spent_s = asyncio.run(_come_and_go(admin, SIDES[side], seconds))
        cpu_s, api_s = process.cpu_seconds() - cpu_s, api_cpu_s(plane) - api_s
        rss = process.peak_rss_bytes()
    return {
        "pods_per_s": round(count / spent_s, 1),
        "cpu_ms_per_pod": round(cpu_s / count * 1e3, 2),
        "api_cpu_ms_per_pod": round(api_s / count * 1e3, 2),
        "peak_rss_mib": round(rss / 2**20, 1),
    }


async def _come_and_go(admin: str, scheduler: str, seconds: float) -> tuple[int, float]:
    """How many pods were bound, and how long it took."""
    client = Client(load_access(admin))
    bound: asyncio.Queue[str] = asyncio.Queue()
    watcher = Client(load_access(admin))
    watching = asyncio.create_task(_see_binds(watcher, bound))
    await asyncio.sleep(1.0)
    began_s, numbers, count = time.monotonic(), iter(range(10**6)), 0

    async def create() -> None:
        await _create_pod(client, f"s-{next(numbers)}", scheduler, CASES["steady"])

    await asyncio.gather(*(create() for _ in range(AT_ONCE)))
    work: set[asyncio.Task[Any]] = set()
    while (left_s := began_s + seconds - time.monotonic()) > 0:
        try:
            name = await asyncio.wait_for(bound.get(), left_s)
        except TimeoutError:
            break
        count += 1
        gone = {"gracePeriodSeconds": "0"}
        for job in (client.request("DELETE", f"{PODS}/{name}", params=gone), create()):
            task = asyncio.ensure_future(job)
            work.add(task)
            task.add_done_callback(work.discard)
    spent_s = time.monotonic() - began_s
    if watching.done():
        watching.result()
    watching.cancel()
    await asyncio.gather(*work, return_exceptions=True)
    await client.close()
    await watcher.close()
    return count, spent_s


async def _see_binds(client: Client, bound: asyncio.Queue[str]) -> None:
    """Ten times a second: the same work of the API server for all sides."""
    params, seen = {"fieldSelector": "spec.nodeName!="}, set[str]()
    while True:
        reply = await client.request("GET", PODS, params=params, timeout_s=60)
        names = {one["metadata"]["name"] for one in json.loads(reply.body)["items"]}
        for name in names - seen:
            bound.put_nowait(name)
        seen |= names
        await asyncio.sleep(0.1)


# -- the floor -------------------------------------------------------------------------------------


async def floor(kubeconfig: str) -> None:
    """Writes what Fairlead writes, for all pods, to devices that are free, in turn."""
    client = Client(load_access(kubeconfig))
    nodes = len(json.loads((await client.request("GET", "/api/v1/nodes")).body)["items"])
    listed = json.loads((await client.request("GET", CLAIMS, timeout_s=60)).body)["items"]
    claims = {one["metadata"]["name"]: decode_claim(json.dumps(one).encode()) for one in listed}
    used = sum(claim.allocation is not None for claim in claims.values())
    raw = json.loads((await client.request("GET", PODS, timeout_s=60)).body)["items"]
    jobs = []
    for number, one in enumerate(raw, start=used):
        pod = decode_pod(json.dumps(one).encode())
        statuses = one["status"].get("resourceClaimStatuses")
        name = statuses[0]["resourceClaimName"] if statuses else pod.name
        jobs.append((pod, claims[name], f"n-{number % nodes}", number // nodes))

    watching = [asyncio.create_task(watch(client, path)) for path in ("/api/v1/pods", ALL_CLAIMS)]
    await each(jobs, lambda job: _bind(client, *job))
    await each(jobs, lambda job: tell(client, Bind(job[0], job[2])))
    await asyncio.gather(*watching)


async def _bind(client: Client, pod: Pod, claim: ResourceClaim, node: str, device: int) -> None:
    user = ClaimUser(pod.uid, pod.name)
    await _write(client, claim, user, _allocation(node, device))
    body = encode_binding(Bind(pod, node))
    reply = await client.request("POST", f"{PODS}/{pod.name}/binding", body=body)
    assert reply.status == 201, reply.message


async def _bind_and_tell(client: Client, pod: Pod, claim: ResourceClaim, *at: Any) -> None:
    await _bind(client, pod, claim, *at)
    await tell(client, Bind(pod, at[0]))


class SteadyFloor:
    """Binds pods as they come, to devices that are free."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._free: deque[tuple[str, int]] = deque()
        self._claims: dict[str, ResourceClaim] = {}
        #: Pods by the claim that was made for them, until both are shown.
        self._waiting: dict[str, Pod] = {}
        self._held: dict[str, tuple[str, int]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        reply = await self._client.request("GET", "/api/v1/nodes")
        nodes = [one["metadata"]["name"] for one in json.loads(reply.body)["items"]]
        reply = await self._client.request("GET", CLAIMS, timeout_s=60)
        listed = json.loads(reply.body)
        claims = (decode_claim(json.dumps(one).encode()) for one in listed["items"])
        given = (claim.allocation.devices for claim in claims if claim.allocation)
        used = {(each.pool, each.device) for devices in given for each in devices}
        every = ((node, number) for number in range(DEVICES) for node in nodes)
        self._free.extend(each for each in every if (each[0], f"device-{each[1]}") not in used)
        since = listed["metadata"]["resourceVersion"]
        await asyncio.gather(
            self._watch(CLAIMS, since, self._see_claim), self._watch(PODS, since, self._see_pod)
        )

    async def _watch(self, path: str, since: str, see: Callable[[str, Any], None]) -> None:
        params = {"watch": "true", "resourceVersion": since}
        async with self._client.watch(path, params) as stream:
            while (lines := await stream.lines()) is not None:
                for line in lines:
                    event = msgspec.json.decode(line)
                    see(event["type"], event["object"])
                    self._bind_next()

    def _see_claim(self, kind: str, shown: Any) -> None:
        claim = decode_claim(json.dumps(shown).encode())
        if kind != "DELETED":
            self._claims[claim.name] = claim
        elif (device := self._held.pop(claim.name, None)) is not None:
            self._claims.pop(claim.name, None)
            self._free.append(device)

    def _see_pod(self, kind: str, shown: Any) -> None:
        statuses = shown["status"].get("resourceClaimStatuses")
        if kind == "DELETED" or shown["spec"].get("nodeName") or not statuses:
            return
        name = statuses[0]["resourceClaimName"]
        if name not in self._held:
            self._waiting[name] = decode_pod(json.dumps(shown).encode())

    def _bind_next(self) -> None:
        for name in [name for name in self._waiting if name in self._claims]:
            if not self._free:
                return
            device = self._held[name] = self._free.popleft()
            pod, claim = self._waiting.pop(name), self._claims[name]
            task = asyncio.create_task(_bind_and_tell(self._client, pod, claim, *device))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)


async def steady_floor(kubeconfig: str) -> None:
    await SteadyFloor(Client(load_access(kubeconfig))).run()


def _print(found: list[dict[str, Any]]) -> None:
    print(f"{'case':12}{'side':18}{'pods/s':>10}{'cpu ms':>10}{'api ms':>10}{'MiB':>8}")
    for one in found:
        figures = (one["pods_per_s"], one["cpu_ms_per_pod"], one["api_cpu_ms_per_pod"])
        cells = "".join(f"{figure:>10}" for figure in figures)
        print(f"{one['case']:12}{one['side']:18}{cells}{one['peak_rss_mib']:>8}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--floor"]:
        uvloop.run(floor(sys.argv[2]))
    elif sys.argv[1:2] == ["--steady"]:
        uvloop.run(steady_floor(sys.argv[2]))
    else:
        main()
