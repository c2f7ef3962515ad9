"""What was assigned is what is held, on the real API server and without any policy.

Every word that asks for GPUs is edited on bound pods, in every way and with every kind of patch.
Beside each pod, another one tries to get a place: where the node is full it must not, and where
there is room it must. An auditor reads the JSON of all pods.
"""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from fairlead.kube.dialects import DIALECTS
from fairlead.sim.controlplane import ControlPlane
from fairlead.sim.controlplane.client import APPLY_PATCH, MERGE_PATCH, STRATEGIC_PATCH
from fairleads import Pods, Running, eventually, fairlead
from held_scenes import CONTAINER, GIB, LOCKS, MIB, Scene, Texts, scenes
from raw_audit import given_twice

pytestmark = [pytest.mark.server, pytest.mark.timeout(1800)]

JSON_PATCH = "application/json-patch+json"
EDITS = ("remove", "remove all", "spoil", "double", "raise", "lower")
SCENES = scenes()


class Stage:
    """The pods of all scenes, bound and running; and the probes beside them."""

    def __init__(self, plane: ControlPlane, pods: Pods, scenes: Sequence[Scene]) -> None:
        self.plane, self.pods, self.scenes = plane, pods, scenes

    def set_up(self) -> None:
        for scene in self.scenes:
            self.apply(scene, scene.asks)
        self.pods.wait_bound(*(self.name(scene) for scene in self.scenes))
        for scene in self.scenes:
            status = {"status": {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"}}
            self.patch(scene, status, MERGE_PATCH, "/status")
        self.unlock()

    def name(self, scene: Scene) -> str:
        return f"{scene.name}-0"  # which a map takes for its index

    def apply(self, scene: Scene, asks: Texts) -> None:
        """As its author does with `kubectl apply --server-side`."""
        body = _pod(self.name(scene), scene, asks, scene.requests)
        path = f"{self.pods.path}/{self.name(scene)}?fieldManager=author&force=true"
        status, answer = self.plane.api("PATCH", path, body, content_type=APPLY_PATCH)
        assert status in (200, 201), answer

    def patch(self, scene: Scene, body: Any, kind: str, sub: str = "") -> None:
        path = f"{self.pods.path}/{self.name(scene)}{sub}"
        status, answer = self.plane.api("PATCH", path, body, content_type=kind)
        assert status == 200, answer

    def restore(self) -> None:
        for scene in self.scenes:
            extra = {key: None for edit in EDITS for key in scene.edited(edit)}
            gone = {key: None for key in extra if key not in scene.asks}
            self.patch(scene, {"metadata": {"annotations": gone}}, MERGE_PATCH)
            self.apply(scene, scene.asks)

    def probe(self) -> None:
        """Tries to place a pod beside each of the others, and has all of them looked at."""
        for scene in self.scenes:
            asks, requests = scene.probe
            body = _pod(f"{scene.name}-probe", scene, asks, requests)
            body["metadata"]["labels"] = {"probe": "true"}
            status, answer = self.plane.api("POST", self.pods.path, body)
            assert status == 201, answer
        found = eventually(self._decided, what="every probe is decided")
        wrong = [s.name for s in self.scenes if bool(found[f"{s.name}-probe"]) != s.fits]
        assert not wrong, {name: found[f"{name}-probe"] for name in wrong}
        assert given_twice(self._all(), MIB) == []
        self.plane.api(
            "DELETE", f"{self.pods.path}?labelSelector=probe%3Dtrue", {"gracePeriodSeconds": 0}
        )
        self.unlock()

    def _all(self) -> list[dict[str, Any]]:
        _, found = self.plane.api("GET", self.pods.path)
        return list(found["items"])

    def _decided(self) -> dict[str, str] | None:
        """The node of each probe, empty if it was refused; None while one waits for its turn.

        A probe that must fit is waited for: it may have been refused while a plugin was busy.
        """
        fits = {f"{scene.name}-probe": scene.fits for scene in self.scenes}
        nodes: dict[str, str] = {}
        for pod in self._all():
            name, node = pod["metadata"]["name"], pod["spec"].get("nodeName", "")
            conditions = pod.get("status", {}).get("conditions", [])
            refused = any(c.get("reason") == "Unschedulable" for c in conditions)
            if name in fits and (node or (refused and not fits[name])):
                nodes[name] = node
        return nodes if len(nodes) == len(self.scenes) else None

    def unlock(self) -> None:
        """As the device plugins of HAMi and Volcano do when they have served a pod."""
        for scene in self.scenes:
            if scene.kind in ("hami", "volcano"):
                body = {"metadata": {"annotations": dict.fromkeys(LOCKS)}}
                self.plane.api(
                    "PATCH", f"/api/v1/nodes/{scene.name}", body, content_type=MERGE_PATCH
                )


def _pod(name: str, scene: Scene, asks: Texts, requests: Texts) -> dict[str, Any]:
    container = {"name": "main", "image": "x", "resources": {"requests": requests}}
    if requests:
        container["resources"]["limits"] = requests
    return {
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "annotations": asks},
        "spec": {
            "schedulerName": "gpu-scheduler", "containers": [container],
            "nodeSelector": {"kubernetes.io/hostname": scene.name},
        },
    }  # fmt: skip


def _by_json(stage: Stage, scene: Scene, asks: Texts) -> None:
    removed = [{"op": "remove", "path": _pointer(key)} for key in scene.asks if key not in asks]
    added = [{"op": "add", "path": _pointer(key), "value": text} for key, text in asks.items()]
    stage.patch(scene, [*removed, *added], JSON_PATCH)


def _pointer(key: str) -> str:
    return "/metadata/annotations/" + key.replace("~", "~0").replace("/", "~1")


def _by_merging(kind: str) -> Callable[[Stage, Scene, Texts], None]:
    def edit(stage: Stage, scene: Scene, asks: Texts) -> None:
        removed = {key: None for key in scene.asks if key not in asks}
        stage.patch(scene, {"metadata": {"annotations": {**removed, **asks}}}, kind)

    return edit


WAYS: dict[str, Callable[[Stage, Scene, Texts], None]] = {
    "JSON patch": _by_json,
    "merge patch": _by_merging(MERGE_PATCH),
    "strategic patch": _by_merging(STRATEGIC_PATCH),
    "apply": lambda stage, scene, asks: stage.apply(scene, asks),
}


@pytest.fixture
def stage(control_plane: ControlPlane, create_nodes: Any, pods: Pods) -> Callable[..., Stage]:
    def make(scenes: Sequence[Scene]) -> Stage:
        for scene in scenes:
            labels = {"kubernetes.io/hostname": scene.name}
            create_nodes([scene.name], labels=labels, **scene.node)
        return Stage(control_plane, pods, scenes)

    return make


def test_every_word_is_edited() -> None:
    known = {word for dialect in DIALECTS for word in dialect.annotation_keys}
    by_container = {CONTAINER + end for end in ("memory.request", "memory.limit", "compute.mode")}
    by_container = {word.replace("main.", "main.gpu-") for word in by_container}

    assert {scene.word for scene in SCENES} == {"", *known, *by_container}
    assert GIB * 1024 == MIB


def test_removed_words_free_and_book_no_gpu(stage: Callable[..., Stage]) -> None:
    """One word of each kind of node, full and with room."""
    each = {(scene.kind, scene.fits): scene for scene in reversed(SCENES)}
    _edit_and_probe(stage(list(each.values())), ("remove all",), ("merge patch",))


@pytest.mark.slow
def test_no_edit_frees_or_books_a_gpu(stage: Callable[..., Stage]) -> None:
    """Two minutes: six edits by four kinds of patch, and each of them across a restart."""
    _edit_and_probe(stage(SCENES), EDITS, tuple(WAYS))


def _edit_and_probe(stage: Stage, edits: Sequence[str], ways: Sequence[str]) -> None:
    access = stage.plane.kubeconfig_for()
    with fairlead(stage.plane, kubeconfig=access) as running:
        stage.set_up()
        stage.probe()
        for edit in edits[:3]:
            _try(stage, edit, ways)
        _check_reports(stage, running)
    for edit in edits:
        _edit_all(stage, edit, WAYS["merge patch"])
        with fairlead(stage.plane, kubeconfig=access):  # which never saw the pods otherwise
            stage.probe()
            if edit in edits[3:]:
                _try(stage, edit, ways)
        stage.restore()


def _try(stage: Stage, edit: str, ways: Sequence[str]) -> None:
    for way in ways:
        stage.restore()
        _edit_all(stage, edit, WAYS[way])
        stage.probe()


def _edit_all(stage: Stage, edit: str, way: Callable[[Stage, Scene, Texts], None]) -> None:
    for scene in stage.scenes:
        way(stage, scene, scene.edited(edit))


def _check_reports(stage: Stage, running: Running) -> None:
    """Each pod whose request was removed has an event that says so; the metric counts them."""
    for scene in stage.scenes:
        if scene.asks and not scene.requests:
            found = eventually(lambda s=scene: _warnings(stage, s), what=f"{scene.name} is told")
            assert "The pod keeps what it was assigned." in found[0]["note"]
    assert running.metric("fairlead_pod_warnings_total", reason="RequestChangeIgnored") > 0


def _warnings(stage: Stage, scene: Scene) -> list[dict[str, Any]]:
    return stage.pods.events(stage.name(scene), "RequestChangeIgnored")
