"""A case: a whole cluster and the pods that ask for a place in it, as plain data.

Objects are written as one would give them to kubectl, status included. Two liberties: a pod with
a `deletionTimestamp` is created and then deleted, so that it is leaving; one that waits with a
`nominatedNodeName` is nominated once it has been refused; and every namespace is
one of `NAMESPACES`, which stay while all else comes and goes.
"""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from fairlead.model.selectors import Requirement

Object: TypeAlias = dict[str, Any]

#: A scheduler's name that nobody serves.
FOREIGN = "somebody-else"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
NAMESPACES = ("team-a", "team-b", "team-c")


@dataclass(frozen=True)
class Case:
    """The cluster (`objects`), and the pods that are tried in it one after another (`probes`)."""

    name: str
    objects: list[Object]
    probes: list[Object]
    #: Names of `FEATURES` that it needs.
    features: list[str] = field(default_factory=list)
    #: Why the two sides differ here today; empty when they must agree.
    still_differs: str = ""

    def of_kind(self, kind: str) -> list[Object]:
        return [found for found in self.objects if found["kind"] == kind]

    def write(self, folder: Path) -> Path:
        """Keeps it as JSON, to be run again by whoever reads it."""
        path = folder / f"{self.name}.json"
        path.write_text(json.dumps(asdict(self), indent=1, sort_keys=True) + "\n")
        return path


def read(path: Path) -> Case:
    return Case(**json.loads(path.read_text()))


def labels_of(thing: Object) -> dict[str, str]:
    return thing["metadata"].get("labels", {})


def key_of(thing: Object) -> tuple[str, str]:
    """Namespace and name."""
    return thing["metadata"]["namespace"], thing["metadata"]["name"]


def nominated(pod: Object) -> str:
    """The node that the pod was promised, if it was."""
    return str(pod.get("status", {}).get("nominatedNodeName", ""))


def waits(pod: Object) -> bool:
    """Does it wait for one of the schedulers under test to find a place for it?"""
    spec = pod["spec"]
    held = "nodeName" in spec or bool(spec.get("schedulingGates"))
    return not held and spec["schedulerName"] != FOREIGN


def uses_claims(pod: Object, case: Case) -> bool:
    """Does it name resource claims, or may one be made for an extended resource?"""
    return bool(pod["spec"].get("resourceClaims")) or bool(case.of_kind("DeviceClass"))


def pinned(pod: Object, node: str) -> Object:
    """The pod, for this node alone."""
    found: Object = copied(pod)
    affinity = found["spec"].setdefault("affinity", {}).setdefault("nodeAffinity", {})
    required = affinity.setdefault(REQUIRED, {"nodeSelectorTerms": [{}]})
    field_ = {"key": "metadata.name", "operator": "In", "values": [node]}
    for term in required["nodeSelectorTerms"]:
        term["matchFields"] = [*term.get("matchFields", ()), field_]
    return found


def copied(thing: Any) -> Any:
    """A deep copy of plain data."""
    return json.loads(json.dumps(thing))


def selects(selector: Object, labels: dict[str, str]) -> bool:
    """Does a label selector mean a thing with these labels?"""
    equal = [Requirement(k, "In", (v,)) for k, v in selector.get("matchLabels", {}).items()]
    lines = [
        Requirement(line["key"], line["operator"], tuple(line.get("values", ())))
        for line in selector.get("matchExpressions", ())
    ]
    return all(line.holds(labels) for line in (*equal, *lines))
