"""How many pods of a kind are on each node, and which existing anti-affinity holds there.

A rule that depends on other pods asks for a count; it is made once by looking at every pod, and
from then on follows each pod that comes or goes. Rules then work on one number a node.
"""

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence

import numpy as np

from fairlead.cluster.affinity_weights import AffinityWeights
from fairlead.cluster.arrays import PerNode
from fairlead.cluster.pod_hooks import PodHooks
from fairlead.cluster.pod_table import PodTable, keys_of
from fairlead.cluster.row_counts import RowCounts
from fairlead.cluster.work import Work
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.pods import Pod
from fairlead.model.selectors import LabelSelector, PodTerm
from fairlead.model.sizes import ENTRY_BYTES, weigh

#: Of the counts that rules ask for, and how many they may be.
COUNT_BYTES = 128 << 20
_MOST_COUNTS = 8192

ExistingAntiAffinity = Sequence[tuple[PodTerm, RowCounts]]

_REMEMBERED = 256


@dataclass(frozen=True, slots=True)
class PodQuery:
    """Pods that all of these terms mean."""

    terms: tuple[PodTerm, ...]
    #: Spreading looks at pods that stay; affinity also at those that are leaving.
    leaving_too: bool = True
    #: Only pods of a lower priority than this.
    below: int | None = None

    @property
    def asks_namespaces(self) -> bool:
        return any(term.namespace_selector is not None for term in self.terms)

    @property
    def first_term(self) -> PodTerm | None:
        return self.terms[0] if self.terms else None


def query_in_namespace(namespace: str, selector: LabelSelector | None) -> PodQuery:
    """Pods of one namespace that stay and that the selector means."""
    return PodQuery((PodTerm("", selector, (namespace,)),), leaving_too=False)


