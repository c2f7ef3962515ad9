"""`fairlead doctor`, and the warning of a scheduler that another one allocates the same devices."""

import json
from collections.abc import Callable, Iterator

import pytest

from dra_objects import DRIVER, DraObjects, Object, claim_spec, device, exactly
from fairlead.kube.claims.claims import FINALIZER
from fairlead.sim.controlplane import ControlPlane
from fairleads import FAIRLEAD, Pods, eventually, fairlead
from preloaded import run


@pytest.fixture
def dra(control_plane: ControlPlane, namespace: str) -> Iterator[DraObjects]:
    """No controller removes anything."""
    made = DraObjects(control_plane, namespace)
    yield made
    made.remove_all()


@pytest.fixture
def node(dra: DraObjects, create_nodes: Callable[..., list[str]]) -> str:
    (name,) = create_nodes([f"node-of-{dra.namespace}"[:60].strip("-")])
    return name


def allocate(dra: DraObjects, claim: str, node: str, device_name: str, pod: Object) -> None:
    """As another scheduler would."""
    result = {"request": "gpu", "driver": DRIVER, "pool": node, "device": device_name}
    user = {"resource": "pods", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}
    status = {"allocation": {"devices": {"results": [result]}}, "reservedFor": [user]}
    dra.patch(claim, {"metadata": {"finalizers": [FINALIZER]}})
    dra.patch(claim, {"status": status}, "/status")


def examined(plane: ControlPlane) -> tuple[int, list[dict[str, str]]]:
    access = str(plane.kubeconfig_for("system:kube-scheduler"))
    command = [str(FAIRLEAD), "doctor", "--kubeconfig", access, "--wait", "0s"]
    done = run([*command, "-o", "json"])
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


@pytest.mark.real
def test_faults_of_claims_and_pools_are_listed(
    dra: DraObjects, pods: Pods, node: str, control_plane: ControlPlane
) -> None:
    half = {"name": node, "generation": 1, "resourceSliceCount": 2}
    dra.a_slice(node, [device("gpu-0")], pool=half)
    dra.a_class(dra.namespace)
    for name in ("stuck", "stale"):
        dra.a_claim(name, claim_spec(exactly(dra.namespace)))
        pod = pods.create(name, resourceClaims=[{"name": "gpu", "resourceClaimName": name}])
        allocate(dra, name, node, "gpu-0", pod)
        pods.delete(name)
    control_plane.api("DELETE", f"{dra.claims}/stuck")

    status, found = examined(control_plane)

    kinds = {(each["kind"], each["about"]) for each in found}
    assert status == 1
    assert kinds >= {
        ("pool-incomplete", f"pool {DRIVER}/{node}"),
        ("claim-stuck-deleting", f"ResourceClaim {dra.namespace}/stuck"),
        ("claim-of-gone-pods", f"ResourceClaim {dra.namespace}/stale"),
    }


def test_a_second_scheduler_of_a_driver_is_reported_at_the_start(
    dra: DraObjects, pods: Pods, node: str, control_plane: ControlPlane
) -> None:
    dra.a_slice(node, [device("gpu-0"), device("gpu-1")])
    dra.a_class(dra.namespace)
    for name, scheduler in (("theirs", "another-scheduler"), ("ours", "gpu-scheduler")):
        dra.a_claim(name, claim_spec(exactly(dra.namespace)))
        uses = [{"name": "gpu", "resourceClaimName": name}]
        pod = pods.create(name, resourceClaims=uses, schedulerName=scheduler)
        if name == "theirs":
            allocate(dra, name, node, "gpu-0", pod)

    with fairlead(control_plane) as running:
        warned = eventually(
            lambda: [each for each in running.records if "of one driver" in each["event"]],
            what="a warning in the log",
        )
        assert warned[0]["driver"] == DRIVER
        assert f"another-scheduler ({dra.namespace}/theirs)" in warned[0]["pods"]
        others = running.metric("fairlead_claim_driver_other_schedulers", driver=DRIVER)
        assert others == 1.0


def test_top_lists_claims_with_their_devices_and_pods(
    dra: DraObjects, pods: Pods, node: str, control_plane: ControlPlane
) -> None:
    dra.a_class(dra.namespace)
    for name in ("held", "waiting"):
        dra.a_claim(name, claim_spec(exactly(dra.namespace)))
    uses = [{"name": "gpu", "resourceClaimName": "held"}]
    allocate(dra, "held", node, "gpu-1", pods.create("p", resourceClaims=uses))
    access = str(control_plane.kubeconfig_for("system:kube-scheduler"))
    command = [str(FAIRLEAD), "top", "--kubeconfig", access, "--by", "claims"]
    command += ["-n", dra.namespace, "--sort", "booked"]

    said = run(command, check=True).stdout
    data = run([*command, "-o", "json"], check=True).stdout

    first, second = json.loads(data)["claims"]
    assert (first["claim"], first["devices"]) == (f"{dra.namespace}/held", ["gpu-1"])
    assert (first["node"], first["drivers"], first["reserved_for"]) == (node, [DRIVER], ["p"])
    assert (second["state"], second["devices"]) == ("pending", [])
    assert said.startswith("claims 2   allocated 1   devices 1\n")
    assert [word for word in said.splitlines()[3].split() if word != "-"] == [
        f"{dra.namespace}/held", "allocated", node, DRIVER, "gpu-1", "p",
    ]  # fmt: skip
