"""Claims of PodGroups, with the real controller, and beside the real kube-scheduler."""

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from claim_audit import ClaimAudit
from dra_objects import (
    DraObjects,
    Object,
    claim_spec,
    device,
    devices_of,
    exactly,
    users_of,
)
from fairlead.sim.controlplane import ControlPlane
from fairleads import Pods, eventually, fairlead
from gang_planes import GangPlane, shared_gang_plane

pytestmark = pytest.mark.server

GATE = "DRAWorkloadResourceClaims"
JUDGED = ("default-scheduler", "gpu-scheduler")
_numbers = itertools.count()


@pytest.fixture(scope="module")
def gangs(planes: Callable[..., ControlPlane], assets: Path) -> Iterator[GangPlane]:
    """Both schedulers and the controllers of claims and PodGroups at work on one API server."""
    found = shared_gang_plane(planes, assets, [GATE])
    plane = found.plane
    controllers = ["resourceclaim-controller", "garbage-collector-controller"]
    with (
        plane.start_controller_manager(controllers, flags=[found.gates]),
        plane.start_kube_scheduler(flags=[found.gates]),
        fairlead(plane, kubeconfig=plane.kubeconfig_for()),
    ):
        yield found


class Stage:
    """A namespace, with nodes that only its pods may use."""

    def __init__(self, gangs: GangPlane, scheduler: str, nodes: int = 2, gpus: int = 2) -> None:
        self.gangs, self.scheduler, self.plane = gangs, scheduler, gangs.plane
        self.name = f"groups-{next(_numbers)}"
        made, _ = self.plane.api("POST", "/api/v1/namespaces", {"metadata": {"name": self.name}})
        assert made == 201
        self.pods, self.dra = Pods(self.plane, self.name), DraObjects(self.plane, self.name)
        self.dra.a_class(self.name)
        names = [f"{self.name}-{number}" for number in range(nodes)]
        self.nodes = self.plane.create_nodes(names, labels={"stage": self.name})
        for node in self.nodes:
            self.dra.a_slice(node, [device(f"gpu-{number}") for number in range(gpus)])

    def remove(self) -> None:
        for pod in self.pods.nodes():
            self.pods.delete(pod)
        self.dra.remove_all()
        for node in self.nodes:
            self.plane.api("DELETE", f"/api/v1/nodes/{node}")
        self.plane.delete_namespace(self.name)

    @property
    def is_ours(self) -> bool:
        return self.scheduler == JUDGED[1]

    def group(self, name: str, minimum: int, *claims: Object) -> Object:
        return self.gangs.create(self.name, name, minimum, resourceClaims=list(claims))

    def member(self, name: str, group: str, *claims: Object, **more: Any) -> Object:
        return self.pods.create(
            name,
            schedulerName=self.scheduler,
            schedulingGroup={"podGroupName": group},
            resourceClaims=list(claims),
            nodeSelector={"stage": self.name},
            **more,
        )

    def claim_for_one(self) -> Object:
        return claim_spec(exactly(self.name))


@pytest.fixture(params=JUDGED)
def stage(gangs: GangPlane, request: pytest.FixtureRequest) -> Iterator[Stage]:
    found = Stage(gangs, request.param)
    yield found
    found.remove()


@pytest.fixture
def our_stage(gangs: GangPlane) -> Iterator[Stage]:
    found = Stage(gangs, JUDGED[1])
    yield found
    found.remove()


def from_template(entry: str, template: str) -> Object:
    return {"name": entry, "resourceClaimTemplateName": template}


def named(entry: str, claim: str) -> Object:
    return {"name": entry, "resourceClaimName": claim}


def reserved_for(claim: Object) -> list[tuple[str, str, str]]:
    users = claim.get("status", {}).get("reservedFor", [])
    return [(each.get("apiGroup", ""), each["resource"], each["name"]) for each in users]


FOR_GROUP = [("scheduling.k8s.io", "podgroups", "g")]


def test_pods_of_a_group_share_the_claim_that_is_made_for_the_group(stage: Stage) -> None:
    audit = ClaimAudit(stage.plane, stage.name)
    stage.dra.a_template("gpu", stage.claim_for_one())
    stage.group("g", 3, from_template("shared", "gpu"))
    for number in range(3):
        stage.member(f"p{number}", "g", from_template("shared", "gpu"))

    where = stage.pods.wait_bound("p0", "p1", "p2")

    (claim,) = stage.dra.all_claims()
    assert claim["metadata"]["ownerReferences"][0]["kind"] == "PodGroup"
    assert reserved_for(claim) == FOR_GROUP
    if stage.is_ours:  # kube-scheduler binds one to another node now and then
        assert len(set(where.values())) == 1, where
        assert devices_of(claim) == [f"{where['p0']}/gpu-0"]
        assert audit.check() == 3


def test_a_claim_that_group_and_pods_name_is_reserved_for_the_group(stage: Stage) -> None:
    stage.dra.a_claim("c", stage.claim_for_one())
    stage.group("g", 2, named("shared", "c"))
    stage.member("p0", "g", named("shared", "c"))
    stage.member("p1", "g", named("shared", "c"))

    stage.pods.wait_bound("p0", "p1")

    assert reserved_for(stage.dra.claim("c")) == FOR_GROUP


