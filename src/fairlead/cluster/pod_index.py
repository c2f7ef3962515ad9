"""How many pods of a kind are on each node, and who on each node minds whom.

A rule that depends on other pods asks for a count; it is made once by looking at every pod, and
from then on follows each pod that comes or goes. Rules then work on one number a node.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from fairlead.cluster.arrays import PerNode
from fairlead.cluster.pod_hooks import PodHooks
from fairlead.cluster.wishes import Wishes
from fairlead.model.pods import Pod
from fairlead.model.selectors import LabelSelector, PodTerm


@dataclass(frozen=True, slots=True)
class PodQuery:
    """Pods that all of these terms mean."""

    terms: tuple[PodTerm, ...]
    #: Spreading looks at pods that stay; affinity also at those that are leaving.
    leaving_too: bool = True

    @property
    def asks_namespaces(self) -> bool:
        return any(term.namespace_selector is not None for term in self.terms)

    @property
    def keys(self) -> tuple[str, ...]:
        """The label keys that its terms ask about."""
        selectors = (term.selector for term in self.terms if term.selector is not None)
        return tuple(frozenset().union(*(selector.keys for selector in selectors)))

    @property
    def first_term(self) -> PodTerm | None:
        return self.terms[0] if self.terms else None


def in_namespace(namespace: str, selector: LabelSelector | None) -> PodQuery:
    """Pods of one namespace that stay and that the selector means."""
    return PodQuery((PodTerm("", selector, (namespace,)),), leaving_too=False)


class PodIndex:
    """Counts by row. `Cluster` tells it of every pod; `pods` tells it of all there are."""

    def __init__(self, rows: int, bytes_kept: int = 512 << 20) -> None:
        """Every job may ask about a label of its own: the oldest counts beyond the bytes go."""
        self._rows = rows
        self._bytes_kept = bytes_kept
        self._counts: dict[PodQuery, PerNode] = {}
        self._asking: PodHooks[PodQuery] = PodHooks()
        self._holders: dict[PodTerm, PerNode] = {}
        self._held: PodHooks[PodTerm] = PodHooks()
        #: Terms about being apart of pods that are expected, and how many have each.
        self._expected: Counter[PodTerm] = Counter()
        #: Preferred terms of the pods that are there; and their required ones about being near.
        self.wishes = Wishes()
        self.needs = Wishes()
        self._namespaces: dict[str, Mapping[str, str]] = {}
        self._seen: frozenset[str] | None = frozenset()
        self.pods: dict[str, tuple[int, Pod]] = {}

    # -- asking ------------------------------------------------------------------------------

    def count(self, query: PodQuery) -> PerNode:
        """Pods on each row that the query means."""
        counts = self._counts.get(query)
        if counts is None:
            if len(self._counts) * self._rows * 8 >= self._bytes_kept:
                self._forget(next(iter(self._counts)))
            counts = self._counts[query] = self._counted(query)
            self._asking.put(query, query.first_term)
        return counts

    def _counted(self, query: PodQuery) -> PerNode:
        """A look at every pod. Those that are alike to the query are compared once."""
        keys = query.keys
        alike: dict[tuple[object, ...], bool] = {}
        rows = []
        for row, pod in self.pods.values():
            kind = pod.namespace, pod.deleting, *map(pod.labels.get, keys)
            meant = alike.get(kind)
            if meant is None:
                meant = alike[kind] = self._means(query, pod)
            if meant:
                rows.append(row)
        return np.bincount(np.array(rows, dtype=np.intp), minlength=self._rows)

    def minding(self, namespace: str, labels: Mapping[str, str]) -> list[tuple[PodTerm, PerNode]]:
        """Terms by which pods there want to be apart from such a pod, and where those pods are."""
        of_namespace = self._namespaces.get(namespace, {})
        return [
            (term, self._holders[term])
            for term in self._held.may_mean(namespace, labels)
            if term.means(namespace, labels, of_namespace)
        ]

    def means(self, terms: Iterable[PodTerm], namespace: str, labels: Mapping[str, str]) -> bool:
        of_namespace = self._namespaces.get(namespace, {})
        return all(term.means(namespace, labels, of_namespace) for term in terms)

    @property
    def keys_asked(self) -> frozenset[str]:
        """Label keys by which pods that are there, or expected, mind others; empty if none do."""
        if self._seen is None:
            terms = [*self._holders, *self._expected]
            keys = (term.selector.keys for term in terms if term.selector is not None)
            self._seen = frozenset().union(*keys) | ({""} if terms else frozenset())
        return self._seen

    @property
    def keys_wished(self) -> frozenset[str]:
        """Label keys by which pods that are there would like to be near others, or apart."""
        return self.wishes.keys | self.needs.keys

    def labels_of(self, namespace: str) -> Mapping[str, str]:
        return self._namespaces.get(namespace, {})

    @property
    def asked(self) -> bool:
        """Does anybody look at pods' labels at all?"""
        return bool(self._counts or self._holders)

    # -- following ---------------------------------------------------------------------------

    def put(self, row: int, pod: Pod) -> None:
        self.take(pod.uid)
        self.pods[pod.uid] = row, pod
        self._tally(row, pod, +1)

    def take(self, uid: str) -> bool:
        found = self.pods.pop(uid, None)
        if found is not None:
            self._tally(*found, -1)
        return found is not None

    def expect(self, pod: Pod, step: int) -> None:
        """One more pod may come, or one less: labels that it would mind matter from now on."""
        for term in pod.request.apart:
            self._expected[term] += step
            if not self._expected[term]:
                del self._expected[term]
            self._seen = None

    def grow(self, rows: int) -> None:
        extra = rows - self._rows
        self._rows = rows
        more = np.zeros(extra, dtype=np.int64)
        self._counts = {key: np.concatenate([old, more]) for key, old in self._counts.items()}
        self._holders = {key: np.concatenate([old, more]) for key, old in self._holders.items()}

    def put_namespace(self, name: str, labels: Mapping[str, str] | None) -> bool:
        """Says whether anybody could mind that the namespace's labels are these now."""
        if labels is None:
            changed = self._namespaces.pop(name, None) is not None
        else:
            changed = self._namespaces.get(name) != labels
            self._namespaces[name] = labels
        if changed:
            self.wishes.forget()
            self.needs.forget()
            for query in [query for query in self._counts if query.asks_namespaces]:
                self._forget(query)
        return changed

    def _forget(self, query: PodQuery) -> None:
        del self._counts[query]
        self._asking.drop(query, query.first_term)

    def _tally(self, row: int, pod: Pod, step: int) -> None:
        for query in self._asking.may_mean(pod.namespace, pod.labels):
            if self._means(query, pod):
                self._counts[query][row] += step
        for term, weight in pod.request.wishes:
            self.wishes.add(row, term, step * weight)
        for term in pod.request.near:
            self.needs.add(row, term, step)
        for term in pod.request.apart:
            holders = self._holders.get(term)
            if holders is None:
                holders = self._holders[term] = np.zeros(self._rows, dtype=np.int64)
                self._held.put(term, term)
                self._seen = None
            holders[row] += step
            if step < 0 and not holders.any():
                del self._holders[term]
                self._held.drop(term, term)
                self._seen = None

    def _means(self, query: PodQuery, pod: Pod) -> bool:
        if pod.deleting and not query.leaving_too:
            return False
        of_namespace = self._namespaces.get(pod.namespace, {})
        return all(term.means(pod.namespace, pod.labels, of_namespace) for term in query.terms)
