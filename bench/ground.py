"""What the benchmarks on a real API server share."""

import asyncio
import compileall
import json
import math
import re
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from fairlead.kube.access.kubeconfig import load_access
from fairlead.kube.errors import Stalled
from fairlead.kube.http.client import Client
from fairlead.sim.controlplane import ChildProcess, ControlPlane, served, service_account

ROOT = Path(__file__).parents[1]
_ADDED = b'{"type":"ADDED"'
_VERSION = re.compile(rb'"resourceVersion":"(\d+)"')
FAIRLEAD = str(Path(sys.executable).with_name("fairlead"))


def say(text: str) -> None:
    print(f"[{time.strftime('%H:%M:%S')}] {text}", file=sys.stderr, flush=True)


def assets(*options: str) -> Path:
    """The folder of the control plane's programs; `options` are those of `build.py`."""
    build = [sys.executable, str(ROOT / "controlplane" / "build.py"), *options]
    return Path(
        subprocess.run(build, stdout=subprocess.PIPE, text=True, check=True).stdout.split()[-1]
    )


def compile_sources() -> None:
    """An installed package has its bytecode; a checkout may not, and may not be let write it."""
    compileall.compile_dir(ROOT / "src", quiet=2)


@contextmanager
def start_scheduler(
    plane: ControlPlane, side: str, *options: str, victims: int = 0
) -> Iterator[ChildProcess]:
    """A fresh kube-scheduler, which may send 5,000 requests a second, or Fairlead with options.

    Any other side is the client that only writes, and evicts so many victims for each pod. All are
    the same ServiceAccount.
    """
    identity = scheduler_account(plane)
    if side == "kube-scheduler":
        config = {"clientConnection": {"qps": 5000, "burst": 5000}}
        with plane.start_kube_scheduler(config, identity=identity) as process:
            yield process
        return
    kubeconfig = str(plane.kubeconfig_for(identity))
    if side != "fairlead":
        command = [
            sys.executable,
            str(ROOT / "bench" / "bare_client.py"),
            kubeconfig,
            "bench-measured",
            str(victims),
        ]
        with ChildProcess("bare-client", command, plane.logs / "bare-client.log") as process:
            yield process
        return
    compile_sources()
    access = ("--kubeconfig", kubeconfig)
    command = [FAIRLEAD, "run", "--port", "0", *access, *options]
    with ChildProcess("fairlead", command, plane.logs / "fairlead.log") as process:
        yield process


def scheduler_account(plane: ControlPlane) -> str:
    """One with a scheduler's rights. It has a token, as pods do: a token is looked up, whereas a
    certificate is verified with each request, for 0.3 ms of the API server's time."""
    subject = {"kind": "ServiceAccount", "namespace": "kube-system", "name": "bench-scheduler"}
    group = "rbac.authorization.k8s.io"
    for where, kind, name in (
        ("", "ClusterRole", "system:kube-scheduler"),
        ("", "ClusterRole", "system:volume-scheduler"),
        ("namespaces/kube-system/", "Role", "extension-apiserver-authentication-reader"),
    ):
        path = f"/apis/{group}/v1/{where}{kind.lower().replace('role', 'rolebindings')}"
        role = {"apiGroup": group, "kind": kind, "name": name}
        body = {"metadata": {"name": f"bench:{name}"}, "roleRef": role, "subjects": [subject]}
        status, said = plane.api("POST", path, body)
        assert status in (201, 409), said
    user = service_account(subject["namespace"], subject["name"])
    served.wait_allowed(plane, user, "create", "pods", subresource="binding")
    served.wait_allowed(plane, user, "patch", "persistentvolumes")
    return user


def api_cpu_s(plane: ControlPlane) -> float:
    return sum(plane.process(name).cpu_seconds() for name in ("kube-apiserver", "etcd"))


