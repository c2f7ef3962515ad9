"""What a Binding, an Event and the writes to a claim cost the API server, by how they are written.

    python bench/writes.py                  12 rounds, 100 writes of each kind in each

The kinds take turns, so that whatever else the machine does falls on all of them alike. Printed are
milliseconds of CPU a write: the least of all rounds and the median for kube-apiserver, and the
median for etcd.
"""

import argparse
import asyncio
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import msgspec

from bare_client import each
from fairlead.engine.instructions import Bind
from fairlead.kube.access.kubeconfig import load_access
from fairlead.kube.claims.claims import decode_claim
from fairlead.kube.claims.patches import allocated, finalizer_patch
from fairlead.kube.codec import decode_pod
from fairlead.kube.http.client import Client
from fairlead.kube.http.transport import JSON_PATCH
from fairlead.kube.writes.binder import encode_binding
from fairlead.kube.writes.event_objects import scheduled_event
from fairlead.model.claims import AllocatedDevice, Allocation, ClaimUser, ResourceClaim
from fairlead.model.pods import Pod
from fairlead.sim.controlplane import ChildProcess, ControlPlane
from ground import assets
from pods import plain

NODE, HOST = "node-0", "bench"
PODS = "/api/v1/namespaces/default/pods"
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
SPEC = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpus"}}]}}
ALLOCATION = Allocation((AllocatedDevice("gpu", "gpu.example.com", NODE, "gpu-0"),))
EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"
JSON, PROTOBUF = "application/json", "application/vnd.kubernetes.protobuf"
#: The reply holds the metadata alone.
METADATA = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io,application/json"
_NS_PER_S = 1_000_000_000


# -- bodies --------------------------------------------------------------------------------------


def _binding(pod: Pod) -> bytes:
    return encode_binding(Bind(pod, NODE))


def _event(pod: Pod) -> bytes:
    return msgspec.json.encode(scheduled_event(pod, NODE, HOST, time.time_ns()))


def _binding_in_protobuf(pod: Pod) -> bytes:
    meta = _fields({1: pod.name, 3: pod.namespace, 5: pod.uid})
    target = _fields({1: "Node", 3: NODE, 5: "v1"})
    return _envelope("v1", "Binding", _fields({1: meta, 2: target}))


def _event_in_protobuf(pod: Pod) -> bytes:
    now_ns = time.time_ns()
    event = scheduled_event(pod, NODE, HOST, now_ns)
    regarding = {1: "Pod", 2: pod.namespace, 3: pod.name, 4: pod.uid, 5: "v1", 6: pod.version}
    fields = {
        1: _fields({1: event.metadata.name, 3: pod.namespace}),
        2: _fields({1: now_ns // _NS_PER_S, 2: now_ns % _NS_PER_S // 1000 * 1000}),
        4: event.reporting_controller,
        5: event.reporting_instance,
        6: event.action,
        7: event.reason,
        8: _fields(regarding),
        10: event.note,
        11: event.type,
    }
    return _envelope(event.api_version, "Event", _fields(fields))


def _envelope(version: str, kind: str, raw: bytes) -> bytes:
    return b"k8s\0" + _fields({1: _fields({1: version, 2: kind}), 2: raw})


def _fields(fields: dict[int, int | str | bytes]) -> bytes:
    return b"".join(_field(number, value) for number, value in fields.items())


def _field(number: int, value: int | str | bytes) -> bytes:
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    raw = value.encode() if isinstance(value, str) else value
    return _varint(number << 3 | 2) + _varint(len(raw)) + raw


def _varint(value: int) -> bytes:
    low, rest = value & 127, value >> 7
    return bytes([low | 128]) + _varint(rest) if rest else bytes([low])


def _protected(claim: ResourceClaim) -> bytes:
    return msgspec.json.encode(finalizer_patch(claim))


def _allocated(claim: ResourceClaim) -> bytes:
    return msgspec.json.encode(allocated(claim, ClaimUser("u", "p"), ALLOCATION))


def _allocation_patch(claim: ResourceClaim) -> bytes:
    """The same as a patch."""
    whole = allocated(claim, ClaimUser("u", "p"), ALLOCATION)
    meta = (("uid", claim.uid), ("resourceVersion", claim.version))
    steps = [{"op": "replace", "path": f"/metadata/{name}", "value": value} for name, value in meta]
    return msgspec.json.encode([*steps, {"op": "add", "path": "/status", "value": whole["status"]}])


# -- measuring -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Kind:
    """A way to write."""

    what: str
    how: str
    body: Callable[[Any], bytes]
    content_type: str = JSON
    accept: str | None = None
    #: Unknown and repeated fields: warn of them (the server's default), or do not look.
    lenient: bool = False
    method: str = "POST"

    @property
    def is_of_claims(self) -> bool:
        return self.what in ("finalizer", "allocation")

    def path(self, name: str) -> str:
        paths = {
            "event": EVENTS,
            "bind": f"{PODS}/{name}/binding",
            "finalizer": f"{CLAIMS}/{name}",
            "allocation": f"{CLAIMS}/{name}/status",
        }
        return paths[self.what]

    async def write(self, client: Client, subject: Pod | ResourceClaim) -> None:
        params = {"fieldValidation": "Ignore"} if self.lenient else None
        reply = await client.request(
            self.method,
            self.path(subject.name),
            body=self.body(subject),
            params=params,
            content_type=self.content_type,
            accept=self.accept,
        )
        assert reply.status in (200, 201), reply.message


KINDS = (
    Kind("bind", "JSON, as Fairlead", _binding),
    Kind("bind", "JSON, fieldValidation=Ignore", _binding, lenient=True),
    Kind("bind", "protobuf", _binding_in_protobuf, PROTOBUF),
    Kind("bind", "protobuf, also the reply", _binding_in_protobuf, PROTOBUF, PROTOBUF),
    Kind("event", "JSON, as Fairlead", _event),
    Kind("event", "JSON, fieldValidation=Ignore", _event, lenient=True),
    Kind("event", "JSON, reply of metadata alone", _event, accept=METADATA),
    Kind("event", "protobuf", _event_in_protobuf, PROTOBUF),
    Kind("event", "protobuf, also the reply", _event_in_protobuf, PROTOBUF, PROTOBUF),
    Kind("finalizer", "JSON patch, as Fairlead", _protected, JSON_PATCH, method="PATCH"),
    Kind("allocation", "PUT, as Fairlead", _allocated, method="PUT"),
    Kind("allocation", "JSON patch", _allocation_patch, JSON_PATCH, method="PATCH"),
)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--writes", type=int, default=100, help="of each kind in a round")
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="fairlead-bench-") as folder,
        ControlPlane.start(assets(), Path(folder)) as plane,
    ):
        plane.create_nodes(
            [NODE], allocatable={"cpu": "100000", "memory": "100Ti", "pods": "99999"}
        )
        found = asyncio.run(_measure(plane, options.rounds, options.writes))
    for kind, costs in found.items():
        api, etcd = zip(*costs, strict=True)
        figures = f"api {min(api):.3f}, {median(api):.3f}  etcd {median(etcd):.3f}"
        print(f"{kind.what:10} {kind.how:30} {figures}")


