"""A full cluster, and objects that are put into it as the events in which they are read."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from fairlead.apps.config.profiles import built_in
from fairlead.engine.engine import Engine
from fairlead.engine.events import Event, NamespaceSeen, NodeSeen, PodGone, PodSeen
from fairlead.kube.codec import decode_node, decode_pod
from fairlead.kube.limits import MOST_RULES
from fairlead.model.pods import Pod
from pods import HOST, ZONE, Body, plain

Made: TypeAlias = Callable[[], Event]


@dataclass(frozen=True, slots=True)
class Later:
    """Nothing happens for a while."""

    seconds: float


Shape: TypeAlias = Callable[["Size"], Iterator[Made | Later]]

SCHEDULER = "gpu-scheduler"
PROFILE = "default-scheduler"
#: Assigns GPUs, and follows scheduling maps.
MAPPING = "mapping-scheduler"
GANG = "fairlead.dev/gang"
TEAMS = 20
APPS = 200


@dataclass(frozen=True, slots=True)
class Size:
    nodes: int = 5000
    pods: int = 38_000
    #: Pods and other objects of a hostile kind, where there are several.
    many: int = 4000
    #: Values, lines, labels and the like of one object.
    each: int = 10_000
    #: Rules of one pod, as many as it may have: that follows from what they cost here.
    rules: int = MOST_RULES

    @classmethod
    def percent(cls, part: int) -> "Size":
        """So many hundredths of what is measured, for a test."""
        return cls(50 * part, 380 * part, 40 * part, 100 * part)

    def node(self, number: int) -> str:
        return f"node-{number % self.nodes:05d}"


def a_full_cluster(size: Size, engine: Engine | None = None) -> Engine:
    """Nodes in ten zones, and pods of many teams and apps that leave a little room on each node."""
    profiles = {SCHEDULER: built_in(PROFILE), MAPPING: built_in("gpu-scheduler")}
    engine = engine or Engine(profiles)
    for number in range(size.nodes):
        engine.handle(NodeSeen(decode_node(encoded(a_node(size, number)))), now=0.0)
    for team in range(TEAMS):
        engine.handle(NamespaceSeen(f"team-{team}", {"team": f"t{team}"}), now=0.0)
    kind = decode_pod(encoded(a_pod("there", cpu="1", gpus=1)))
    for number in range(size.pods):
        engine.handle(PodSeen(_bound(kind, size, number)), now=0.0)
    return engine


def _bound(kind: Pod, size: Size, number: int) -> Pod:
    labels = {"app": f"app-{number % APPS}", "pod": f"pod-{number}", "tier": "web"}
    return replace(
        kind,
        namespace=f"team-{number % TEAMS}",
        name=f"there-{number}",
        uid=f"there-{number}",
        node=size.node(number),
        labels=labels,
    )


def a_node(size: Size, number: int, **more: Any) -> Body:
    name = size.node(number)
    amounts = {"cpu": "64", "memory": "1Ti", "pods": "110", "nvidia.com/gpu": "8"}
    amounts |= more.pop("resources", {})
    labels = {HOST: name, ZONE: f"zone-{number % 10}", **more.pop("labels", {})}
    return {
        "metadata": {"name": name, "labels": labels, "uid": name},
        "spec": more.pop("spec", {}),
        "status": {"allocatable": amounts, **more},
    }


def a_pod(name: str, *, cpu: str = "1", gpus: int = 0, priority: int = 0, **spec: Any) -> Body:
    labels = spec.pop("labels", {"app": "hostile"})
    body = plain(cpu=cpu, gpus=gpus, schedulerName=SCHEDULER, priority=priority, **spec)
    namespace = spec.get("namespace", "team-0")
    return body | {
        "metadata": {"name": name, "uid": name, "namespace": namespace, "labels": labels}
    }


def encoded(body: Body) -> bytes:
    return json.dumps(body).encode()


def seen(body: Body) -> Made:
    raw = encoded(body)
    return lambda: PodSeen(decode_pod(raw))


def node_seen(body: Body) -> Made:
    raw = encoded(body)
    return lambda: NodeSeen(decode_node(raw))


def gone(size: Size, number: int) -> Made:
    kind = decode_pod(encoded(a_pod("there", cpu="1", gpus=1)))
    return lambda: PodGone(_bound(kind, size, number))
