"""Where a pod may go: a table after kube-scheduler's own integration tests."""

import pytest

from filter_scenes import Scene
from filter_scenes_nodes import SCENES as ABOUT_NODES
from filter_scenes_pods import SCENES as ABOUT_PODS
from stages import Stage
from tables import Body, params, pod, rows
from volume_scenes import FILTERS as ABOUT_VOLUMES

SCENES = rows(ABOUT_NODES | ABOUT_PODS, ABOUT_VOLUMES)
HEAVY = {"metadata": {"name": "@heavy"}, "handler": "x", "overhead": {"podFixed": {"cpu": "1"}}}


@pytest.mark.parametrize("scene", params(SCENES))
def test_a_pod_goes_where_it_may_or_is_told_why_not(play: Stage, scene: Scene) -> None:
    set_up(play, scene)
    path = play.ask("asks", scene.asks)
    if scene.fits:
        assert play.wait_bound(path) in scene.fits.split()
    else:
        assert scene.refused in play.wait_refused(path)


def test_a_gated_pod_is_not_tried(play: Stage) -> None:
    play.clear()
    play.ready()
    before = play.attempts()
    path = play.ask("asks", pod(schedulingGates=[{"name": "example.com/wait"}]))
    play.mark()
    assert play.attempts() == before
    assert play.condition(path)["reason"] == "SchedulingGated"


def set_up(play: Stage, scene: Scene) -> None:
    play.clear()
    if "@heavy" in str(scene):
        play.make("/apis/node.k8s.io/v1/runtimeclasses", HEAVY)
    for collection, body in scene.objects:
        play.make(collection, body)
    for name, labels in scene.namespaces.items():
        play.add_namespace(name, labels)
    for name, node in scene.nodes.items():
        play.add_node(name, node)
    for number, there in enumerate(scene.there):
        put_there(play, f"there-{number}", there)
    play.ready()


def put_there(play: Stage, name: str, what: Body) -> None:
    """A pod of somebody else's, as the scene has it: running, finished, or on its way out."""
    spec, meta = dict(what["spec"]), dict(what["metadata"])
    phase, gone = spec.pop("phase", ""), meta.pop("gone", False)
    path = play.add_pod(name, {"metadata": meta, "spec": spec})
    if phase:
        play.change(f"{path}/status", {"status": {"phase": phase}})
    if gone:
        play.remove(path)