def test_an_entry_of_another_name_is_a_claim_of_the_pod(stage: Stage) -> None:
    """Also of the same template: group and pod must agree in both."""
    stage.dra.a_template("gpu", stage.claim_for_one())
    stage.group("g", 2, from_template("shared", "gpu"))
    shared, own = from_template("shared", "gpu"), from_template("own", "gpu")
    stage.member("p1", "g", shared)
    # The controller (1.36.4) names only the own claim of a pod for ever, if both are new.
    eventually(lambda: stage.pods.get("p1")["status"].get("resourceClaimStatuses"))
    stage.member("p0", "g", shared, own)

    where = stage.pods.wait_bound("p0", "p1")

    by_user = {users[0][2]: claim for claim in stage.dra.all_claims()
               if (users := reserved_for(claim))}  # fmt: skip
    assert by_user.keys() == {"g", "p0"}
    held = [device for claim in by_user.values() for device in devices_of(claim)]
    if stage.is_ours:
        assert sorted(held) == [f"{where['p0']}/gpu-0", f"{where['p0']}/gpu-1"]


def test_a_later_pod_of_the_group_follows_to_the_claim(our_stage: Stage) -> None:
    our_stage.dra.a_template("gpu", our_stage.claim_for_one())
    our_stage.group("g", 1, from_template("shared", "gpu"))
    our_stage.member("p0", "g", from_template("shared", "gpu"))
    first = our_stage.pods.wait_bound("p0")["p0"]

    our_stage.member("p1", "g", from_template("shared", "gpu"))

    assert our_stage.pods.wait_bound("p1")["p1"] == first
    (claim,) = our_stage.dra.all_claims()
    assert reserved_for(claim) == FOR_GROUP, "and once"


def test_pods_of_a_gang_that_use_one_claim_are_bound_where_it_is(our_stage: Stage) -> None:
    """The claim is not one of the group: it is reserved for each of the pods."""
    stage, names = our_stage, [f"p{number}" for number in range(4)]
    audit = ClaimAudit(stage.plane, stage.name)
    stage.dra.a_claim("c", stage.claim_for_one())
    stage.group("g", len(names))
    for name in names:
        stage.member(name, "g", named("it", "c"))

    where = stage.pods.wait_bound(*names)

    claim = stage.dra.claim("c")
    assert devices_of(claim) == [f"{node}/gpu-0" for node in set(where.values())]
    assert sorted(users_of(claim)) == names
    assert audit.check() == len(names)


def cordon(stage: Stage, node: str) -> None:
    """Returns when the scheduler has seen it: it puts no new pod there any more."""
    stage.plane.api("PATCH", f"/api/v1/nodes/{node}", {"spec": {"unschedulable": True}},
                    content_type="application/merge-patch+json")  # fmt: skip

    def is_seen() -> bool:
        name = f"probe-{next(_numbers)}"
        selector = {"kubernetes.io/hostname": node}
        stage.pods.create(name, scheduler=stage.scheduler, nodeSelector=selector)
        eventually(lambda: stage.pods.condition(name), what=f"{name} is looked at")
        return not stage.pods.node(name)

    eventually(is_seen, what=f"{node} takes no pods")


def test_a_claim_that_keeps_the_group_from_its_nodes_is_freed(our_stage: Stage) -> None:
    """It was allocated in an earlier attempt, for a node that the group cannot use any more."""
    our_stage.dra.a_claim("c", our_stage.claim_for_one())
    group = our_stage.group("g", 2, named("shared", "c"))
    away, other = our_stage.nodes
    cordon(our_stage, away)
    result = {"request": "gpu", "driver": "gpu.example.com", "pool": away, "device": "gpu-0"}
    field = {"key": "metadata.name", "operator": "In", "values": [away]}
    status = {
        "allocation": {
            "devices": {"results": [result]},
            "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [field]}]},
        },
        "reservedFor": [{"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "g",
                         "uid": group["metadata"]["uid"]}],
    }  # fmt: skip
    our_stage.dra.patch("c", {"status": status}, "/status")
    our_stage.member("p0", "g", named("shared", "c"))
    our_stage.member("p1", "g", named("shared", "c"))

    assert set(our_stage.pods.wait_bound("p0", "p1").values()) == {other}
    assert devices_of(our_stage.dra.claim("c")) == [f"{other}/gpu-0"]


def test_devices_of_a_group_are_free_after_the_group_is_gone(our_stage: Stage) -> None:
    stage = our_stage
    stage.dra.a_template("gpu", claim_spec(exactly(stage.name, count=2)))
    stage.group("g", 1, from_template("shared", "gpu"))
    for number in range(2):
        stage.group(f"g{number}", 1, from_template("shared", "gpu"))
        stage.member(f"p{number}", f"g{number}", from_template("shared", "gpu"))
    stage.pods.wait_bound("p0", "p1")
    stage.member("next", "g", from_template("shared", "gpu"))
    stage.pods.wait_refused("next")

    stage.pods.delete("p0")
    path, kind = stage.gangs.path(stage.name, "g0"), "application/merge-patch+json"
    stage.plane.api("DELETE", path)
    stage.plane.api("PATCH", path, {"metadata": {"finalizers": None}}, content_type=kind)

    stage.pods.wait_bound("next")
    eventually(lambda: len(stage.dra.all_claims()) == 2, what="the claim of g0 is gone")
