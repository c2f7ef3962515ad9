"""Everything that an object keeps, counted: entries of dicts, lists and sets, and bytes of arrays.

By the class and the attribute that holds them, so that what only grows has a name.
"""

from collections import Counter, deque
from collections.abc import Iterator

import numpy as np

from fairlead.model.sizes import Kept

_ROOM = "fairlead."
#: Values: they belong to whoever keeps them.
_VALUES = (
    "fairlead.model",
    "fairlead.plugins",
    "fairlead.kube.codec",
    "fairlead.kube.pod_selectors",
)


def stores(*roots: object) -> Counter[str]:
    """Entries (and bytes of arrays) by "Class.attribute"; what is bounded in bytes is left out."""
    found: Counter[str] = Counter()
    seen: set[int] = set()
    left = [("", root) for root in roots]
    while left:
        name, thing = left.pop()
        if id(thing) in seen:
            continue
        seen.add(id(thing))
        if isinstance(thing, Kept):
            assert thing.bytes <= thing.most_bytes, name
        elif isinstance(thing, np.ndarray):
            found[name] += thing.nbytes
        elif isinstance(thing, dict):
            found[name] += len(thing)
            left += [(name, value) for value in thing.values()]
        elif isinstance(thing, list | set | deque | tuple | frozenset):
            found[name] += len(thing)
            left += [(name, value) for value in thing]
        elif _is_ours(thing):
            left += [(f"{type(thing).__name__}.{key}", value) for key, value in _attributes(thing)]
    return found


def _is_ours(thing: object) -> bool:
    module = type(thing).__module__
    return module.startswith(_ROOM) and not module.startswith(_VALUES)


def _attributes(thing: object) -> Iterator[tuple[str, object]]:
    yield from getattr(thing, "__dict__", {}).items()
    for kind in type(thing).__mro__:
        for name in getattr(kind, "__slots__", ()):
            if name != "__dict__" and hasattr(thing, name):
                yield name, getattr(thing, name)