async def for_all(kubeconfig: str, work: Callable, count: int, at_once: int = 32) -> None:
    client = Client(load_access(kubeconfig))
    numbers = iter(range(count))

    async def worker() -> None:
        for number in numbers:
            await work(client, number)

    await asyncio.gather(*(worker() for _ in range(at_once)))
    await client.close()


@contextmanager
def bind_times(kubeconfig: str, namespace: str = "") -> Iterator[list[float]]:
    """When each pod, or each in the namespace, was seen bound."""
    bound = {"fieldSelector": "spec.nodeName!="}
    with _watched(kubeconfig, _pods(namespace), bound, _ADDED) as times:
        yield times


@contextmanager
def first_change(kubeconfig: str, namespace: str = "") -> Iterator[list[float]]:
    """When a pod, or one in the namespace, was first seen changed, bound or deleted."""
    with _watched(kubeconfig, _pods(namespace), {}, b"", enough=1) as times:
        yield times


@contextmanager
def event_times(kubeconfig: str, namespace: str = "") -> Iterator[list[tuple[float, int]]]:
    """When there were more Events than before, or more in the namespace, and how many by then.

    They are counted ten times a second: a watch would have the server encode each of them.
    """
    where = f"namespaces/{namespace}/" if namespace else ""
    path = f"/apis/events.k8s.io/v1/{where}events"
    counts: list[tuple[float, int]] = []

    async def count(client: Client) -> None:
        most = await _count(client, path)
        while True:
            await asyncio.sleep(0.1)
            if (now := await _count(client, path)) > most:
                most = now
                counts.append((time.monotonic(), now))

    with _in_thread(kubeconfig, count):
        yield counts


async def _count(client: Client, path: str) -> int:
    reply = await client.request("GET", path, params={"limit": "1"})
    found = json.loads(reply.body)
    return len(found["items"]) + found["metadata"].get("remainingItemCount", 0)


def _pods(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/pods" if namespace else "/api/v1/pods"


@contextmanager
def _watched(
    kubeconfig: str, path: str, params: dict, start: bytes, enough: float = math.inf
) -> Iterator[list[float]]:
    """When lines with this start came, by a watch of our own in a thread."""
    times: list[float] = []

    async def watch(client: Client) -> None:
        newest = await client.request("GET", "/api/v1/pods", params={"limit": "1"})
        version = json.loads(newest.body)["metadata"]["resourceVersion"]
        # A slow watcher is hung up on, and a silent server by us: go on from there.
        while len(times) < enough:
            at = params | {"watch": "true", "resourceVersion": version}
            with suppress(Stalled):
                async with client.watch(path, at) as stream:
                    while len(times) < enough and (lines := await stream.lines()) is not None:
                        now = time.monotonic()
                        times.extend(now for line in lines if line.startswith(start))
                        version = _VERSION.search(lines[-1])[1].decode() if lines else version

    with _in_thread(kubeconfig, watch):
        yield times


@contextmanager
def _in_thread(kubeconfig: str, work: Callable[[Client], Awaitable[None]]) -> Iterator[None]:
    """Has the work done beside us, from a second before until we leave."""
    loop = asyncio.new_event_loop()

    async def worked() -> None:
        client = Client(load_access(kubeconfig))
        with suppress(asyncio.CancelledError):
            await work(client)
        await client.close()

    task = loop.create_task(worked())
    thread = threading.Thread(target=lambda: loop.run_until_complete(task))
    thread.start()
    time.sleep(1.0)
    try:
        yield
    finally:
        loop.call_soon_threadsafe(task.cancel)
        thread.join()
        loop.close()


def settle(process: ChildProcess, quiet_share: float = 0.04, within_s: float = 600) -> None:
    """Waits until the process has been idle for a second, or for as long as it may take."""
    quiet = 0
    before = process.cpu_seconds()
    deadline = time.monotonic() + within_s
    while quiet < 4 and time.monotonic() < deadline:
        time.sleep(0.25)
        now = process.cpu_seconds()
        quiet = quiet + 1 if (now - before) / 0.25 < quiet_share + 0.06 else 0
        before = now
