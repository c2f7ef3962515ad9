"""Situations in which a scheduler must use each of its rights."""

import contextlib
import json
import select
import socket
import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from fairlead.sim.controlplane import ControlPlane, served, service_account
from fairleads import PATIENCE_S, Pods, eventually
from manifests import NAMESPACE, SCHEDULER, kubectl
from storages import SELECTED_NODE, Storage, uses
from yaml_texts import yaml_of

GPU = "nvidia.com/gpu"


def evict_somebody(plane: ControlPlane, pods: Pods) -> None:
    served.priority_class(plane, "urgent", 10)
    plane.create_nodes(["crowded"], allocatable={GPU: "8"})
    pods.create("in-the-way", gpus=8)
    pods.wait_bound("in-the-way")
    pods.create("urgent", gpus=8, priorityClassName="urgent")
    eventually(lambda: "deletionTimestamp" in pods.get("in-the-way")["metadata"])
    pods.delete("in-the-way")
    assert pods.wait_bound("urgent") == {"urgent": "crowded"}


def make_room_for_a_gang(plane: ControlPlane, pods: Pods) -> None:
    """After `evict_somebody`: its pod goes, through the Eviction API."""
    served.priority_class(plane, "more-urgent", 20)
    words = {"fairlead.dev/gang": "whole", "fairlead.dev/gang-min": "1"}
    metadata = {"annotations": words}
    pods.create("whole", gpus=8, priorityClassName="more-urgent", metadata=metadata)
    eventually(lambda: "deletionTimestamp" in pods.get("urgent")["metadata"])
    pods.delete("urgent")
    assert pods.wait_bound("whole") == {"whole": "crowded"}


def ask_as_a_user(plane: ControlPlane, url: str) -> int:
    """What a scheduler answers a user who asks what pods do with their GPUs."""
    file = plane.kubeconfig_for(service_account("default", "curious"))
    token = yaml_of(file)["users"][0]["user"]["token"]
    asked = urllib.request.Request(f"{url}/usage", headers={"Authorization": f"Bearer {token}"})
    with urllib.request.urlopen(asked, timeout=PATIENCE_S) as reply:
        return int(reply.status)


def end_a_run(plane: ControlPlane, pods: Pods, name: str, ran_s: int = 7200) -> None:
    """A pod that is bound is shown to run, and then to have succeeded after so long."""
    started = datetime.now(UTC).replace(microsecond=0) - timedelta(seconds=ran_s)
    ended = (started + timedelta(seconds=ran_s)).isoformat()
    container = {"name": "main", "image": "x", "imageID": "", "restartCount": 0, "ready": False}
    state = {"terminated": {"exitCode": 0, "finishedAt": ended, "startedAt": started.isoformat()}}
    status = {"phase": "Running", "startTime": started.isoformat()}
    _show(plane, pods, name, status)
    done = {"phase": "Succeeded", "containerStatuses": [{**container, "state": state}]}
    _show(plane, pods, name, done)


def _show(plane: ControlPlane, pods: Pods, name: str, status: dict[str, object]) -> None:
    path, merge = f"{pods.path}/{name}/status", "application/strategic-merge-patch+json"
    code, said = plane.api("PATCH", path, {"status": status}, content_type=merge)
    assert code == 200, said


def learn_a_run_time(plane: ControlPlane, pods: Pods) -> None:
    plane.create_nodes(["short"], allocatable={GPU: "1"}, labels={"for": "runs"})
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "x"}]}}
    spec = {"suspend": True, "template": template, "activeDeadlineSeconds": 9000}
    job = {"metadata": {"name": "trains"}, "spec": spec}
    code, made = plane.api("POST", f"/apis/batch/v1/namespaces/{pods.namespace}/jobs", job)
    assert code == 201, made
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "trains", "controller": True}
    metadata = {"ownerReferences": [{**owner, "uid": made["metadata"]["uid"]}]}
    pods.create("trains", gpus=1, metadata=metadata, nodeSelector={"for": "runs"})
    pods.wait_bound("trains")
    end_a_run(plane, pods, "trains")
    path = f"/api/v1/namespaces/{NAMESPACE}/configmaps/fairlead-run-times"
    eventually(lambda: plane.api("GET", path)[1].get("binaryData"), what="what was learned")


