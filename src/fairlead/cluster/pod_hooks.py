"""Finding the few terms that may mean a pod among the many that do not.

Most selectors name a value of a label, and most terms name their namespaces. A pod without that
value, or elsewhere, need not be compared with them at all.
"""

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Generic, TypeVar

from fairlead.model.selectors import PodTerm

T = TypeVar("T")
#: A namespace and a label (key and value); None for any.
_Hook = tuple[str | None, tuple[str, str] | None]
_MOST_HOOKS = 64


class PodHooks(Generic[T]):
    """Things kept under a term: `may_mean` gives those whose term might mean a pod, each once."""

    def __init__(self) -> None:
        self._things: dict[_Hook, dict[T, None]] = {}

    def put(self, thing: T, term: PodTerm | None) -> None:
        """Without a term it is given for every pod."""
        for hook in _hooks(term):
            self._things.setdefault(hook, {})[thing] = None

    def drop(self, thing: T, term: PodTerm | None) -> None:
        for hook in _hooks(term):
            del self._things[hook][thing]
            if not self._things[hook]:
                del self._things[hook]

    def may_mean(self, namespace: str, labels: Mapping[str, str]) -> Iterator[T]:
        if self._things:
            for hook in product((namespace, None), (None, *labels.items())):
                yield from self._things.get(hook, ())


def _hooks(term: PodTerm | None) -> set[_Hook]:
    """A pod that the term means has exactly one of these."""
    if term is None:
        return {(None, None)}
    if term.selector is None:
        return set()
    anywhere = term.namespace_selector is not None
    namespaces = (None,) if anywhere else term.namespaces
    lines = [line for line in term.selector.lines if line.operator == "In"]
    line = min(lines, key=lambda line: len(line.values), default=None)
    labels = (None,) if line is None else tuple((line.key, value) for value in line.values)
    # Each hook costs work to keep; a term that names thousands is better compared.
    if len(labels) > _MOST_HOOKS:
        labels = (None,)
    if len(namespaces) * len(labels) > _MOST_HOOKS:
        namespaces = (None,)
    return set(product(namespaces, labels))
