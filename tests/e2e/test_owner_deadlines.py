"""Deadlines of controllers of pods, and of those that created them, as the API server has them."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

import gang_crds
from builders import a_pod
from fairlead.apps.run.owner_reader import OwnerReader
from fairlead.engine import events
from fairlead.kube.access.kubeconfig import load_access
from fairlead.kube.gangs.api import GangKind
from fairlead.kube.http.client import Client
from fairlead.kube.kueue_workloads import QUEUE_NAME, WORKLOADS
from fairlead.kube.owner_kinds import OWNER_KINDS, VOLCANO_JOB, owner_paths
from fairlead.model.gpus import FAIRLEAD, GpuRequest
from fairlead.model.pods import Pod
from fairlead.model.run_times import RunTime
from fairlead.sim.controlplane import ControlPlane
from fairleads import PATIENCE_S
from manifests import CHART
from yaml_texts import yaml_of

pytestmark = pytest.mark.server

_MPI = f"{OWNER_KINDS['MPIJob'].group}/{OWNER_KINDS['MPIJob'].versions[-1]}"
STARTED = "2027-01-15T08:00:00Z"


def _definition(kind: str) -> GangKind:
    """Of the last version: those before it are not installed here."""
    found = OWNER_KINDS[kind]
    versions = found.versions[-1:]
    return GangKind(
        found.group, versions, found.plural, kind, remedy="", has_status_subresource=False
    )


@pytest.fixture
def kinds(control_plane: ControlPlane) -> Iterator[None]:
    definitions = [_definition(kind) for kind in ("RayJob", "RayCluster", "PyTorchJob", "MPIJob")]
    for each in definitions:
        gang_crds.install_kind(control_plane, each)
    yield
    for each in definitions:
        gang_crds.uninstall_kind(control_plane, each)


@pytest.fixture
def workloads(control_plane: ControlPlane) -> Iterator[None]:
    kind = GangKind(
        WORKLOADS.group, WORKLOADS.versions[-1:], WORKLOADS.plural, WORKLOADS.kind,
        remedy="", has_status_subresource=False,
    )  # fmt: skip
    gang_crds.install_kind(control_plane, kind)
    yield
    gang_crds.uninstall_kind(control_plane, kind)


def _create(plane: ControlPlane, namespace: str, kind: str, name: str, **fields: Any) -> dict:
    found = OWNER_KINDS[kind]
    version = f"{found.group}/{found.versions[-1]}"
    owner = fields.pop("owner", None)
    metadata = {"name": name} | ({"ownerReferences": [owner]} if owner else {})
    body = {"apiVersion": version, "kind": kind, "metadata": metadata, **fields}
    code, made = plane.api("POST", f"/apis/{version}/namespaces/{namespace}/{found.plural}", body)
    assert code == 201, made
    uid = made["metadata"]["uid"]
    return {"apiVersion": version, "kind": kind, "name": name, "uid": uid, "controller": True}


def _read(
    plane: ControlPlane, pods: list[Pod], expected: int | None = None
) -> dict[str, events.OwnerRunTimeSeen]:
    """What the reader finds out about the controllers of these pods: so many, or all."""
    awaited = len(pods) if expected is None else expected
    found: dict[str, events.OwnerRunTimeSeen] = {}

    def feed(event: events.Event) -> None:
        assert isinstance(event, events.OwnerRunTimeSeen)
        found[event.owner] = event

    async def read() -> None:
        client = Client(load_access(plane.kubeconfig_for()))
        reader = OwnerReader(client, feed, {"gpu-scheduler"}, lambda: 0.0)
        for pod in pods:
            reader.note(events.PodSeen(pod))
        task = asyncio.create_task(reader.run())
        async with asyncio.timeout(PATIENCE_S):
            while len(found) < awaited and not task.done():
                await asyncio.sleep(0.01)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        await client.close()

    asyncio.run(read())
    return found


@pytest.mark.usefixtures("kinds")
def test_deadlines_are_read_up_the_chain_of_controllers(
    control_plane: ControlPlane, namespace: str
) -> None:
    ray = _create(
        control_plane, namespace, "RayJob", "ray",
        spec={"activeDeadlineSeconds": 1800}, status={"startTime": STARTED},
    )  # fmt: skip
    _create(control_plane, namespace, "RayCluster", "ray-x7k2p", owner=ray, spec={})
    policy = {"runPolicy": {"activeDeadlineSeconds": 7200}}
    _create(control_plane, namespace, "PyTorchJob", "torch", spec=policy)
    _create(control_plane, namespace, "MPIJob", "mpi", spec=policy)
    gpus = GpuRequest(1, whole=True, dialect=FAIRLEAD)
    owners = ("RayCluster/ray-x7k2p", "PyTorchJob/torch", "MPIJob/mpi")
    made = (a_pod(owner, gpu_request=gpus, controller=owner) for owner in owners)
    pods = [replace(pod, namespace=namespace) for pod in made]
    found = _read(control_plane, pods)
    ray_time = RunTime(None, 1800.0, "RayJob activeDeadlineSeconds")
    assert {owner.partition("/")[2]: each.run_time for owner, each in found.items()} == {
        "RayCluster/ray-x7k2p": ray_time,
        "PyTorchJob/torch": RunTime(None, 7200.0, "PyTorchJob activeDeadlineSeconds"),
        "MPIJob/mpi": RunTime(None, 7200.0, "MPIJob activeDeadlineSeconds"),
    }
    ray_seen = next(each for owner, each in found.items() if "RayCluster" in owner)
    assert ray_seen.started == STARTED


@pytest.mark.usefixtures("workloads")
def test_what_kueue_allows_a_job_counts_less_what_it_ran_before(
    control_plane: ControlPlane, namespace: str
) -> None:
    template = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}
    job = {
        "metadata": {"name": "train", "labels": {QUEUE_NAME: "team"}},
        "spec": {"suspend": True, "template": {"spec": template}},
    }
    code, made = control_plane.api("POST", f"/apis/batch/v1/namespaces/{namespace}/jobs", job)
    assert code == 201, made
    version = f"{WORKLOADS.group}/{WORKLOADS.versions[-1]}"
    admitted = {"type": "Admitted", "status": "True", "lastTransitionTime": STARTED}
    workload = {
        "apiVersion": version,
        "kind": "Workload",
        "metadata": {
            "name": "job-train-1a2b3",
            "labels": {"kueue.x-k8s.io/job-uid": made["metadata"]["uid"]},
        },
        "spec": {"maximumExecutionTimeSeconds": 3600},
        "status": {"conditions": [admitted], "accumulatedPastExexcutionTimeSeconds": 600},
    }
    path = f"/apis/{version}/namespaces/{namespace}/workloads"
    code, answer = control_plane.api("POST", path, workload)
    assert code == 201, answer
    gpus = GpuRequest(1, whole=True, dialect=FAIRLEAD)
    pod = replace(a_pod("p", gpu_request=gpus, controller="Job/train"), namespace=namespace)
    (found,) = _read(control_plane, [pod]).values()
    assert found.run_time == RunTime(None, 3000.0, "kueue Workload")
    assert found.started == STARTED


def _deep(version: str, kind: str, name: str) -> bytes:
    """An object with more levels than a decoder follows; the API server takes 10,000."""
    head = json.dumps({"apiVersion": version, "kind": kind, "metadata": {"name": name}})
    return (
        head.encode().removesuffix(b"}") + b', "spec": {"a": ' + b"[" * 5000 + b"]" * 5000 + b"}}"
    )


def _send(plane: ControlPlane, method: str, path: str, body: bytes | None = None) -> int:
    async def send() -> int:
        client = Client(load_access(plane.kubeconfig_for()))
        reply = await client.request(method, path, body=body)
        await client.close()
        return reply.status

    return asyncio.run(send())


@pytest.mark.usefixtures("kinds")
def test_a_controller_that_cannot_be_read_does_not_end_the_reader(
    control_plane: ControlPlane, namespace: str
) -> None:
    path, body = owner_paths(namespace, "MPIJob", "deep")[-1], _deep(_MPI, "MPIJob", "deep")
    assert _send(control_plane, "POST", path.removesuffix("/deep"), body) == 201
    _create(control_plane, namespace, "RayJob", "ray", spec={"activeDeadlineSeconds": 1800})
    gpus = GpuRequest(1, whole=True, dialect=FAIRLEAD)
    pods = [
        replace(a_pod("p", gpu_request=gpus, controller=owner), namespace=namespace)
        for owner in ("MPIJob/deep", "RayJob/ray")
    ]
    try:
        (found,) = _read(control_plane, pods, expected=1).values()
    finally:
        assert _send(control_plane, "DELETE", path) == 200
    assert found.run_time == RunTime(None, 1800.0, "RayJob activeDeadlineSeconds")


def test_the_chart_grants_what_is_read() -> None:
    text = (CHART / "templates" / "owners-rbac.yaml").read_text()
    rules = text[text.index("rules:") : text.index("---")]
    granted = {
        (group, resource)
        for rule in yaml_of(rules)["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }
    kinds = (*OWNER_KINDS.values(), VOLCANO_JOB, WORKLOADS)
    read = {(kind.group, kind.plural) for kind in kinds}
    assert granted == read - {("batch", "jobs")}
