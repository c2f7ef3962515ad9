"""Words to write scenes with: what there is, who asks, and what happens.

In every text of a scene `@` stands for the scene, so that nothing is mistaken for what an earlier
scene left behind: node `@a` is `g7-a` in the seventh scene of `gpu-scheduler`.
"""

from collections.abc import Mapping
from typing import Any, TypeAlias

import pytest
from _pytest.mark import ParameterSet

Body: TypeAlias = dict[str, Any]

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
NODES, PODS = "/api/v1/nodes", "/api/v1/namespaces/{}/pods"
HOME = "@home"

_NO_OVERHEAD = "the embedded server does not write the overhead of a runtime class into pods"
_NO_LABEL_KEYS = "the embedded server does not write matchLabelKeys into selectors"
#: Rows that only the live cast can play, and why.
UNPLAYABLE = {
    "room: overhead is added": _NO_OVERHEAD,
    "room: overhead of a pod that is there": _NO_OVERHEAD,
    "label keys: apart from those of the same team": _NO_LABEL_KEYS,
    "label keys: apart from other teams": _NO_LABEL_KEYS,
    "label keys: near those of the same team": _NO_LABEL_KEYS,
    "spread: those of the same version": _NO_LABEL_KEYS,
    "spread: those of the same version, without another selector": _NO_LABEL_KEYS,
}

# -- words ---------------------------------------------------------------------------------------


def pairs(text: str) -> dict[str, str]:
    """`"zone=z1 disk"` as labels."""
    return {key: value for key, _, value in (word.partition("=") for word in text.split())}


def lines(*texts: str) -> list[Body]:
    """Requirements: `"app=web"`, `"disk In ssd,nvme"`, `"rank Gt 3"`, `"old DoesNotExist"`."""
    return [_line(text) for text in texts]


def _line(text: str) -> Body:
    if "=" in text:
        key, _, value = text.partition("=")
        return {"key": key, "operator": "In", "values": [value]}
    key, operator, *values = text.split()
    named = {"values": values[0].split(",")} if values else {}
    return {"key": key, "operator": operator, **named}


def selector(*texts: str) -> Body:
    return {"matchExpressions": lines(*texts)} if texts else {}


def node(labels: str = "", room: str = "", taints: str = "", *, cordoned: bool = False) -> Body:
    """A node with this much room, `"cpu=2 nvidia.com/gpu=4"`, where not told otherwise a lot."""
    kept = [taint(text) for text in taints.split()]
    return {
        "labels": pairs(labels), "allocatable": pairs(room), "taints": kept, "cordoned": cordoned
    }  # fmt: skip


def taint(text: str) -> Body:
    """`"key=value:Effect"`."""
    what, _, effect = text.rpartition(":")
    key, _, value = what.partition("=")
    return {"key": key, "effect": effect, **({"value": value} if value else {})}


def pod(
    labels: str = "",
    takes: str = "",
    *,
    on: str = "",
    namespace: str = HOME,
    metadata: Mapping[str, Any] | None = None,
    **spec: Any,
) -> Body:
    """A pod that takes `"cpu=2 nvidia.com/gpu=4"`, perhaps on a node already."""
    main = {**container("main", takes), **spec.pop("container", {})}
    bound = {"nodeName": f"@{on}"} if on else {}
    return {
        "metadata": {"namespace": namespace, "labels": pairs(labels), **(metadata or {})},
        "spec": {"containers": [main], "terminationGracePeriodSeconds": 0, **bound, **spec},
    }


def container(name: str, takes: str = "", **more: Any) -> Body:
    requests = pairs(takes)
    limits = {name: amount for name, amount in requests.items() if "/" in name}
    resources = {"requests": requests, "limits": limits}
    return {"name": name, "image": "x", "resources": resources, **more}


def sidecar(name: str, takes: str = "", **more: Any) -> Body:
    return container(name, takes, restartPolicy="Always", **more)


def port(number: int, ip: str = "", protocol: str = "TCP") -> Body:
    return {"containerPort": number, "hostPort": number, "hostIP": ip, "protocol": protocol}


def listens(*ports: Body) -> Body:
    return {"container": {"ports": list(ports)}}


def term(key: str, *texts: str, **more: Any) -> Body:
    """Pods that these requirements mean, in the same domain of `key`."""
    return {"topologyKey": key, "labelSelector": selector(*texts), **more}


def near(*terms: Body) -> Body:
    return {"podAffinity": {REQUIRED: list(terms)}}


def apart(*terms: Body) -> Body:
    return {"podAntiAffinity": {REQUIRED: list(terms)}}


def on_nodes(*alternatives: list[Body], fields: list[Body] | None = None) -> Body:
    """Required node affinity: one of the alternatives; `fields` belong to the first."""
    terms: list[Body] = [{"matchExpressions": each} for each in alternatives] or [{}]
    if fields:
        terms[0]["matchFields"] = fields
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}


def spread(key: str, *texts: str, skew: int = 1, **more: Any) -> Body:
    return {
        "maxSkew": skew, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": selector(*texts), **more,
    }  # fmt: skip


def tolerates(text: str, operator: str = "Equal") -> Body:
    """`"key=value:Effect"`, where everything may be missing."""
    if operator == "Exists":
        key, _, effect = text.partition(":")
        return {"operator": operator, **({"key": key} if key else {}), "effect": effect}
    return {"operator": operator, **taint(text)}


def rows(common: Mapping[str, Any], volumes: Mapping[str, Any]) -> dict[str, Any]:
    """All rows of a table by name."""
    return {**common, **{f"volumes: {name}": row for name, row in volumes.items()}}


def params(table: Mapping[str, Any]) -> list[ParameterSet]:
    """The rows of a table as they are played in this process."""
    return [
        pytest.param(row, id=name, marks=pytest.mark.xfail(reason=UNPLAYABLE[name]))
        if name in UNPLAYABLE
        else pytest.param(row, id=name)
        for name, row in table.items()
    ]
