"""Affinity terms of existing pods, with their weights by row."""

from collections.abc import Mapping

from fairlead.cluster.work import Work
from fairlead.model.selectors import PodTerm
from fairlead.model.sizes import Kept, weigh

Labels = tuple[tuple[str, str], ...]
#: A topology key, and the sum of the weights of the pods of each row.
KeyWeights = tuple[str, Mapping[int, int]]

_ABOUT_BYTES = 16 << 20


class AffinityWeights:
    """Weights by term and row. Sparse: most terms are held on a few nodes only."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._held: dict[PodTerm, dict[int, int]] = {}
        self._keys: frozenset[str] | None = frozenset()
        #: Asked for every placement, and changed only by terms that no pod held before.
        self._about: Kept[tuple[str, Labels], tuple[KeyWeights, ...]] = Kept(_ABOUT_BYTES)

    def add(self, row: int, term: PodTerm, weight: int) -> None:
        rows = self._held.get(term)
        if rows is None:
            rows = self._held[term] = {}
            self.forget()
        rows[row] = rows.get(row, 0) + weight
        if not rows[row]:
            del rows[row]
        if not rows:
            del self._held[term]
            self.forget()

    def about(
        self, namespace: str, labels: Labels, of_namespace: Mapping[str, str]
    ) -> tuple[KeyWeights, ...]:
        """The terms that select a pod with these labels in this namespace."""
        if not self._held:
            return ()
        found = self._about.get((namespace, labels))
        if found is None:
            mapped = dict(labels)
            self._work.terms += len(self._held)
            found = tuple(
                (term.topology_key, rows)
                for term, rows in self._held.items()
                if term.means(namespace, mapped, of_namespace)
            )
            self._about.keep((namespace, labels), found, weigh(labels, [key for key, _ in found]))
        return found

    def forget(self) -> None:
        """What was found before may be wrong now: other terms, or other labels of namespaces."""
        self._about.clear()
        self._keys = None

    @property
    def keys(self) -> frozenset[str]:
        """Label keys that the terms ask about; empty when there are no terms."""
        if self._keys is None:
            keys = (term.selector.keys for term in self._held if term.selector is not None)
            self._keys = frozenset().union(*keys) | ({""} if self._held else frozenset())
        return self._keys
