"""Pods with volumes from claim to bind: a real API server, and the real controllers of volumes."""

import itertools
from typing import Any

import pytest

from fairleads import Pods, eventually, fairlead
from storages import SELECTED_NODE, Storage, reaches, uses

CONTROLLERS = ("persistentvolume-binder-controller", "ephemeral-volume-controller")
PROVISIONER = "disks.example.com"
HOST = "kubernetes.io/hostname"
MERGE = "application/merge-patch+json"
SCHEDULERS = ("default-scheduler", "gpu-scheduler")


@pytest.fixture(scope="module")
def plane(real_plane):
    """Nodes a, b and c, with kube-scheduler and Fairlead at work."""
    with (
        real_plane.start_controller_manager(CONTROLLERS),
        real_plane.start_kube_scheduler(),
    ):
        for name in "abc":
            real_plane.create_nodes([name], labels={HOST: name})
        yield real_plane
        for name in "abc":
            real_plane.api("DELETE", f"/api/v1/nodes/{name}")


_numbers = itertools.count()


@pytest.fixture
def pods(plane):
    name = f"volumes-{next(_numbers)}"
    assert plane.api("POST", "/api/v1/namespaces", {"metadata": {"name": name}})[0] == 201
    yield Pods(plane, name)
    plane.delete_namespace(name)


@pytest.fixture
def storage(plane, pods):
    made = Storage(plane, pods.namespace)
    yield made
    made.remove_all()


@pytest.fixture(scope="module")
def ours(plane):
    with fairlead(plane) as running:
        eventually(lambda: running.get("/readyz")[0] == 200)
        yield running


def a_class(pods: Pods, storage: Storage, provisioner: str = "") -> None:
    """Until the controller has seen the class, it binds claims of it at once."""
    storage.a_class(provisioner=provisioner)
    storage.a_claim("unused")
    eventually(lambda: pods.events("unused", "WaitForFirstConsumer"), what="the class is seen")


def provision(storage: Storage, claim: str) -> str:
    """What a provisioner does for a claim that was sent to a node. Returns the node."""
    sent = eventually(
        lambda: storage.claim(claim)["metadata"].get("annotations", {}).get(SELECTED_NODE)
    )
    found = storage.claim(claim)
    reference = {
        "kind": "PersistentVolumeClaim", "apiVersion": "v1", "namespace": storage.namespace,
        "name": claim, "uid": found["metadata"]["uid"],
    }  # fmt: skip
    body = {
        "metadata": {
            "name": f"pv-{found['metadata']['uid']}",
            "annotations": {"pv.kubernetes.io/provisioned-by": PROVISIONER},
        },
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "waiting",
            "capacity": {"storage": "1Gi"},
            "csi": {"driver": PROVISIONER, "volumeHandle": f"disk-of-{claim}"},
            "claimRef": reference,
            "nodeAffinity": reaches(HOST, sent),
        },
    }
    storage.make("/api/v1/persistentvolumes", body)
    return sent


def is_bound(storage: Storage, claim: str) -> bool:
    return storage.claim(claim)["status"]["phase"] == "Bound"


def wait_claim_bound(storage: Storage, claim: str) -> None:
    """The controller writes the phase after what the scheduler waits for."""
    eventually(lambda: is_bound(storage, claim), what=f"the claim {claim} is bound")


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_a_pod_goes_where_the_only_volume_is(pods, storage, ours, scheduler) -> None:
    a_class(pods, storage)
    storage.a_volume(f"{pods.namespace}-local", node="b")
    storage.a_claim("data")
    pods.create("user", scheduler=scheduler, volumes=uses("data"))

    assert pods.wait_bound("user") == {"user": "b"}
    wait_claim_bound(storage, "data")
    volume = storage.volume(f"{pods.namespace}-local")
    assert volume["spec"]["claimRef"]["uid"] == storage.claim("data")["metadata"]["uid"]
    assert volume["metadata"]["annotations"]["pv.kubernetes.io/bound-by-controller"] == "yes"


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_each_claim_gets_the_smallest_volume_that_is_left(pods, storage, ours, scheduler) -> None:
    a_class(pods, storage)
    names = {size: f"{pods.namespace}-{size.lower()}" for size in ("1Gi", "2Gi", "5Gi")}
    for size, name in names.items():
        storage.a_volume(name, size=size, node="c")
    storage.a_volume(f"{pods.namespace}-alone", size="1Gi", node="a")
    storage.a_claim("large", size="2Gi")
    storage.a_claim("small", size="1Gi")
    pods.create("user", scheduler=scheduler, volumes=uses("large", "small"))

    assert pods.wait_bound("user") == {"user": "c"}
    assert storage.claim("small")["spec"]["volumeName"] == names["1Gi"]
    assert storage.claim("large")["spec"]["volumeName"] == names["2Gi"]