class PodIndex:
    """Counts by row. `Cluster` calls it for every pod; `pods` returns all there are."""

    def __init__(
        self, rows: int, bytes_kept: int | None = None, work: Work | None = None
    ) -> None:  # fmt: skip
        """Every job may ask about a label of its own: the oldest counts beyond the bytes go."""
        self._work = work or Work()
        self._rows = rows
        self._bytes_kept = bytes_kept or COUNT_BYTES
        self._counts: dict[PodQuery, PerNode] = {}
        self._query_bytes = 0
        self._asking: PodHooks[PodQuery] = PodHooks()
        self._table = PodTable()
        self._asked_before = False
        self._holders: dict[PodTerm, RowCounts] = {}
        #: By namespace and labels of the pod selected, as last found.
        self._existing_anti_affinity: dict[
            tuple[str, frozenset[tuple[str, str]]], ExistingAntiAffinity
        ] = {}
        #: Grows whenever a pod with such a term comes or goes; what was summed up last.
        self._holds = 0
        self._summed: tuple[Hashable, Mapping[str, PerNode]] | None = None
        #: Pods with such terms, by uid.
        self._with_anti_affinity: dict[str, None] = {}
        self._held: PodHooks[PodTerm] = PodHooks()
        #: Label keys that terms of these pods, and of those expected, ask about; how many each.
        self._keys: Counter[str] = Counter()
        #: Preferred terms of existing pods; and their required affinity terms.
        self.preferred_affinity = AffinityWeights(self._work)
        self.required_affinity = AffinityWeights(self._work)
        self._namespaces: dict[str, Mapping[str, str]] = {}
        self._seen: frozenset[str] | None = frozenset()
        self._keys_before: frozenset[str] = frozenset()
        self.pods: dict[str, tuple[int, Pod]] = {}

    # -- asking ------------------------------------------------------------------------------

    def count(self, query: PodQuery) -> PerNode:
        """Pods on each row that the query means."""
        counts = self._counts.get(query)
        if counts is None:
            while self._counts and self._is_full:
                self._forget(next(iter(self._counts)))
            self._query_bytes += weigh(query)
            counts = self._counts[query] = self._counted(query)
            self._asking.put(query, query.first_term)
        return counts

    def prepare(self, queries: Iterable[PodQuery]) -> None:
        """Many are about to be asked: one walk over the pods serves all that are new."""
        new = [query for query in queries if query not in self._counts]
        if new:
            self._fill_table()
            self._table.trim()
            walked = self._table.prepare(keys_of(term for query in new for term in query.terms))
            self._work.pods += walked

    def _counted(self, query: PodQuery) -> PerNode:
        self._fill_table()
        self._work.asks += len(query.terms)
        self._work.rows += len(query.terms) * len(self._table)
        rows = self._table.rows_meant(
            query.terms, self._namespaces, leaving_too=query.leaving_too, below=query.below
        )
        return np.bincount(rows, minlength=self._rows)

    def _fill_table(self) -> None:
        """From the first question on the table follows every pod."""
        if not self._asked_before:
            self._asked_before = True
            self._work.pods += len(self.pods)
            self._table.fill(self.pods.values())

    def existing_anti_affinity(
        self, namespace: str, labels: Mapping[str, str]
    ) -> ExistingAntiAffinity:
        """Anti-affinity terms of existing pods that select such a pod, and where those pods are.

        It follows the pods until other terms are held than now.
        """
        key = namespace, frozenset(labels.items())
        found = self._existing_anti_affinity.get(key)
        if found is None:
            if len(self._existing_anti_affinity) >= _REMEMBERED:
                self._existing_anti_affinity.clear()
            found = self._existing_anti_affinity[key] = self._find_existing_anti_affinity(
                namespace, labels
            )
        return found

    def existing_anti_affinity_by_key(
        self, namespace: str, labels: Mapping[str, str], rows: int
    ) -> Mapping[str, PerNode]:
        """By topology key, how many of those terms the pods of each row hold; not to be changed."""
        key = self._holds, rows, namespace, frozenset(labels.items())
        if self._summed is None or self._summed[0] != key:
            found: dict[str, PerNode] = {}
            for term, held in self.existing_anti_affinity(namespace, labels):
                if term.topology_key not in found:
                    found[term.topology_key] = np.zeros(rows, dtype=np.int64)
                held.add_to(found[term.topology_key])
            self._summed = key, found
        return self._summed[1]

    def _find_existing_anti_affinity(
        self, namespace: str, labels: Mapping[str, str]
    ) -> ExistingAntiAffinity:
        of_namespace = self._namespaces.get(namespace, {})
        candidates = list(self._held.may_mean(namespace, labels))
        self._work.terms += len(candidates)
        return [
            (term, self._holders[term])
            for term in candidates
            if term.means(namespace, labels, of_namespace)
        ]

    def holding(self, terms: Collection[PodTerm], below: int) -> Iterator[tuple[PodTerm, int]]:
        """The row of each pod below a priority that has one of these terms, for each term."""
        self._work.pods += len(self._with_anti_affinity)
        for uid in self._with_anti_affinity:
            row, pod = self.pods[uid]
            if pod.priority < below:
                yield from ((term, row) for term in pod.request.anti_affinity if term in terms)

    def means(self, terms: Iterable[PodTerm], namespace: str, labels: Mapping[str, str]) -> bool:
        of_namespace = self._namespaces.get(namespace, {})
        return all(term.means(namespace, labels, of_namespace) for term in terms)

    @property
    def keys_of_anti_affinity(self) -> frozenset[str]:
        """Label keys in anti-affinity of existing or expected pods; empty if there is none."""
        if self._seen is None:
            if self._keys_before != self._keys.keys():
                self._keys_before = frozenset(self._keys)
            self._seen = self._keys_before  # the same object while it says the same
        return self._seen

    def keep_keys(self, keys: frozenset[str]) -> None:
        """Keeps this object if the keys are those again: nothing has to be sorted by others."""
        if self._keys.keys() == keys:
            self._seen = self._keys_before = keys

    @property
    def keys_of_affinity(self) -> frozenset[str]:
        """Label keys that the preferred and required affinity of existing pods selects by."""
        return self.preferred_affinity.keys | self.required_affinity.keys

    def labels_of(self, namespace: str) -> Mapping[str, str]:
        return self._namespaces.get(namespace, {})

    @property
    def asked(self) -> bool:
        """Does any term select pods by labels?"""
        return bool(self._counts or self._holders)

    # -- following ---------------------------------------------------------------------------

    def put(self, row: int, pod: Pod) -> None:
        self.take(pod.uid)
        self.pods[pod.uid] = row, pod
        if self._asked_before:
            self._table.put(row, pod)
        if pod.request.anti_affinity:
            self._with_anti_affinity[pod.uid] = None
        self._tally(row, pod, +1)

    def take(self, uid: str) -> bool:
        found = self.pods.pop(uid, None)
        if found is not None:
            self._table.take(uid)
            self._with_anti_affinity.pop(uid, None)
            self._tally(*found, -1)
        return found is not None

    def put_all(self, pods: Iterable[tuple[int, Pod]]) -> None:
        """The same for many pods that are not there."""
        for row, pod in pods:
            if self._asked_before or _has_terms(pod):
                self.put(row, pod)
            else:
                self.pods[pod.uid] = row, pod

    def take_all(self, pods: Iterable[Pod]) -> None:
        """The same for many pods that are there."""
        for pod in pods:
            if self._asked_before or _has_terms(pod):
                self.take(pod.uid)
            else:
                del self.pods[pod.uid]

    def expect(self, pod: Pod, step: int) -> None:
        """One more pod may come, or one less: the labels in its anti-affinity matter now."""
        for term in pod.request.anti_affinity:
            self._ask_keys(term, step)

    def grow(self, rows: int) -> None:
        extra = rows - self._rows
        self._rows = rows
        more = np.zeros(extra, dtype=np.int64)
        self._counts = {key: np.concatenate([old, more]) for key, old in self._counts.items()}
        for holders in self._holders.values():
            holders.grow(rows)

    def namespace_labels(self, name: str) -> Mapping[str, str] | None:
        return self._namespaces.get(name)

    def put_namespace(self, name: str, labels: Mapping[str, str] | None) -> bool:
        """Whether the labels of the namespace changed."""
        if labels is None:
            changed = self._namespaces.pop(name, None) is not None
        else:
            changed = self._namespaces.get(name) != labels
            self._namespaces[name] = labels
        if changed:
            self.preferred_affinity.forget()
            self.required_affinity.forget()
            self._existing_anti_affinity.clear()
            self._summed = None
            for query in [query for query in self._counts if query.asks_namespaces]:
                self._forget(query)
        return changed

    @property
    def _is_full(self) -> bool:
        return len(self._counts) >= _MOST_COUNTS or self._count_bytes >= self._bytes_kept

    @property
    def _count_bytes(self) -> int:
        return len(self._counts) * (8 * self._rows + ENTRY_BYTES) + self._query_bytes

    def _forget(self, query: PodQuery) -> None:
        del self._counts[query]
        self._query_bytes -= weigh(query)
        self._asking.drop(query, query.first_term)

    def _tally(self, row: int, pod: Pod, step: int) -> None:
        for query in self._asking.may_mean(pod.namespace, pod.labels):
            self._work.terms += len(query.terms)
            if self._means(query, pod):
                self._counts[query][row] += step
        for term, weight in pod.request.preferred_affinity:
            self.preferred_affinity.add(row, term, step * weight)
        for term in pod.request.required_affinity:
            self.required_affinity.add(row, term, step)
        for term in pod.request.anti_affinity:
            self._hold(row, term, step)

    def _hold(self, row: int, term: PodTerm, step: int) -> None:
        self._holds += 1
        holders = self._holders.get(term)
        if holders is None:
            holders = self._holders[term] = RowCounts(self._rows)
            self._held.put(term, term)
            self._ask_keys(term, +1)
            self._existing_anti_affinity.clear()
        holders.add(row, step)
        if step < 0 and not holders:
            del self._holders[term]
            self._held.drop(term, term)
            self._ask_keys(term, -1)
            self._existing_anti_affinity.clear()

    def _ask_keys(self, term: PodTerm, step: int) -> None:
        """One more term asks about its label keys, or one less; also about the namespace ("")."""
        for key in ("", *(term.selector.keys if term.selector else ())):
            self._keys[key] += step
            if not self._keys[key]:
                del self._keys[key]
            if self._seen is not None and (key in self._seen) != (key in self._keys):
                self._seen = None

    def _means(self, query: PodQuery, pod: Pod) -> bool:
        if pod.deleting and not query.leaving_too:
            return False
        if query.below is not None and pod.priority >= query.below:
            return False
        of_namespace = self._namespaces.get(pod.namespace, {})
        return all(term.means(pod.namespace, pod.labels, of_namespace) for term in query.terms)


def _has_terms(pod: Pod) -> bool:
    """Whether there is more to follow than where it is; beyond the counts that are asked for."""
    request = pod.request
    return bool(request.anti_affinity or request.required_affinity or request.preferred_affinity)
