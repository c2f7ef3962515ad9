"""From which nodes storage can be reached, worked out once for each node affinity.

Local disks come as one volume a disk, each reachable from one node only, by the thousand. So the
nodes with a value of a label are looked up, and only they are compared with the rest of a term.
"""

from collections.abc import Iterable

import numpy as np

from fairlead.cluster.arrays import PerNode, Rows
from fairlead.cluster.node_terms import term_matches
from fairlead.cluster.nodes import Nodes
from fairlead.model.pods import NodeTerm
from fairlead.model.selectors import Requirement

Terms = tuple[NodeTerm, ...]
#: Rows, and which of the things that were asked about reaches each; in the order of the things.
Pairs = tuple[Rows, PerNode]

_NOWHERE: Rows = np.zeros(0, dtype=np.intp)
#: Up to so many nodes are compared with a term one by one, which makes no column of its labels.
_FEW = 4


class Reach:
    """Answers about some nodes, by position among them. `spent` is about one a microsecond."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        self._all: Rows = np.arange(len(nodes))
        self._by_label: dict[str, dict[str, Rows]] = {}
        self._by_terms: dict[Terms, Rows] = {}
        self.spent = 0

    def rows(self, terms: Terms | None) -> Rows:
        """Where at least one of the terms matches; everywhere without terms."""
        if terms is None:
            return self._all
        if len(terms) == 1 and (tied := _tied(terms[0])):
            return self._with_label(*tied)
        self.spent += 1 + len(terms)
        found = self._by_terms.get(terms)
        if found is None:
            found = self._by_terms[terms] = self._any(terms)
        return found

    def pairs(self, several: Iterable[Terms | None]) -> Pairs:
        """Each of several, with all rows that reach it."""
        found = [self.rows(terms) for terms in several]
        self.spent += len(found)
        numbers = np.repeat(np.arange(len(found)), [len(rows) for rows in found])
        return (np.concatenate(found) if found else _NOWHERE), numbers

    def _any(self, terms: Terms) -> Rows:
        different = dict.fromkeys(terms)
        found = [self._matching(term) for term in different]
        return found[0] if len(found) == 1 else _union(found)

    def _matching(self, term: NodeTerm) -> Rows:
        self.spent += 10 + sum(10 + len(line.values) // 8 for line in (*term.labels, *term.fields))
        lines = [line for line in term.labels if line.operator == "In"]
        if not lines:
            self.spent += len(self._nodes) // 100 * len(term.labels)
            return np.flatnonzero(term_matches(term, self._nodes))
        first = next((line for line in lines if line.key in self._by_label), lines[0])
        near = self._with_label(first.key, first.values)
        if len(near) > _FEW or term.fields or not all(map(_is_plain, term.labels)):
            return near[term_matches(term, self._nodes.at(near))] if len(near) else near
        there = (node.labels if node else {} for node in self._nodes.at(near).objects())
        held = [all(line.holds(labels) for line in term.labels) for labels in there]
        return near[np.array(held, dtype=np.bool_)]

    def _with_label(self, key: str, values: tuple[str, ...]) -> Rows:
        self.spent += 1 + len(values) // 8
        by_value = self._by_label.get(key)
        if by_value is None:
            by_value = self._by_label[key] = self._grouped(key)
        if len(values) == 1:
            return by_value.get(values[0], _NOWHERE)
        found = [by_value[value] for value in dict.fromkeys(values) if value in by_value]
        return np.concatenate(found) if found else _NOWHERE

    def _grouped(self, key: str) -> dict[str, Rows]:
        """The rows with each value of the label."""
        self.spent += 100 + len(self._nodes) // 4  # the label may have to become a column
        codes = self._nodes.domains(key)
        order = np.argsort(codes, kind="stable")
        code_of = self._nodes.domain_of(key)
        bounds = np.searchsorted(codes[order], np.arange(max(code_of.values(), default=-1) + 2))
        edges = bounds.tolist()
        return {
            value: order[edges[code] : edges[code + 1]]
            for value, code in code_of.items()
            if edges[code] < edges[code + 1]
        }


def _is_plain(line: Requirement) -> bool:
    return line.operator in ("In", "NotIn", "Exists", "DoesNotExist")


def _tied(term: NodeTerm) -> tuple[str, tuple[str, ...]] | None:
    """The one label, and its values, that the term asks for, if it asks for nothing else."""
    if len(term.labels) != 1 or term.fields or term.labels[0].operator != "In":
        return None
    return term.labels[0].key, term.labels[0].values


def _union(several: list[Rows]) -> Rows:
    return np.unique(np.concatenate(several)) if several else _NOWHERE
