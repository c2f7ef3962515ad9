"""Which HyperNodes each node is in. Labels of nodes do not show it, so it is kept here.

A node is looked at when it comes, or its labels change, and all of them when a HyperNode comes, so
that one event costs little. What contradicts itself is left out and said: a node that two
HyperNodes of one tier contain is in neither.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice

import numpy as np

from fairlead.cluster.arrays import NodeMask
from fairlead.cluster.columns import Columns
from fairlead.cluster.node_names import names_matching
from fairlead.cluster.work import Work
from fairlead.model.hyper_nodes import HyperNode
from fairlead.model.nodes import Node
from fairlead.model.selectors import LabelSelector, Requirement
from fairlead.model.topology import MOST_LEVELS, TIER, Topology, TopologyLevel

#: HyperNodes; those of other names are not used.
MOST_HYPER_NODES = 5_000
#: Nodes in HyperNodes, all together; what is beyond is not kept.
MOST_MEMBERS = 120_000
#: HyperNodes in other HyperNodes, all together.
MOST_INNER = 20_000
#: Patterns and label selectors of all HyperNodes: each node that comes is compared with them.
MOST_SELECTORS = 2_000
_MOST_PROBLEMS = 4
#: A member takes as long as so many rows of an array, and a HyperNode as so many members.
ROWS_OF_MEMBER = 40
_MEMBERS_OF_HYPER_NODE = 20


class HyperNodes:
    def __init__(self, columns: Columns) -> None:
        self._columns = columns
        self._objects: dict[str, HyperNode] = {}
        #: Nodes that patterns and label selectors match, by HyperNode.
        self._matched: dict[str, set[str]] = {}
        self._matches = 0
        self._selectors = 0
        #: The tiers, until a node or a HyperNode changes.
        self._topology: Topology | None = None

    def __bool__(self) -> bool:
        return bool(self._objects)

    def put(self, name: str, found: HyperNode | None) -> None:
        """One came or changed, or is gone."""
        self._topology = None
        self._drop(name)
        if found is None:
            return
        self._objects[name] = found
        if found.selects and self._selectors + found.comparisons <= MOST_SELECTORS:
            self._selectors += found.comparisons
            matched = islice(self._found(found), MOST_MEMBERS - self._matches)
            self._matched[name] = set(matched)
            self._matches += len(self._matched[name])

    def _drop(self, name: str) -> None:
        before, matched = self._objects.pop(name, None), self._matched.pop(name, None)
        if before is not None and matched is not None:
            self._matches -= len(matched)
            self._selectors -= before.comparisons

    def _found(self, hyper_node: HyperNode) -> Iterator[str]:
        """Nodes that it matches; all are compared at once."""
        nodes = [node for node in self._columns.nodes if node is not None]
        names, labels = [node.name for node in nodes], [node.labels for node in nodes]
        found = names_matching(hyper_node.patterns, names, self._columns.work)
        for selector in hyper_node.selectors:
            found |= _selected(selector, labels, self._columns.work)
        return (names[at] for at in np.flatnonzero(found))

    def see(self, node: Node) -> None:
        """A node came, or has other labels."""
        self._topology = None
        for name, matched in self._matched.items():
            self._matches -= len(matched)
            if not self._objects[name].matches(node):
                matched.discard(node.name)
            elif self._matches + len(matched) < MOST_MEMBERS:
                matched.add(node.name)
            self._matches += len(matched)

    def forget(self, node: str) -> None:
        self._topology = None
        for matched in self._matched.values():
            if node in matched:
                matched.remove(node)
                self._matches -= 1

    def topology(self) -> Topology:
        """The tiers as levels, the widest first; above them one of all nodes."""
        if self._topology is None:
            tiers = _Tiers(self._objects, self._matched, self._columns.work)
            self._topology = tiers.topology(n.name for n in self._columns.nodes if n)
        return self._topology


def _selected(selector: LabelSelector, labels: Sequence[Mapping[str, str]], work: Work) -> NodeMask:
    """True for nodes that have these labels, line by line."""
    found = np.ones(len(labels), dtype=np.bool_)
    for line in selector.lines:
        work.rows += ROWS_OF_MEMBER * len(labels)
        found &= np.array(_holds(line, [each.get(line.key) for each in labels]), dtype=np.bool_)
    return found


def _holds(line: Requirement, values: Sequence[str | None]) -> list[bool]:
    """As `Requirement.holds` says it of one node."""
    named = frozenset[str | None](line.values)
    match line.operator:
        case "In":
            return [value in named for value in values]
        case "NotIn":
            return [value not in named for value in values]
        case "Exists":
            return [value is not None for value in values]
        case "DoesNotExist":
            return [value is None for value in values]
        case _:
            return [False] * len(values)


class _Tiers:
    """Domains by tier, made once."""

    def __init__(
        self, objects: dict[str, HyperNode], matched: dict[str, set[str]], work: Work
    ) -> None:
        self._objects = objects
        self._matched = matched
        self._work = work
        self._members = self._inner = 0
        self._problems: dict[str, None] = {}
        self._nodes: dict[str, frozenset[str]] = {}
        self._by_tier: dict[int, list[HyperNode]] = {}
        if len(objects) > MOST_HYPER_NODES:
            self._say(f"there are more than {MOST_HYPER_NODES} HyperNodes; the rest is left out")
        for name in sorted(objects)[:MOST_HYPER_NODES]:
            self._by_tier.setdefault(objects[name].tier, []).append(objects[name])

    def topology(self, nodes: Iterable[str]) -> Topology:
        tiers = sorted(self._by_tier)
        if not tiers:
            return Topology(())
        if len(tiers) >= MOST_LEVELS:
            self._say(f"HyperNodes have {len(tiers)} tiers; the limit is {MOST_LEVELS - 1}")
            del tiers[MOST_LEVELS - 1 :]
        members = {f"{TIER}{tier}": self._of_tier(tier) for tier in tiers}
        tiers.append(tiers[-1] + 1)
        members[f"{TIER}{tiers[-1]}"] = dict.fromkeys(nodes, "cluster")
        names = {each.tier: each.tier_name for each in self._objects.values() if each.tier_name}
        levels = (TopologyLevel(f"{TIER}{tier}", names.get(tier, "")) for tier in tiers[::-1])
        problems = tuple(islice(self._problems, _MOST_PROBLEMS))
        self._count()
        return Topology(tuple(levels), members, tuple(tiers[::-1]), problems)

    def _count(self) -> None:
        self._work.terms += self._inner
        members = self._members + _MEMBERS_OF_HYPER_NODE * len(self._objects)
        self._work.rows += ROWS_OF_MEMBER * members

    def _of_tier(self, tier: int) -> dict[str, str]:
        """The HyperNode of each node. It is called for lower tiers first."""
        found: dict[str, str] = {}
        twice: set[str] = set()
        for each in self._by_tier[tier]:
            self._nodes[each.name] = nodes = self._contained(each)
            if not nodes.isdisjoint(found):
                both = nodes.intersection(found)
                twice |= both
                self._say_twice(found[min(both)], each)
            found |= dict.fromkeys(nodes, each.name)
        for node in twice:
            del found[node]
        return found

    def _contained(self, hyper_node: HyperNode) -> frozenset[str]:
        """Sets are put together and not gone through: there may be many nodes."""
        parts = []
        for part in filter(None, self._parts(hyper_node)):
            if self._members + len(part) > MOST_MEMBERS:
                self._say(
                    f"HyperNodes contain more than {MOST_MEMBERS} nodes; the rest is left out"
                )
                break
            self._members += len(part)
            parts.append(part)
        return frozenset(parts[0]) if len(parts) == 1 else frozenset[str]().union(*parts)

    def _parts(self, hyper_node: HyperNode) -> Iterator[frozenset[str] | set[str]]:
        yield hyper_node.nodes
        if hyper_node.selects and hyper_node.name not in self._matched:
            self._say(
                f"HyperNodes have more than {MOST_SELECTORS} patterns and label selectors; the "
                "rest is left out"
            )
        yield self._matched.get(hyper_node.name, frozenset())
        for name in hyper_node.hyper_nodes:
            self._inner += 1
            if self._inner > MOST_INNER:
                self._say(f"HyperNodes contain more than {MOST_INNER} others; the rest is left out")
                return
            yield self._inside(hyper_node, name)

    def _inside(self, hyper_node: HyperNode, name: str) -> frozenset[str]:
        inner = self._objects.get(name)
        if inner is not None and inner.tier >= hyper_node.tier:
            self._say(
                f"the HyperNode {hyper_node.name} of tier {hyper_node.tier} contains {name} of "
                f"tier {inner.tier}; it may contain those of lower tiers only"
            )
            return frozenset()
        return self._nodes.get(name, frozenset())

    def _say_twice(self, other: str, hyper_node: HyperNode) -> None:
        self._say(
            f"the HyperNodes {other} and {hyper_node.name} of tier {hyper_node.tier} contain the "
            "same nodes; these are left out of the tier"
        )

    def _say(self, problem: str) -> None:
        if len(self._problems) < _MOST_PROBLEMS:
            self._problems[problem] = None