def test_a_burst_shares_the_volumes_without_a_quarrel(pods, storage, ours) -> None:
    a_class(pods, storage)
    for number in range(6):
        storage.a_volume(f"{pods.namespace}-{number}", node="abc"[number % 3])
        storage.a_claim(f"data-{number}")
    # A pod that is seen before its claim is refused once, and so is one whose volume the
    # controller is still writing to.
    claims = [f"data-{number}" for number in range(6)]
    eventually(lambda: all(pods.events(claim, "WaitForFirstConsumer") for claim in claims))
    for number in range(6):
        pods.create(f"user-{number}", volumes=uses(f"data-{number}"))

    bound = pods.wait_bound(*(f"user-{number}" for number in range(6)))
    for number in range(6):
        volume = storage.volume(storage.claim(f"data-{number}")["spec"]["volumeName"])
        (term,) = volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
        assert term["matchExpressions"][0]["values"] == [bound[f"user-{number}"]]
        assert not pods.events(f"user-{number}", "FailedScheduling")


def test_a_volume_is_provisioned_where_the_pod_will_be(pods, storage, ours) -> None:
    a_class(pods, storage, PROVISIONER)
    storage.a_claim("data")
    pods.create("user", volumes=uses("data"), nodeSelector={HOST: "b"})

    assert provision(storage, "data") == "b"

    assert pods.wait_bound("user") == {"user": "b"}
    wait_claim_bound(storage, "data")


def test_a_pod_waits_for_its_claim_and_goes_when_it_is_there(pods, storage, ours) -> None:
    pods.create("user", volumes=uses("data"))
    assert 'persistentvolumeclaim "data" not found' in pods.wait_refused("user")["message"]

    storage.bound("data")

    pods.wait_bound("user")


def test_a_volume_of_its_own_is_made_and_bound(pods, storage, ours) -> None:
    a_class(pods, storage)
    storage.a_volume(f"{pods.namespace}-local", node="c")
    template = {
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "waiting",
            "resources": {"requests": {"storage": "1Gi"}},
        }
    }
    scratch: dict[str, Any] = {"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}}
    pods.create("user", volumes=[scratch])

    assert pods.wait_bound("user") == {"user": "c"}
    wait_claim_bound(storage, "user-scratch")


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_a_provisioner_that_fails_is_told_and_asked_again(pods, storage, ours, scheduler) -> None:
    a_class(pods, storage, PROVISIONER)
    storage.a_claim("data")
    pods.create("user", scheduler=scheduler, volumes=uses("data"))
    path = f"/api/v1/namespaces/{pods.namespace}/persistentvolumeclaims/data"
    # With the annotation of the controller: kube-scheduler has other words for a claim without any.
    both = {SELECTED_NODE, "volume.kubernetes.io/storage-provisioner"}
    eventually(lambda: both <= storage.claim("data")["metadata"].get("annotations", {}).keys())

    nothing = {"metadata": {"annotations": {SELECTED_NODE: None}}}
    assert storage.plane.api("PATCH", path, nothing, content_type=MERGE)[0] == 200

    # Before its claim is seen, the pod is refused for another reason.
    eventually(lambda: pods.condition("user").get("reason") == "SchedulerError")
    assert pods.condition("user")["message"] == (
        'running PreBind plugin "VolumeBinding": binding volumes: provisioning failed for PVC '
        '"data"'
    )
    provision(storage, "data")
    pods.wait_bound("user")


def test_a_restart_in_between_loses_nothing(plane, pods, storage) -> None:
    a_class(pods, storage, PROVISIONER)
    storage.a_claim("data")
    with fairlead(plane, "--scheduler-name", "restarted"):
        pods.create("user", scheduler="restarted", volumes=uses("data"))
        sent = eventually(
            lambda: storage.claim("data")["metadata"].get("annotations", {}).get(SELECTED_NODE)
        )
    assert not pods.node("user")

    provision(storage, "data")
    eventually(lambda: is_bound(storage, "data"))
    with fairlead(plane, "--scheduler-name", "restarted"):
        assert pods.wait_bound("user") == {"user": sent}


def test_a_pod_that_is_deleted_while_it_waits_lets_its_volume_go(pods, storage, ours) -> None:
    a_class(pods, storage, PROVISIONER)
    storage.a_claim("data")
    pods.create("first", volumes=uses("data"), nodeSelector={HOST: "a"})
    eventually(lambda: SELECTED_NODE in storage.claim("data")["metadata"].get("annotations", {}))
    pods.delete("first")

    # The claim stays where it was sent, as kube-scheduler leaves it.
    pods.create("second", volumes=uses("data"))
    assert provision(storage, "data") == "a"
    assert pods.wait_bound("second") == {"second": "a"}
