"""Which nodes a device serves."""

from collections.abc import Mapping

from fairlead.model.devices import DeviceNodes
from fairlead.model.pods import NodeTerm
from fairlead.model.selectors import Requirement, whole_number

NAME_FIELD = "metadata.name"


def serves(nodes: DeviceNodes, name: str, labels: Mapping[str, str]) -> bool:
    """Whether a node with these labels can use the device."""
    if nodes.node_name:
        return nodes.node_name == name
    if nodes.all_nodes:
        return True
    return any(_term_matches(term, name, labels) for term in nodes.terms or ())


def _term_matches(term: NodeTerm, name: str, labels: Mapping[str, str]) -> bool:
    if not (term.labels or term.fields):
        return False
    by_name = all(line.key == NAME_FIELD and line.holds({NAME_FIELD: name}) for line in term.fields)
    return by_name and all(_label_matches(line, labels) for line in term.labels)


def _label_matches(line: Requirement, labels: Mapping[str, str]) -> bool:
    if line.operator not in ("Gt", "Lt"):
        return line.holds(labels)
    value = whole_number(labels.get(line.key, ""))
    bound = whole_number(line.values[0]) if len(line.values) == 1 else None
    if value is None or bound is None:
        return False
    return value > bound if line.operator == "Gt" else value < bound
