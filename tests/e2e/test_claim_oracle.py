"""Claims, allocated by the real kube-scheduler and by Fairlead: same node, devices and words."""

import itertools
import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from claim_scenes import CLASS, SCENES, ClaimScene
from dra_objects import DRIVER, RESOURCE, DraObjects, Object
from extended_scenes import EXTENDED_SCENES, ExtendedScene
from fairlead.sim.controlplane import ControlPlane
from fairleads import Pods, eventually, fairlead

pytestmark = pytest.mark.server

SCHEDULERS = {"theirs": "default-scheduler", "ours": "gpu-scheduler"}
_numbers = itertools.count()


@pytest.fixture(scope="module")
def arena(real_plane: ControlPlane) -> Iterator[ControlPlane]:
    """One API server, with kube-scheduler and Fairlead at work on it."""
    with real_plane.start_kube_scheduler(), fairlead(real_plane):
        yield real_plane


@pytest.fixture
def stage(arena: ControlPlane) -> Iterator["Stage"]:
    found = Stage(arena, f"claims-{next(_numbers)}")
    yield found
    found.remove()


class Stage:
    """Two worlds that are alike, and the pods of both schedulers in them."""

    def __init__(self, plane: ControlPlane, namespace: str) -> None:
        self._plane = plane
        assert plane.api("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})[0] == 201
        self._path = f"/api/v1/namespaces/{namespace}"
        self.pods = Pods(plane, namespace)
        self.dra = DraObjects(plane, namespace)
        self._nodes: list[str] = []

    def set_up(self, scene: ClaimScene) -> None:
        labels = {"metadata": {"labels": scene.namespace_labels}}
        self._plane.api("PATCH", self._path, labels, content_type="application/merge-patch+json")
        self.dra.a_class(CLASS)
        for name, spec in scene.classes.items():
            self.dra.make(f"{RESOURCE}/deviceclasses", {"metadata": {"name": name}, "spec": spec})
        for world in SCHEDULERS:
            for node, devices in scene.nodes.items():
                self._nodes.append(f"{world}-{node}")
                self._plane.create_nodes([f"{world}-{node}"], labels={"world": world})
                if devices:
                    self.dra.a_slice(f"{world}-{node}", devices)
            for spec in scene.slices:
                self._a_slice(world, spec)

    def _a_slice(self, world: str, spec: Object) -> None:
        text = json.dumps({**spec, "driver": DRIVER}).replace("{world}", world)
        body = {key: value for key, value in json.loads(text).items() if value is not None}
        index = body.pop("index")
        name = f"{self.pods.namespace}-{world}-{index}"
        self.dra.make(f"{RESOURCE}/resourceslices", {"metadata": {"name": name}, "spec": body})

    def play(self, scene: ClaimScene, world: str) -> None:
        """One pod after the other: the next one comes when this one has a node, or a refusal."""
        for number, specs in enumerate(scene.pods):
            names = self._claims(scene, world, number)
            for name, spec in zip(names, specs, strict=False):
                self.dra.a_claim(name, _without_none(spec))
            pod = f"{world}-{number}"
            self.pods.create(
                pod,
                scheduler=SCHEDULERS[world],
                nodeSelector={"world": world},
                resourceClaims=[{"name": f"c{at}", "resourceClaimName": name}
                                for at, name in enumerate(names)],
            )  # fmt: skip
            is_bound = scene.bound[number] == "y"
            _ = self.pods.wait_bound(pod) if is_bound else self.pods.wait_refused(pod)

    def ends(self, scene: ClaimScene, world: str) -> list[Object]:
        """What has become of each pod, in words without the world."""
        return [self._end(scene, world, number) for number in range(len(scene.pods))]

    def _claims(self, scene: ClaimScene, world: str, number: int) -> list[str]:
        owner = 0 if scene.shared else number
        return [f"{world}-{owner}-{each}" for each in range(len(scene.pods[owner]))]

    def _end(self, scene: ClaimScene, world: str, number: int) -> Object:
        pod = f"{world}-{number}"
        condition = self.pods.condition(pod)
        found = {
            "node": self.pods.node(pod),
            "reason": condition.get("reason", ""),
            "message": condition.get("message", ""),
            "claims": [self._shown(name) for name in self._claims(scene, world, number)],
        }
        return json.loads(json.dumps(found).replace(world, "W"))

    def _shown(self, name: str) -> Any:
        claim = self.dra.claim(name)
        allocation = claim.get("status", {}).get("allocation", {})
        allocation.pop("allocationTimestamp", None)
        for result in allocation.get("devices", {}).get("results", []):
            if "shareID" in result:
                result["shareID"] = "share"
        users = [each["name"] for each in claim.get("status", {}).get("reservedFor", [])]
        return [allocation, users, claim["metadata"].get("finalizers", [])]

    # -- extended resources ------------------------------------------------------------------

    def set_up_extended(self, scene: ExtendedScene) -> None:
        more = {"extendedResourceName": scene.resource} if scene.resource else {}
        self.dra.a_class(CLASS, **more)
        for name, spec in scene.classes.items():
            self.dra.make(f"{RESOURCE}/deviceclasses", {"metadata": {"name": name}, "spec": spec})
        for world, (node, devices) in itertools.product(SCHEDULERS, scene.nodes.items()):
            self._nodes.append(f"{world}-{node}")
            offered = scene.offered.get(node)
            labels = {"world": world}
            self._plane.create_nodes([f"{world}-{node}"], labels=labels, allocatable=offered)
            if devices:
                self.dra.a_slice(f"{world}-{node}", devices)

    def play_extended(self, scene: ExtendedScene, world: str) -> None:
        for number, spec in enumerate(scene.pods):
            pod = f"{world}-{number}"
            where = {"scheduler": SCHEDULERS[world], "nodeSelector": {"world": world}}
            self.pods.create(pod, **where, **spec)
            is_bound = scene.bound[number] == "y"
            _ = self.pods.wait_bound(pod) if is_bound else self.pods.wait_refused(pod)

    def extended_ends(self, scene: ExtendedScene, world: str) -> list[Object]:
        return [self._extended_end(f"{world}-{number}", world) for number in range(len(scene.pods))]

    def _extended_end(self, name: str, world: str) -> Object:
        pod, condition = self.pods.get(name), self.pods.condition(name)
        uid = pod["metadata"]["uid"]
        claims = [
            each
            for each in self.dra.all_claims()
            if any(owner["uid"] == uid for owner in each["metadata"].get("ownerReferences", []))
        ]
        found = {
            "node": self.pods.node(name),
            "reason": condition.get("reason", ""),
            "message": condition.get("message", ""),
            "status": pod["status"].get("extendedResourceClaimStatus"),
            "claims": [self._made(claim) for claim in claims],
        }
        text = json.dumps(found).replace(world, "W").replace(uid, "UID")
        for claim in claims:
            text = text.replace(claim["metadata"]["name"].replace(world, "W"), "CLAIM")
        return json.loads(text)

    def _made(self, claim: Object) -> Object:
        kept = ("annotations", "generateName", "ownerReferences")
        shown = {"spec": claim["spec"], "status": self._shown(claim["metadata"]["name"])}
        return shown | {key: claim["metadata"].get(key) for key in kept}

    def remove(self) -> None:
        for name in self.pods.nodes():
            self.pods.delete(name)
        self.dra.remove_all()
        for name in self._nodes:
            self._plane.api("DELETE", f"/api/v1/nodes/{name}")
        self._plane.delete_namespace(self.pods.namespace)


def _without_none(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_none(each) for key, each in value.items() if each is not None}
    return [_without_none(each) for each in value] if isinstance(value, list) else value


@pytest.mark.parametrize("name", SCENES)
def test_node_devices_and_words_are_kube_schedulers(stage: Stage, name: str) -> None:
    scene = SCENES[name]
    stage.set_up(scene)
    for world in SCHEDULERS:
        stage.play(scene, world)

    # The first refusal may come before everything was seen.
    with suppress(AssertionError):
        eventually(lambda: stage.ends(scene, "ours") == stage.ends(scene, "theirs"))
    assert stage.ends(scene, "ours") == stage.ends(scene, "theirs")


@pytest.mark.parametrize("name", EXTENDED_SCENES)
def test_extended_resources_are_served_as_by_kube_scheduler(stage: Stage, name: str) -> None:
    """Node, claim, devices, status of the pod and words."""
    scene = EXTENDED_SCENES[name]
    stage.set_up_extended(scene)
    for world in SCHEDULERS:
        stage.play_extended(scene, world)
    with suppress(AssertionError):
        eventually(
            lambda: stage.extended_ends(scene, "ours") == stage.extended_ends(scene, "theirs")
        )
    assert stage.extended_ends(scene, "ours") == stage.extended_ends(scene, "theirs")