def lock_a_node(plane: ControlPlane, pods: Pods) -> None:
    gpu = {"id": "GPU-1", "count": 10, "devmem": 16000, "type": "NVIDIA-V100", "health": True}
    gpus = {"hami.io/node-nvidia-register": json.dumps([gpu])}
    plane.create_nodes(["of-hami"], annotations=gpus, allocatable={GPU: "10"})
    limits = {GPU: "1", "nvidia.com/gpumem": "4000"}
    pods.create("part", container={"resources": {"limits": limits}})
    assert pods.wait_bound("part") == {"part": "of-hami"}


def reserve_a_gpu(plane: ControlPlane, pods: Pods) -> None:
    plane.create_nodes(["stock"], allocatable={GPU: "1"}, labels={"for": "shares"})
    share = {"annotations": {"fairlead.dev/gpu-share": "0.5"}}
    pods.create("share", metadata=share, nodeSelector={"for": "shares"})
    selector = "labelSelector=fairlead.dev%2Freservation"
    path = f"/api/v1/namespaces/{NAMESPACE}/pods?{selector}"
    eventually(lambda: plane.api("GET", path)[1]["items"], what="a reservation pod")


@contextlib.contextmanager
def slow_to_bind_in(plane: ControlPlane, namespace: str) -> Iterator[None]:
    """Binds in this namespace take longer than the binder waits, so that it looks at the pod.

    They pass a webhook that accepts connections and says nothing, and then are let through.
    """
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"https://127.0.0.1:{silent.getsockname()[1]}"
        rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"]}
        webhook = {
            "name": "silent.fairlead.dev",
            "clientConfig": {"url": url},
            "rules": [{**rule, "resources": ["pods/binding"]}],
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
            "timeoutSeconds": 6,
            "failurePolicy": "Ignore",
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        }
        kubectl(plane, f"create namespace {namespace}")
        kind = {"kind": "ValidatingWebhookConfiguration", "metadata": {"name": "silent"}}
        served.create(plane, {**kind, "webhooks": [webhook]})
        path, body = f"/api/v1/namespaces/{namespace}/pods/none/binding", {"target": {"name": "x"}}

        def asked() -> bool:
            plane.api("POST", path, {"metadata": {"name": "none"}, **body})
            return bool(select.select([silent], [], [], 0)[0])

        served.until(asked, "the webhook is asked about binds")
        yield


def have_volumes_bound(plane: ControlPlane, pods: Pods) -> None:
    """One claim bound and one sent, each refused at first, so that Fairlead looks what happened."""
    storage = Storage(plane, "default")
    with _no_volumes_for(plane, SCHEDULER, storage):
        storage.a_class()
        storage.a_class("made", provisioner="disks.example.com")
        storage.a_volume("disk")
        storage.a_claim("old")
        storage.a_claim("new", storage_class="made")
        for claim in ("old", "new"):
            pods.create(f"user-of-{claim}", volumes=uses(claim))
            name = f"user-of-{claim}"  # refused in other words before its claim is seen
            eventually(lambda n=name: "not today" in pods.condition(n).get("message", ""))
    eventually(lambda: storage.volume("disk")["spec"].get("claimRef"))
    eventually(lambda: SELECTED_NODE in storage.claim("new")["metadata"].get("annotations", {}))


@contextlib.contextmanager
def _no_volumes_for(plane: ControlPlane, user: str, storage: Storage) -> Iterator[None]:
    """A policy of a third party against this user's changes of claims and volumes."""
    rule = {
        "apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"],
        "resources": ["persistentvolumes", "persistentvolumeclaims"],
    }  # fmt: skip
    allowed = f"request.userInfo.username != '{user}' && object.metadata.name != 'probe'"
    check = {"expression": allowed, "message": "not today"}
    spec = {"matchConstraints": {"resourceRules": [rule]}, "validations": [check]}
    bound = {"policyName": "no-volumes", "validationActions": ["Deny"]}
    kind, name = "ValidatingAdmissionPolicy", {"metadata": {"name": "no-volumes"}}
    objects = (
        {"kind": kind, **name, "spec": spec},
        {"kind": f"{kind}Binding", **name, "spec": bound},
    )
    storage.a_volume("probe", storage_class="none")
    probe = "/api/v1/persistentvolumes/probe?dryRun=All"
    change, merge = {"metadata": {"labels": {"a": "b"}}}, "application/merge-patch+json"

    def acts() -> bool:
        return plane.api("PATCH", probe, change, content_type=merge)[0] == 422

    with served.policy(plane, objects, acts):
        yield
