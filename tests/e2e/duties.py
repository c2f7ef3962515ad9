"""Situations in which a scheduler must use each of its rights."""

import contextlib
import json
import socket
from collections.abc import Iterator

from fairlead.sim.controlplane import ControlPlane
from fairleads import Pods, eventually
from manifests import SCHEDULER, kubectl
from storages import SELECTED_NODE, Storage, uses

GPU = "nvidia.com/gpu"


def evict_somebody(plane: ControlPlane, pods: Pods) -> None:
    body = {"metadata": {"name": "urgent"}, "value": 10}
    assert plane.api("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", body)[0] == 201
    plane.create_nodes(["crowded"], allocatable={GPU: "8"})
    pods.create("in-the-way", gpus=8)
    pods.wait_bound("in-the-way")
    pods.create("urgent", gpus=8, priorityClassName="urgent")
    eventually(lambda: "deletionTimestamp" in pods.get("in-the-way")["metadata"])
    pods.delete("in-the-way")
    assert pods.wait_bound("urgent") == {"urgent": "crowded"}


def lock_a_node(plane: ControlPlane, pods: Pods) -> None:
    card = {"id": "GPU-1", "count": 10, "devmem": 16000, "type": "NVIDIA-V100", "health": True}
    cards = {"hami.io/node-nvidia-register": json.dumps([card])}
    plane.create_nodes(["of-hami"], annotations=cards, allocatable={GPU: "10"})
    limits = {GPU: "1", "nvidia.com/gpumem": "4000"}
    pods.create("part", container={"resources": {"limits": limits}})
    assert pods.wait_bound("part") == {"part": "of-hami"}


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
        status, answer = plane.api(
            "POST",
            "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
            {"metadata": {"name": "silent"}, "webhooks": [webhook]},
        )
        assert status == 201, answer
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
            assert "not today" in pods.wait_refused(f"user-of-{claim}")["message"]
    eventually(lambda: storage.volume("disk")["spec"].get("claimRef"), 40)
    eventually(lambda: SELECTED_NODE in storage.claim("new")["metadata"].get("annotations", {}), 40)


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
    group = "/apis/admissionregistration.k8s.io/v1"
    name = {"name": "no-volumes"}
    paths = f"{group}/validatingadmissionpolicies", f"{group}/validatingadmissionpolicybindings"
    for path, body in zip(paths, (spec, bound), strict=True):
        assert plane.api("POST", path, {"metadata": name, "spec": body})[0] == 201
    storage.a_volume("probe", storage_class="none")
    probe = "/api/v1/persistentvolumes/probe?dryRun=All"
    change, merge = {"metadata": {"labels": {"a": "b"}}}, "application/merge-patch+json"
    eventually(
        lambda: plane.api("PATCH", probe, change, content_type=merge)[0] == 422,
        what="the policy works",
    )
    yield
    for path in reversed(paths):
        assert plane.api("DELETE", f"{path}/no-volumes")[0] == 200
