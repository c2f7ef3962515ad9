"""`fairlead compare`: the same pods on the same cluster, as each profile would place them.

Nothing is bound. Pods are placed one after the other, the more important first, and each sees what
those before it took.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any, TextIO

import msgspec
import yaml

from fairlead.apps.config import profiles, typed_yaml
from fairlead.apps.config.run_plan import RunOptions
from fairlead.apps.explain.explanation import gpus_told
from fairlead.apps.live import live_cluster
from fairlead.engine.engine import Engine
from fairlead.engine.events import Event, NodeSeen, PodSeen, PricesComputed
from fairlead.kube.access.kubeconfig import load_access
from fairlead.kube.codec import decode_node, decode_pod
from fairlead.kube.http.client import Client
from fairlead.model.errors import ConfigError, FairleadError
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.pods import Pod
from fairlead.model.prices import Prices
from fairlead.placement.place import Placement
from fairlead.placement.prices import compute
from fairlead.placement.verdicts import Placed


@dataclass(frozen=True, slots=True)
class Scene:
    """What is known of a cluster, pods that are to be placed among it."""

    events: tuple[Event, ...]

    @property
    def waiting(self) -> list[Pod]:
        found = (event.pod for event in self.events if isinstance(event, PodSeen))
        return sorted(filter(_waits, found), key=lambda pod: -pod.priority)

    @property
    def others(self) -> list[Event]:
        """Everything but the pods that wait."""
        return [e for e in self.events if not (isinstance(e, PodSeen) and _waits(e.pod))]


def _waits(pod: Pod) -> bool:
    return not (pod.node or pod.finished or pod.gates or pod.deleting)


def read_scene(path: Path | None) -> Scene:
    if path is None:
        file = resources.files("fairlead.apps").joinpath("compare.yaml")
        return parse_scene(file.read_text(encoding="utf-8"))
    return typed_yaml.read(path, "workload", parse_scene)


def parse_scene(text: str) -> Scene:
    """Nodes and pods from YAML documents, or from a List such as kubectl prints."""
    nodes: list[Event] = []
    pods: list[Event] = []
    for body in _objects(text):
        kind, raw = body.get("kind"), msgspec.Raw(msgspec.json.encode(body))
        try:
            if kind == "Node":
                nodes.append(NodeSeen(decode_node(raw)))
            elif kind == "Pod":
                pods.append(PodSeen(_with_uid(decode_pod(raw))))
        except (FairleadError, msgspec.MsgspecError) as error:
            name = (body.get("metadata") or {}).get("name", "without a name")
            raise ConfigError(f"{kind} {name}: {error}") from error
    if not nodes or not pods:
        raise ConfigError("the file must have at least one Node and one Pod")
    return Scene((*nodes, *pods))


async def live_scene(options: RunOptions) -> Scene:
    client = Client(load_access(options.kubeconfig, options.context))
    try:
        return Scene(tuple([event async for event in live_cluster.events(client)]))
    finally:
        await client.close()


def compare(scene: Scene, names: Sequence[str] | None = None) -> dict[str, Any]:
    """What `-o json` prints: for each profile, each waiting pod's place."""
    prices = _prices(scene)
    placed = {name: _placed_by(name, scene, prices) for name in names or profiles.NAMES}
    return {"pods": [pod.key for pod in scene.waiting], "profiles": placed}


def show(found: dict[str, Any], output: str, out: TextIO) -> None:
    if output == "json":
        out.write(json.dumps(found, indent=2) + "\n")
        return
    if not found["pods"]:
        out.write("no pending pods\n")
        return
    rows = [("POD", "PROFILE", "NODE", "SCORE", "GPUS")]
    for number, pod in enumerate(found["pods"]):
        for profile, places in found["profiles"].items():
            place = places[number]
            score = "" if place["score"] is None else f"{place['score']:.1f}"
            rows.append((pod, profile, place["node"] or "-", score, place["gpus"] or place["why"]))
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    for row in rows:
        fixed = "  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=False))
        out.write(f"{fixed}  {row[4]}".rstrip() + "\n")


def _objects(text: str) -> Iterable[dict[str, Any]]:
    try:
        documents = [body for body in yaml.safe_load_all(text) if isinstance(body, dict)]
    except yaml.YAMLError as error:
        raise ConfigError(f"it is not valid YAML: {error}") from error
    for body in documents:
        items = body.get("items")
        yield from items if isinstance(items, list) else [body]


def _with_uid(pod: Pod) -> Pod:
    return pod if pod.uid else replace(pod, uid=f"uid-of-{pod.key}")


def _cluster_of(scene: Scene) -> Engine:
    engine = Engine({})
    for event in scene.others:
        engine.handle(event, now=0.0)
    return engine


def _prices(scene: Scene) -> Prices | None:
    engine = _cluster_of(scene)
    for pod in scene.waiting:
        engine.demand.add(pod.request)
    return compute(engine.basis())


def _placed_by(name: str, scene: Scene, prices: Prices | None) -> list[dict[str, Any]]:
    engine = _cluster_of(scene)
    if prices is not None:
        engine.handle(PricesComputed(prices), now=0.0)
    placement = Placement(profiles.built_in(name), engine.cluster)
    return [_place(pod, placement, engine) for pod in scene.waiting]


def _place(pod: Pod, placement: Placement, engine: Engine) -> dict[str, Any]:
    answer: dict[str, Any] = {"node": "", "score": None, "gpus": "", "why": pod.problem}
    if pod.problem:
        return answer
    verdict = placement.place(pod)
    if not isinstance(verdict, Placed):
        return answer | {"why": verdict.message}
    engine.cluster.assume(pod, verdict.node, verdict.grant)
    gpus = gpus_told(verdict.grant).removeprefix(", ")
    return answer | {"node": verdict.node, "score": round(verdict.score, 2), "gpus": gpus}