async def _measure(
    plane: ControlPlane, rounds: int, writes: int
) -> dict[Kind, list[tuple[float, float]]]:
    client = Client(load_access(str(plane.kubeconfig_for())))
    servers = [plane.process(name) for name in ("kube-apiserver", "etcd")]
    found: dict[Kind, list[tuple[float, float]]] = {kind: [] for kind in KINDS}
    for number in range(rounds):
        for kind in (*KINDS[number % len(KINDS) :], *KINDS[: number % len(KINDS)]):
            make = _new_claims if kind.is_of_claims else _new_pods
            made = await make(client, writes)
            await asyncio.sleep(0.5)  # what creating them left to do
            before = [_cpu_ns(server) for server in servers]
            await each(made, lambda one, kind=kind: kind.write(client, one))
            await asyncio.sleep(0.05)
            used = [_cpu_ns(s) - b for s, b in zip(servers, before, strict=True)]
            found[kind].append((used[0] / writes / 1e6, used[1] / writes / 1e6))
            if not kind.is_of_claims:
                await each(made, lambda pod: _delete(client, pod))
    await client.close()
    return found


def _cpu_ns(process: ChildProcess) -> int:
    """To the nanosecond: what /proc/PID/stat tells goes by hundredths of a second."""
    threads = Path(f"/proc/{process.pid}/task").iterdir()
    return sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads)


async def _new_pods(client: Client, count: int) -> list[Pod]:
    made: list[Pod] = []

    async def create(number: int) -> None:
        body = plain() | {"metadata": {"name": f"pod-{number}"}}
        body["spec"]["schedulerName"] = "nobody"
        reply = await client.request("POST", PODS, body=msgspec.json.encode(body))
        assert reply.status == 201, reply.message
        made.append(decode_pod(reply.body))

    await each(range(count), create)
    return made


async def _new_claims(client: Client, count: int) -> list[ResourceClaim]:
    made: list[ResourceClaim] = []

    async def create(_: int) -> None:
        body = {"metadata": {"generateName": "claim-"}, "spec": SPEC}
        reply = await client.request("POST", CLAIMS, body=msgspec.json.encode(body))
        assert reply.status == 201, reply.message
        made.append(decode_claim(reply.body))

    await each(range(count), create)
    return made


async def _delete(client: Client, pod: Pod) -> None:
    params = {"gracePeriodSeconds": "0"}
    await client.request("DELETE", f"{PODS}/{pod.name}", params=params)


if __name__ == "__main__":
    main()
