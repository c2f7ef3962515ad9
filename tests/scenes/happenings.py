"""What may happen in a cluster while a pod waits, each as one write to the API server."""

from collections.abc import Callable
from typing import TypeAlias

from stages import Stage
from tables import HOME, NODES, PODS, Body, pairs, taint

Happening: TypeAlias = Callable[[Stage], None]
ASKS = f"{PODS.format(HOME)}/asks"


def path_of(name: str, namespace: str = HOME) -> str:
    return f"{PODS.format(namespace)}/{name}"


def goes(name: str, namespace: str = HOME) -> Happening:
    return lambda play: play.remove(path_of(name, namespace))


def ends(name: str) -> Happening:
    """The pod has done its work."""
    return lambda play: play.change(
        f"{path_of(name)}/status", {"status": {"phase": "Succeeded"}}
    )  # fmt: skip


def labelled(path: str, labels: str) -> Happening:
    """Labels in the form `"app=web old="`; without a value the label goes."""
    wanted = {key: value or None for key, value in pairs(labels).items()}
    return lambda play: play.change(path, {"metadata": {"labels": wanted}})


def pod_labelled(name: str, labels: str, namespace: str = HOME) -> Happening:
    return labelled(path_of(name, namespace), labels)


def node_labelled(name: str, labels: str) -> Happening:
    return labelled(f"{NODES}/@{name}", labels)


def namespace_labelled(name: str, labels: str) -> Happening:
    return labelled(f"/api/v1/namespaces/@{name}", labels)


def tainted(name: str, taints: str = "") -> Happening:
    """The node has these taints, and no others."""
    kept = [taint(text) for text in taints.split()]
    return lambda play: play.change(f"{NODES}/@{name}", {"spec": {"taints": kept}})


def cordoned(name: str, *, now: bool) -> Happening:
    return lambda play: play.change(f"{NODES}/@{name}", {"spec": {"unschedulable": now}})


def room_changed(name: str, room: str) -> Happening:
    amounts = pairs(room)
    status = {"capacity": amounts, "allocatable": amounts}
    return lambda play: play.change(f"{NODES}/@{name}/status", {"status": status})


def heartbeat(name: str) -> Happening:
    """What a kubelet writes every five minutes, though nothing happened."""
    beat = {"type": "Ready", "status": "True", "lastHeartbeatTime": "2031-01-01T00:00:00Z"}
    return lambda play: play.change(f"{NODES}/@{name}/status", {"status": {"conditions": [beat]}})


def node_comes(name: str, what: Body) -> Happening:
    return lambda play: play.add_node(name, what)


def node_goes(name: str) -> Happening:
    return lambda play: play.remove(f"{NODES}/@{name}")


def pod_comes(name: str, what: Body) -> Happening:
    """A pod that somebody else has bound already."""

    def happens(play: Stage) -> None:
        play.add_pod(name, what)

    return happens


def resized(name: str, takes: str) -> Happening:
    """The pod's only container now asks for this."""
    body = {"spec": {"containers": [{"name": "main", "resources": {"requests": pairs(takes)}}]}}
    return lambda play: play.resize(path_of(name), body)


def own(patch: Body) -> Happening:
    """The waiting pod itself is changed."""
    return lambda play: play.change(ASKS, patch)


def makes(collection: str, body: Body) -> Happening:
    return lambda play: play.make(collection, body)


def one_after_the_other(*happenings: Happening) -> Happening:
    def happens(play: Stage) -> None:
        for happening in happenings:
            happening(play)

    return happens
