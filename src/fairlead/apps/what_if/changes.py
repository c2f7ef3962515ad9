"""Changes to what is known of a cluster: nodes, queues, priorities. The cluster itself stays."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from fairlead.apps.what_if.device_changes import copied_devices, without_devices
from fairlead.engine.events import Event, NodeSeen, PodSeen, QueueSeen
from fairlead.model.errors import ConfigError
from fairlead.model.gpus import Inventory
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.nodes import Node
from fairlead.model.pods import Amounts, Pod
from fairlead.model.queues import GPUS, QueueSpec

MOST_NODES = 10_000

_HOSTNAME = "kubernetes.io/hostname"
#: Labels that say of which kind a node is, for `--like`.
_KINDS = ("node.kubernetes.io/instance-type", "nvidia.com/gpu.product")


@dataclass(frozen=True, slots=True)
class Changes:
    """What differs from the cluster as it is."""

    add_nodes: int = 0
    like: str = ""
    without_nodes: tuple[str, ...] = ()
    #: "NAME=weight=3,limit=8,guaranteed=4,priority=1", as it was written.
    queues: tuple[str, ...] = ()
    #: "NAMESPACE/POD=1000".
    priorities: tuple[str, ...] = ()


def changed_events(events: Sequence[Event], changes: Changes, namespace: str) -> list[Event]:
    """Raises ConfigError for a node, queue or pod that does not exist, or a value that is none."""
    nodes = [event.node for event in events if isinstance(event, NodeSeen)]
    found = _without(events, changes.without_nodes, nodes)
    for text in changes.queues:
        found = _with_queue(found, text)
    for text in changes.priorities:
        found = _with_priority(found, text, namespace)
    added = _more_nodes(nodes, changes)
    devices = copied_devices(events, _model_node(nodes, changes.like).name, added) if added else []
    return [*map(NodeSeen, added), *devices, *found]


def _without(events: Sequence[Event], names: Sequence[str], nodes: Iterable[Node]) -> list[Event]:
    """Pods of controllers on these nodes are created again; others are gone."""
    known = {node.name for node in nodes}
    if unknown := next((name for name in names if name not in known), ""):
        raise ConfigError(f"there is no node {unknown}")
    kept: list[Event] = []
    gone: list[Pod] = []
    for event in events:
        if isinstance(event, NodeSeen) and event.node.name in names:
            continue
        if isinstance(event, PodSeen) and event.pod.node in names:
            gone.append(event.pod)
            kept += [PodSeen(_created_again(event.pod))] if _has_controller(event.pod) else []
        else:
            kept.append(event)
    return without_devices(kept, names, gone) if names else kept


def _has_controller(pod: Pod) -> bool:
    kind = pod.controller.partition("/")[0] or (pod.owner[0] if pod.owner else "")
    return bool(kind) and kind not in ("Node", "DaemonSet") and not pod.finished


def _created_again(pod: Pod) -> Pod:
    return replace(pod, node="", grant=None, started="", uid=f"{pod.uid}-again", deleting=False)


def _more_nodes(nodes: Sequence[Node], changes: Changes) -> list[Node]:
    if not changes.add_nodes:
        return []
    if not 0 < changes.add_nodes <= MOST_NODES:
        raise ConfigError(f"--add-nodes takes a number from 1 to {MOST_NODES}")
    like = _model_node(nodes, changes.like)
    return [_copy(like, number) for number in range(1, changes.add_nodes + 1)]


def _model_node(nodes: Sequence[Node], like: str) -> Node:
    for node in nodes:
        if like == node.name or like in (node.labels.get(key) for key in _KINDS):
            return node
    kinds = sorted({node.labels[key] for node in nodes for key in _KINDS if key in node.labels})
    there = f"; kinds are {', '.join(kinds)}" if kinds else ""
    raise ConfigError(f"--like {like!r} is neither a node nor a kind of nodes{there}")


def _copy(node: Node, number: int) -> Node:
    name = f"{node.name}-new-{number}"
    labels = {**node.labels, **({_HOSTNAME: name} if _HOSTNAME in node.labels else {})}
    return replace(
        node,
        name=name,
        uid=f"what-if-{name}",
        labels=labels,
        unschedulable=False,
        inventory=_renamed(node.inventory, number) if node.inventory else None,
    )


def _renamed(inventory: Inventory, number: int) -> Inventory:
    """GPUs of their own: a uuid is one GPU, wherever it is listed."""
    gpus = tuple(replace(gpu, uuid=f"{gpu.uuid}-new-{number}") for gpu in inventory.gpus)
    return replace(inventory, gpus=gpus, released=frozenset(), picked=None)


# -- queues and priorities -----------------------------------------------------------------------


def _with_queue(events: Sequence[Event], text: str) -> list[Event]:
    name, _, terms = text.partition("=")
    queues = [event.spec for event in events if isinstance(event, QueueSeen)]
    found = next((spec for spec in queues if name in (spec.name, spec.key)), None)
    if found is None:
        there = ", ".join(spec.name for spec in queues[:10]) or "none"
        raise ConfigError(f"there is no queue {name!r}; there is {there}")
    changed = found
    for term in terms.split(","):
        changed = _term(changed, *term.partition("=")[::2])
    return [
        QueueSeen(changed) if isinstance(event, QueueSeen) and event.spec is found else event
        for event in events
    ]


def _term(spec: QueueSpec, key: str, value: str) -> QueueSpec:
    number = _number(f"{key} of a queue", value)
    match key:
        case "weight":
            return replace(spec, weight=number, weights=())
        case "limit":
            return replace(spec, limit=_gpus(spec.limit, number))
        case "guaranteed":
            return replace(spec, guaranteed=_gpus(spec.guaranteed, number))
        case "priority":
            return replace(spec, priority=int(number))
    raise ConfigError(f"a queue has no {key!r} here; use weight, limit, guaranteed or priority")


def _gpus(amounts: Amounts, number: float) -> Amounts:
    return tuple(sorted({**dict(amounts), GPUS: round(1000 * number)}.items()))


def _with_priority(events: Sequence[Event], text: str, namespace: str) -> list[Event]:
    name, _, value = text.rpartition("=")
    key = name if "/" in name else f"{namespace}/{name}"
    priority = int(_number("a priority", value))
    made = [
        PodSeen(replace(event.pod, priority=priority))
        if isinstance(event, PodSeen) and event.pod.key == key
        else event
        for event in events
    ]
    if made == list(events) and not any(_is(event, key) for event in events):
        raise ConfigError(f"there is no pod {key}")
    return made


def _is(event: Event, key: str) -> bool:
    return isinstance(event, PodSeen) and event.pod.key == key


def _number(what: str, value: str) -> float:
    try:
        found = float(value)
    except ValueError:
        found = -1.0
    if not 0.0 <= found <= 2e9:
        raise ConfigError(f"{what} is a number from 0 on, not {value!r}")
    return found
