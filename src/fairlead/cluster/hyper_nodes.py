"""Which HyperNodes each node is in. Labels of nodes do not show it, so it is kept here.

A node is looked at when it comes, or its labels change, and all of them when a HyperNode comes, so
that one event costs little. What contradicts itself is left out and said: a node that two
HyperNodes of one tier contain is in neither.
"""

from collections.abc import Iterable, Iterator
from itertools import islice

from fairlead.model.hyper_nodes import HyperNode
from fairlead.model.nodes import Node
from fairlead.model.topology import MOST_LEVELS, TIER, Topology, TopologyLevel

#: Nodes in HyperNodes, all together; what is beyond is not kept.
MOST_MEMBERS = 500_000
#: HyperNodes with patterns or label selectors.
MOST_SELECTING = 2_000
_MOST_PROBLEMS = 4


class HyperNodes:
    def __init__(self) -> None:
        self._objects: dict[str, HyperNode] = {}
        #: Nodes that patterns and label selectors match, by HyperNode.
        self._matched: dict[str, set[str]] = {}
        self._matches = 0

    def __bool__(self) -> bool:
        return bool(self._objects)

    def put(self, name: str, found: HyperNode | None, nodes: Iterable[Node]) -> None:
        """One came or changed, or is gone."""
        self._objects.pop(name, None)
        self._matches -= len(self._matched.pop(name, ()))
        if found is None:
            return
        self._objects[name] = found
        if found.selects and len(self._matched) < MOST_SELECTING:
            self._matched[name] = set()
            for node in nodes:
                self._match(found, node)

    def see(self, node: Node) -> None:
        """A node came, or has other labels."""
        for name in self._matched:
            self._match(self._objects[name], node)

    def forget(self, node: str) -> None:
        for matched in self._matched.values():
            if node in matched:
                matched.remove(node)
                self._matches -= 1

    def _match(self, hyper_node: HyperNode, node: Node) -> None:
        matched = self._matched[hyper_node.name]
        before = len(matched)
        if not hyper_node.matches(node):
            matched.discard(node.name)
        elif self._matches < MOST_MEMBERS:
            matched.add(node.name)
        self._matches += len(matched) - before

    def topology(self, nodes: Iterable[str]) -> Topology:
        """The tiers as levels, the widest first; above them one of all nodes."""
        return _Tiers(self._objects, self._matched).topology(nodes)


class _Tiers:
    """Domains by tier, made once."""

    def __init__(self, objects: dict[str, HyperNode], matched: dict[str, set[str]]) -> None:
        self._objects = objects
        self._matched = matched
        self._members = 0
        self._problems: dict[str, None] = {}
        self._nodes: dict[str, frozenset[str]] = {}
        self._by_tier: dict[int, list[HyperNode]] = {}
        for name in sorted(objects):
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
        return Topology(tuple(levels), members, tuple(tiers[::-1]), problems)

    def _of_tier(self, tier: int) -> dict[str, str]:
        """The HyperNode of each node. It is called for lower tiers first."""
        found: dict[str, str] = {}
        twice: set[str] = set()
        for each in self._by_tier[tier]:
            self._nodes[each.name] = nodes = frozenset(self._contained(each))
            self._members += len(nodes)
            for node in nodes:
                if (other := found.setdefault(node, each.name)) != each.name:
                    twice.add(node)
                    self._say(
                        f"the HyperNodes {other} and {each.name} of tier {tier} contain the same "
                        "nodes; these are left out of the tier"
                    )
        return {node: name for node, name in found.items() if node not in twice}

    def _contained(self, hyper_node: HyperNode) -> Iterator[str]:
        if self._members > MOST_MEMBERS:
            self._say(f"HyperNodes contain more than {MOST_MEMBERS} nodes; the rest is left out")
            return
        yield from hyper_node.nodes
        if hyper_node.selects and hyper_node.name not in self._matched:
            self._say(f"more than {MOST_SELECTING} HyperNodes select nodes; the rest is left out")
        yield from self._matched.get(hyper_node.name, ())
        for name in hyper_node.hyper_nodes:
            inner = self._objects.get(name)
            if inner is not None and inner.tier >= hyper_node.tier:
                self._say(
                    f"the HyperNode {hyper_node.name} of tier {hyper_node.tier} contains {name} of "
                    f"tier {inner.tier}; it may contain those of lower tiers only"
                )
            else:
                yield from self._nodes.get(name, ())

    def _say(self, problem: str) -> None:
        if len(self._problems) < _MOST_PROBLEMS:
            self._problems[problem] = None
