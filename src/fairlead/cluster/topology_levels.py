"""The domains of every node at every level of the topology.

Nothing is computed before a rule asks. A domain is the *path* of values: rack 1 of block a is not
rack 1 of block b. A node without the label of a level is outside it.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from fairlead.cluster.arrays import Codes, NodeMask
from fairlead.cluster.aspects import Aspect
from fairlead.cluster.changes import NEVER, ChangeLog, Mark
from fairlead.cluster.columns import Columns
from fairlead.cluster.hyper_nodes import ROWS_OF_MEMBER, HyperNodes
from fairlead.cluster.improvements import Improvements
from fairlead.model.gangs import TopologyRule
from fairlead.model.hyper_nodes import HyperNode
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.nodes import Node
from fairlead.model.topology import HOSTNAME, Topology, known, level_labels, levels_for, short

#: (levels, rows)
LevelCodes = npt.NDArray[np.int64]
LevelMask = npt.NDArray[np.bool_]

#: Trees that are kept, by levels.
MOST_TREES = 16
_READ = int(Aspect.LABELS | Aspect.PRESENCE)


@dataclass(frozen=True, slots=True)
class DomainTree:
    """Domains are numbered from 0 at each level, in the order of the domains that they are in."""

    topology: Topology
    #: The domain of each row.
    domains: LevelCodes
    #: Rows that have the label of the level. The others are in domains that no rule means.
    inside: LevelMask

    @property
    def depth(self) -> int:
        return len(self.domains)

    def place(self, word: str) -> int | None:
        """The number of the level that a rule names; the depth stands for single nodes."""
        if word in {HOSTNAME, "hostname"}:
            return self.depth
        label = self.topology.label_of(word)
        return None if label is None else self.topology.labels.index(label)

    def spans(self, rows: Sequence[int]) -> dict[str, int]:
        """How many domains these rows are in, by the label of each level, and on how many nodes."""
        labels = (*self.topology.labels, HOSTNAME)
        return {
            label: len(np.unique(self.at(level)[0][rows])) for level, label in enumerate(labels)
        }

    def at(self, level: int) -> tuple[LevelCodes, NodeMask]:
        """Domain of each row, and whether it is inside the level; each node is one at the end."""
        rows = self.domains.shape[1]
        if level == self.depth:
            return np.arange(rows), np.ones(rows, dtype=np.bool_)
        return self.domains[level], self.inside[level]


class TopologyLevels:
    """Trees of domains, made when a rule asks, and again after labels of nodes have changed."""

    def __init__(self, columns: Columns, log: ChangeLog, improved: Improvements) -> None:
        self._columns = columns
        self._log = log
        self._improved = improved
        self._mark: Mark = NEVER
        self._trees: dict[tuple[tuple[tuple[str, int], ...], tuple[str, ...]], DomainTree] = {}
        #: From the configuration; empty: what nodes have.
        self.configured: Topology = Topology(())
        #: From objects, by their key.
        self._objects: dict[str, Topology] = {}
        self._hyper_nodes = HyperNodes(columns)

    def put(self, key: str, topology: Topology | None) -> None:
        """An object that lists levels came or changed, or is gone."""
        if topology is None:
            self._objects.pop(key, None)
        else:
            self._objects[key] = topology
        self._change()

    def put_hyper_node(self, name: str, found: HyperNode | None) -> None:
        """A HyperNode came or changed, or is gone."""
        self._hyper_nodes.put(name, found)
        self._change()

    def _change(self) -> None:
        """Gangs may fit now that did not before."""
        self._trees.clear()
        self._improved.add(Aspect.LABELS)

    def see(self, node: Node) -> None:
        """A node came, or has other labels."""
        if self._hyper_nodes:
            self._hyper_nodes.see(node)

    def forget(self, node: str) -> None:
        if self._hyper_nodes:
            self._hyper_nodes.forget(node)

    def problem_of(self, rule: TopologyRule) -> str:
        """Why the levels that the rule names are not known; empty if they are, or may be any."""
        if not rule.topology or self.configured.label_of(rule.level):
            return ""
        dialect, _, name = rule.topology.partition("/")
        if (found := self._objects.get(rule.topology)) is None:
            return f"the Topology {name} of {dialect}, which it names, does not exist; create it"
        if rule.level in (HOSTNAME, short(HOSTNAME)) or found.label_of(rule.level):
            return ""
        return f"the Topology {name}, which it names, has no level {rule.level}"

    def tree(
        self, words: Iterable[str] | Mapping[str, int], named: Collection[str] = ()
    ) -> DomainTree:
        """The levels for rules that name these, by label or by name, and the keys of objects.

        A mapping has how deep the groups are nested whose rules name them.
        """
        self._follow()
        nested = words if isinstance(words, Mapping) else dict.fromkeys(words, 0)
        asked = tuple(sorted(nested.items())), tuple(sorted(named))
        tree = self._trees.get(asked)
        if tree is None:
            while len(self._trees) >= MOST_TREES:
                del self._trees[next(iter(self._trees))]
            tree = self._trees[asked] = self._made(*asked)
        return tree

    def _made(self, words: Iterable[tuple[str, int]], named: Collection[str]) -> DomainTree:
        topology = levels_for(dict(words), self._sources(named), self._count)
        codes = [self._codes(topology, label) for label in topology.labels]
        return _tree(topology, codes, self._columns.size)

    def _sources(self, named: Collection[str]) -> Iterator[Topology]:
        yield from (found for key in named if (found := self._objects.get(key)))
        yield self.configured
        yield from (self._objects[key] for key in sorted(self._objects))
        if self._hyper_nodes:
            yield self._hyper_nodes.topology()
        self._columns.prepare_labels(level_labels())
        yield from known(lambda label: self._count(label) > 0)

    def _codes(self, topology: Topology, label: str) -> Codes:
        members = topology.members.get(label)
        if members is None:
            return self._columns.label(label).codes(slice(0, self._columns.size))
        numbers = {name: code for code, name in enumerate(sorted(set(members.values())))}
        nodes = self._columns.nodes
        self._columns.work.rows += ROWS_OF_MEMBER * len(nodes)
        found = [numbers[members[n.name]] if n and n.name in members else -1 for n in nodes]
        return np.array(found, dtype=np.int32)

    def _count(self, label: str) -> int:
        return len(self._columns.label(label).code_of)

    def _follow(self) -> None:
        if self._mark == self._log.mark:
            return
        changed = self._log.since(self._mark)
        if changed is None or any(aspects & _READ for aspects in changed.values()):
            self._trees.clear()
        self._mark = self._log.mark


def _tree(topology: Topology, codes: Iterable[Codes], rows: int) -> DomainTree:
    found = np.array([*codes], dtype=np.int64).reshape(-1, rows)
    inside = found >= 0
    # Nodes that no level from here on knows are not near each other.
    alone = ~np.logical_or.accumulate(inside[::-1], axis=0)[::-1]
    values = np.where(alone, -2 - np.arange(rows), found)
    domains = np.empty_like(values)
    parents = np.zeros(rows, dtype=np.int64)
    for level, value in enumerate(values):
        order = np.lexsort((value, parents))
        new = np.ones(rows, dtype=np.bool_)
        new[1:] = (np.diff(value[order]) != 0) | (np.diff(parents[order]) != 0)
        domains[level, order] = np.cumsum(new) - 1
        parents = domains[level]
    return DomainTree(topology, domains, inside)
