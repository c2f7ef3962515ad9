"""Expressions over a node, its GPUs and a pod, and the values that they see."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Protocol

from fairlead.cel import CelError, Environment, Program, compile_expression
from fairlead.cel.types import BOOL, DOUBLE, INT, STRING, StaticType, list_of, map_of
from fairlead.cel.values import Value
from fairlead.model.errors import FairleadError
from fairlead.model.gpus import Inventory
from fairlead.model.nodes import GPU, Node
from fairlead.model.pods import PodRequest

#: What one evaluation may cost: some ten microseconds, since there are thousands of nodes.
COST_LIMIT = 300
#: The same of a rule of a user; and at most so much for all nodes: 35 for each of 5,000 nodes,
#: which is less than one turn of the scheduler.
_USER_COST_LIMIT = 100
USER_COST = 175_000
#: GPUs of one node that an expression sees.
_MOST_GPUS = 64

_NODE, _GPU, _POD, _TAINT = map(
    StaticType, ("fairlead.Node", "fairlead.Gpu", "fairlead.Pod", "fairlead.Taint")
)
_STRINGS = map_of(STRING, STRING)
RULES = Environment(
    (("node", _NODE), ("gpus", list_of(_GPU)), ("pod", _POD)),
    {
        _NODE.name: {
            "name": STRING,
            "labels": _STRINGS,
            "annotations": _STRINGS,
            "taints": list_of(_TAINT),
            "allocatable": map_of(STRING, INT),
            "readings": map_of(STRING, DOUBLE),
        },
        _TAINT.name: {"key": STRING, "value": STRING, "effect": STRING},
        _GPU.name: {
            "uuid": STRING,
            "model": STRING,
            "memoryMib": INT,
            "healthy": BOOL,
            "readings": map_of(STRING, DOUBLE),
        },
        _POD.name: {
            "namespace": STRING,
            "namespaceLabels": _STRINGS,
            "requests": map_of(STRING, INT),
            "gpus": INT,
        },
    },
)


def user_cost_limit(nodes: int) -> int:
    """What one evaluation of a user's rule may cost, where there are so many nodes."""
    return min(_USER_COST_LIMIT, USER_COST // max(1, nodes))


@lru_cache(maxsize=1024)
def compiled(expression: str) -> Program:
    """Raises FairleadError, with the place of the mistake."""
    try:
        return compile_expression(expression, RULES)
    except CelError as error:
        raise FairleadError(str(error)) from None


class SeenReadings(Protocol):
    """The readings of a node by its name, or of a GPU by its UUID."""

    def __call__(self, key: str, *, by_gpu: bool) -> dict[str, float]: ...


def node_value(node: Node, readings: SeenReadings) -> Value:
    return {
        "name": node.name,
        "labels": dict(node.labels),
        "annotations": dict(node.annotations),
        "taints": [
            {"key": taint.key, "value": taint.value, "effect": taint.effect}
            for taint in node.taints
        ],
        "allocatable": dict(node.allocatable),
        "readings": readings(node.name, by_gpu=False),
    }


def gpu_values(inventory: Inventory | None, readings: SeenReadings) -> Value:
    gpus = inventory.gpus[:_MOST_GPUS] if inventory else ()
    return [
        {
            "uuid": gpu.uuid,
            "model": gpu.model,
            "memoryMib": gpu.memory_mib,
            "healthy": gpu.healthy,
            "readings": readings(gpu.uuid, by_gpu=True),
        }
        for gpu in gpus
    ]


def pod_value(request: PodRequest, namespace_labels: Mapping[str, str] | None) -> Value:
    """Without labels of a namespace that was not seen yet: a rule that reads them refuses."""
    asked = request.gpu_request
    labels = {} if namespace_labels is None else {"namespaceLabels": dict(namespace_labels)}
    return labels | {
        "namespace": request.namespace,
        "requests": dict(request.resources),
        "gpus": asked.gpus if asked else request.amount(GPU),
    }


def holds(program: Program, values: Sequence[Value], cost_limit: int = COST_LIMIT) -> bool:
    """An expression that fails for a node does not hold for it."""
    try:
        return program.holds(values, cost_limit=cost_limit)
    except CelError:
        return False


def why_not(program: Program, values: Sequence[Value], cost_limit: int = COST_LIMIT) -> str:
    """The error of an expression that fails for a node; empty if it is only false, or true."""
    try:
        program.holds(values, cost_limit=cost_limit)
    except CelError as error:
        return str(error)
    return ""
