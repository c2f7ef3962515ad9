"""The tree of queues, from objects that come and go in any order.

A queue whose parent is missing, that is part of a cycle, or that is too deep, is at the top for the
time being, with a problem: its units wait with that sentence, and what they hold stays counted.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from fairlead.model.queues import GPUS_OF_MODEL, QueueSpec

#: A queue has at most so many levels, itself included.
MOST_LEVELS = 32
#: Queues of a cycle that its sentence names.
_MOST_NAMED = 4


@dataclass(slots=True)
class _Shape:
    """What follows from the parents that all queues name."""

    #: Only parents that count.
    parent: dict[str, str] = field(default_factory=dict)
    children: dict[str, list[str]] = field(default_factory=dict)
    problem: dict[str, str] = field(default_factory=dict)
    level: dict[str, int] = field(default_factory=dict)
    lineage: dict[str, tuple[str, ...]] = field(default_factory=dict)


class QueueTree:
    """Queues by key. What follows from their parents is computed when it is asked for."""

    def __init__(self) -> None:
        self._specs: dict[str, QueueSpec] = {}
        self._known: _Shape | None = None
        #: As it was when it was last asked for.
        self._last = _Shape()
        #: Those that have budgets, and those that limit the GPUs of a model.
        self.budgeted: set[str] = set()
        self.limiting_models: set[str] = set()
        #: Grows when a lineage may have changed.
        self.version = 0

    def __bool__(self) -> bool:
        return bool(self._specs)

    def __len__(self) -> int:
        return len(self._specs)

    def __contains__(self, key: str) -> bool:
        return key in self._specs

    def __iter__(self) -> Iterator[str]:
        """A parent before its children, and these by name."""
        left = self.children("")[::-1]
        while left:
            key = left.pop()
            yield key
            left += self.children(key)[::-1]

    def get(self, key: str) -> QueueSpec | None:
        return self._specs.get(key)

    def put(self, spec: QueueSpec) -> bool:
        """Whether the shape of the tree may have changed."""
        old = self._specs.get(spec.key)
        self._specs[spec.key] = spec
        (self.budgeted.add if spec.budgets else self.budgeted.discard)(spec.key)
        limits = any(name.startswith(GPUS_OF_MODEL) for name, _ in spec.limit)
        (self.limiting_models.add if limits else self.limiting_models.discard)(spec.key)
        if old is not None and (old.parent, old.problem) == (spec.parent, spec.problem):
            return False
        self._reshape()
        return True

    def remove(self, key: str) -> QueueSpec | None:
        old = self._specs.pop(key, None)
        self.budgeted.discard(key)
        self.limiting_models.discard(key)
        if old is not None:
            self._reshape()
        return old

    def problem(self, key: str) -> str:
        """Why its units wait whatever there is room for; empty if they need not."""
        return self._shape.problem.get(key, "")

    def level(self, key: str) -> int:
        """How many queues are above it."""
        return len(self.lineage(key)) - 1

    def children(self, key: str) -> list[str]:
        """By name; of "" those at the top."""
        return self._shape.children.get(key, [])

    def lineage(self, key: str) -> tuple[str, ...]:
        """The queue and those above it; of a key without a queue the key alone."""
        shape = self._known or self._shape
        found = shape.lineage.get(key)
        if found is None:
            path, next_ = [key], shape.parent.get(key)
            while next_ is not None:
                path.append(next_)
                next_ = shape.parent.get(next_)
            found = tuple(path)
            if key in self._specs:
                shape.lineage[key] = found
        return found

    @property
    def is_shaped(self) -> bool:
        """Whether no parent has changed since the shape was last asked for."""
        return self._known is not None

    def last_lineage(self, key: str) -> list[str]:
        """The lineage as it was when the shape was last asked for; no shape is computed."""
        path, parent = [key], self._last.parent
        while (above := parent.get(path[-1])) is not None:
            path.append(above)
        return path

    def _reshape(self) -> None:
        self._known = None
        self.version += 1

    @property
    def _shape(self) -> _Shape:
        if self._known is None:
            self._known = self._last = self._shaped()
        return self._known

    def _shaped(self) -> _Shape:
        shape = _Shape()
        for key in self._specs:
            if key not in shape.level:
                self._follow(key, shape)
        for key in sorted(self._specs):
            shape.children.setdefault(shape.parent.get(key, ""), []).append(key)
        return shape

    def _follow(self, key: str, shape: _Shape) -> None:
        """Settles a queue and all above it."""
        path: dict[str, None] = {}
        while key in self._specs and key not in shape.level and key not in path:
            path[key] = None
            key = self._specs[key].parent
        above = [*path]
        if key in path:
            cycle = above[above.index(key) :]
            sentence = _cycle(cycle)
            for each in cycle:
                _put_on_top(shape, each, sentence)
            above = above[: len(above) - len(cycle)]
        elif key and key not in self._specs:
            last = above.pop()
            _put_on_top(shape, last, _missing(last, key))
        for each in reversed(above):
            self._settle(each, shape)

    def _settle(self, key: str, shape: _Shape) -> None:
        """Those above it are settled."""
        spec = self._specs[key]
        level = shape.level[key] = shape.level[spec.parent] + 1 if spec.parent else 1
        problem = self._named(spec) or shape.problem.get(spec.parent, "")
        if level > MOST_LEVELS:
            problem = f"queue {spec.name} has {level - 1} levels above it; at most 31 are allowed"
        elif spec.parent:
            shape.parent[key] = spec.parent
        if problem:
            shape.problem[key] = problem

    def _named(self, spec: QueueSpec) -> str:
        return f"queue {spec.name}: {spec.problem}" if spec.problem else ""


def _put_on_top(shape: _Shape, key: str, problem: str) -> None:
    shape.level[key] = 1
    shape.problem[key] = problem


def _missing(key: str, parent: str) -> str:
    return f"queue {queue_name(key)} names the parent {queue_name(parent)}, which does not exist"


def _cycle(keys: Iterable[str]) -> str:
    names = sorted(map(queue_name, keys))
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    listed = ", ".join(names[:_MOST_NAMED])
    if len(names) == 1:
        return f"queue {listed} is its own parent"
    return f"the queues {listed}{more} are parents of each other"


def queue_name(key: str) -> str:
    """As its object is called."""
    return QueueSpec(key).name
