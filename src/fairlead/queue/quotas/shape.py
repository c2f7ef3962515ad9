"""Which parents of queues count, and what follows from that, kept as queues come, go and move.

A change of one queue concerns that queue and those beneath it: only these are looked at again, when
the shape is next asked for.
"""

from collections.abc import Iterable, Mapping

from fairlead.model.queues import QueueSpec

#: A queue has at most so many levels, itself included.
MOST_LEVELS = 32
#: Queues of a cycle that its sentence names.
_MOST_NAMED = 4
#: So many moves are remembered beyond two for each queue.
_FEWEST_MOVES = 64


class TreeShape:
    def __init__(self, specs: Mapping[str, QueueSpec]) -> None:
        """`specs` is followed, not copied."""
        self._specs = specs
        #: The keys that name a key as their parent, and queues that are to be looked at again.
        self._naming: dict[str, dict[str, None]] = {}
        self._stale: dict[str, None] = {}
        #: Only parents that count.
        self._parent: dict[str, str] = {}
        self._children: dict[str, dict[str, None]] = {}
        self._sorted: dict[str, list[str]] = {}
        self._problem: dict[str, str] = {}
        self._level: dict[str, int] = {}
        self._lineage: dict[str, tuple[str, ...]] = {}
        #: Queues whose lineage may have changed, and the version then; those before are forgotten.
        self._moved: dict[str, int] = {}
        self._forgotten = 0
        #: Grows when a lineage may have changed.
        self.version = 0
        #: How many queues were looked at so far.
        self.visited = 0

    # -- what changes ------------------------------------------------------------------------

    def put(self, old: QueueSpec | None, new: QueueSpec | None) -> bool:
        """A queue came, changed or went; whether that may change the shape."""
        if old and new and (old.parent, old.problem) == (new.parent, new.problem):
            return False
        for spec in filter(None, (old, new)):
            self._stale[spec.key] = None
        if old is not None:
            named = self._naming[old.parent]
            del named[old.key]
            if not named:
                del self._naming[old.parent]
        if new is not None:
            self._naming.setdefault(new.parent, {})[new.key] = None
        self.version += 1
        return True

    @property
    def is_settled(self) -> bool:
        """Whether no parent has changed since the shape was last asked for."""
        return not self._stale

    # -- what follows ------------------------------------------------------------------------

    def problem(self, key: str) -> str:
        self._settle()
        return self._problem.get(key, "")

    def children(self, key: str) -> list[str]:
        """By name; of "" those at the top."""
        self._settle()
        found = self._sorted.get(key)
        if found is None:
            beneath = self._children.get(key)
            if not beneath:
                return []
            found = self._sorted[key] = sorted(beneath)
        return found

    def lineage(self, key: str) -> tuple[str, ...]:
        """The queue and those above it; of a key without a queue the key alone."""
        if self._stale:
            self._settle()
        return self._lineage.get(key) or self.last_lineage(key)

    def last_lineage(self, key: str) -> tuple[str, ...]:
        """As it was when the shape was last asked for."""
        found = self._lineage.get(key)
        if found is None:
            path, parent = [key], self._parent
            while (above := parent.get(path[-1])) is not None:
                path.append(above)
            found = tuple(path)
            if key in self._level:
                self._lineage[key] = found
        return found

    def moved_since(self, version: int) -> list[str] | None:
        """Queues that came, went or have another lineage since then, a parent before its children.

        None: it is not known any more which.
        """
        self._settle()
        if version < self._forgotten:
            return None
        found = []
        for key, moved in reversed(self._moved.items()):
            if moved <= version:
                break
            found.append(key)
        return sorted(found, key=lambda key: self._level.get(key, 0))

    # -- looking again -----------------------------------------------------------------------

    def _settle(self) -> None:
        if not self._stale:
            return
        affected = self._beneath(self._stale)
        self._stale.clear()
        self.visited += len(affected)
        for key in affected:
            self._leave(key)
        for key in affected:
            if key in self._specs and key not in self._level:
                self._follow(key)
        for key in affected:
            if key in self._specs:
                self._join(key)
        self._note(affected)

    def _beneath(self, keys: Iterable[str]) -> dict[str, None]:
        """With those beneath them, by the parents that they name."""
        found, left = dict.fromkeys(keys), [*keys]
        while left:
            for key in self._naming.get(left.pop(), ()):
                if key not in found:
                    found[key] = None
                    left.append(key)
        return found

    def _leave(self, key: str) -> None:
        if self._level.pop(key, None) is None:
            return
        parent = self._parent.pop(key, "")
        beneath = self._children[parent]
        del beneath[key]
        if not beneath:
            del self._children[parent]
        self._sorted.pop(parent, None)
        self._problem.pop(key, None)
        self._lineage.pop(key, None)

    def _join(self, key: str) -> None:
        parent = self._parent.get(key, "")
        self._children.setdefault(parent, {})[key] = None
        self._sorted.pop(parent, None)

    def _note(self, keys: Iterable[str]) -> None:
        for key in keys:
            self._moved.pop(key, None)
            self._moved[key] = self.version
        if len(self._moved) > _FEWEST_MOVES + 2 * len(self._specs):
            for key in [*self._moved][: len(self._moved) // 2]:
                self._forgotten = self._moved.pop(key)

    def _follow(self, key: str) -> None:
        """Settles a queue and all above it."""
        path: dict[str, None] = {}
        while key in self._specs and key not in self._level and key not in path:
            path[key] = None
            key = self._specs[key].parent
        above = [*path]
        if key in path:
            cycle = above[above.index(key) :]
            sentence = _cycle(cycle)
            for each in cycle:
                self._put_on_top(each, sentence)
            above = above[: len(above) - len(cycle)]
        elif key and key not in self._specs:
            last = above.pop()
            self._put_on_top(last, _missing(last, key))
        for each in reversed(above):
            self._place(each)

    def _put_on_top(self, key: str, problem: str) -> None:
        self._level[key] = 1
        self._problem[key] = problem

    def _place(self, key: str) -> None:
        """Those above it are settled."""
        spec = self._specs[key]
        level = self._level[key] = self._level[spec.parent] + 1 if spec.parent else 1
        problem = f"queue {spec.name}: {spec.problem}" if spec.problem else ""
        problem = problem or self._problem.get(spec.parent, "")
        if level > MOST_LEVELS:
            problem = f"queue {spec.name} has {level - 1} levels above it; at most 31 are allowed"
        elif spec.parent:
            self._parent[key] = spec.parent
        if problem:
            self._problem[key] = problem


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
