"""The default selector of a pod: the selectors of its Services and its controller together."""

from collections.abc import Hashable, Iterator
from typing import TypeVar

from fairlead.model.pods import Pod
from fairlead.model.selectors import LabelSelector, Requirement
from fairlead.model.sizes import Kept, weigh

K = TypeVar("K")

SERVICE = "Service"
#: Any user can create thousands of Services that select one pod; then none of them counts.
_MOST_LINES = 128
_FOUND_BYTES = 16 << 20


class DefaultSelectors:
    """Selectors of Services and controllers, as the API server shows them."""

    def __init__(self) -> None:
        self._services: dict[str, dict[str, LabelSelector]] = {}  # by namespace and name
        self._owners: dict[tuple[str, str, str], LabelSelector] = {}
        self._found: Kept[Hashable, LabelSelector | None] = Kept(_FOUND_BYTES)

    def put(self, kind: str, namespace: str, name: str, selector: LabelSelector | None) -> None:
        """An object's selector was seen, or (None) it has none or is gone."""
        self._found.clear()
        if kind == SERVICE:
            services = self._services.setdefault(namespace, {})
            _put(services, name, selector)
            if not services:
                del self._services[namespace]
        else:
            _put(self._owners, (kind, namespace, name), selector)

    def of(self, pod: Pod) -> LabelSelector | None:
        """The default selector of the pod; None if no Service and no controller selects it."""
        if not self._services and not self._owners:
            return None
        key = pod.namespace, pod.owner, tuple(sorted(pod.labels.items()))
        if key not in self._found:
            lines = tuple(dict.fromkeys(sorted(self._lines(pod), key=_text)))
            found = LabelSelector(lines) if 0 < len(lines) <= _MOST_LINES else None
            return self._found.keep(key, found, weigh(key, lines))
        return self._found[key]

    def _lines(self, pod: Pod) -> Iterator[Requirement]:
        for selector in self._services.get(pod.namespace, {}).values():
            if selector.matches(pod.labels):
                yield from selector.lines
        if pod.owner is not None:
            kind, name = pod.owner
            owner = self._owners.get((kind, pod.namespace, name))
            yield from owner.lines if owner else ()


def _put(table: dict[K, LabelSelector], key: K, selector: LabelSelector | None) -> None:
    if selector is None:
        table.pop(key, None)
    else:
        table[key] = selector


def _text(line: Requirement) -> tuple[str, str, tuple[str, ...]]:
    return line.key, line.operator, line.values
