"""Our copy of the cluster's objects, and the changes that lead from one copy to the next.

No I/O and no clock. In whatever order events come, the changes reported so far always add up to
exactly what the mirror holds: nothing is told twice, nothing is lost or invented.
"""

from collections.abc import Iterator
from dataclasses import field
from typing import Generic

from fairlead.kube.mirror.changes import Change, Deleted, T, Undecodable, Upserted, Vanished
from fairlead.model.lazy_dataclass import dataclass


@dataclass(slots=True)
class Snapshot(Generic[T]):
    """All objects at one revision, as they arrive."""

    objects: dict[str, T] = field(default_factory=dict)
    unreadable: dict[str, Undecodable] = field(default_factory=dict)
    #: Unreadable down to the name: any object that seems to be missing may be one of these.
    nameless: list[Undecodable] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.objects) + len(self.unreadable) + len(self.nameless)

    def add(self, obj: T) -> None:
        self.unreadable.pop(obj.key, None)
        self.objects[obj.key] = obj

    def add_unreadable(self, bad: Undecodable) -> None:
        if bad.key is None:
            self.nameless.append(bad)
        else:
            self.objects.pop(bad.key, None)
            self.unreadable[bad.key] = bad

    def discard(self, key: str) -> None:
        self.objects.pop(key, None)
        self.unreadable.pop(key, None)


class Mirror(Generic[T]):
    """What has been reported. Each method returns what to report next, in order."""

    def __init__(self) -> None:
        self.objects: dict[str, T] = {}
        #: What could not be read since; beside it `objects` may hold an outdated version.
        self.unreadable: dict[str, Undecodable] = {}
        #: Keys removed since someone set this to a set.
        self.removed: set[str] | None = None

    def holds(self, obj: T) -> bool:
        """Whether this version has been reported already."""
        held = self.objects.get(obj.key)
        return (
            held is not None
            and held.version == obj.version
            and held.uid == obj.uid
            and obj.key not in self.unreadable
        )

    def put(self, obj: T) -> list[Change[T]]:
        if self.holds(obj):
            return []
        changes: list[Change[T]] = []
        held = self.objects.get(obj.key)
        if held is not None and held.uid != obj.uid:
            changes.append(Deleted(held))
        self.objects[obj.key] = obj
        if self.unreadable:
            self.unreadable.pop(obj.key, None)
        changes.append(Upserted(obj))
        return changes

    def put_unreadable(self, bad: Undecodable) -> list[Change[T]]:
        """Keeps what was reported of the object, unless it is a new one of the same name."""
        if bad.key is None:
            return [bad]
        known = self.unreadable.get(bad.key)
        if known is not None and (known.uid, known.version) == (bad.uid, bad.version):
            return []
        changes: list[Change[T]] = []
        held = self.objects.get(bad.key)
        if held is not None and _is_another(held.uid, bad.uid):
            del self.objects[bad.key]
            changes.append(Deleted(held))
        self.unreadable[bad.key] = bad
        changes.append(bad)
        return changes

    def remove(self, key: str, uid: str, last: T | None = None) -> list[Change[T]]:
        """The object of this key and uid is gone; `last` is how it ended, if it can be read."""
        held, bad = self.objects.get(key), self.unreadable.get(key)
        known = held or bad
        if known is None or _is_another(known.uid, uid):
            return []
        self.objects.pop(key, None)
        self.unreadable.pop(key, None)
        if self.removed is not None:
            self.removed.add(key)
        if held is None:
            return [Vanished(key, known.uid)]
        return [Deleted(held if last is None else last)]

    def replace(self, snapshot: Snapshot[T]) -> Iterator[list[Change[T]]]:
        """Become the snapshot, one object at a time; one may stop after any of them.

        What is gone comes first, so that a listener never counts more than there is.
        """
        if not snapshot.nameless:
            present = snapshot.objects.keys() | snapshot.unreadable.keys()
            for key in (self.objects.keys() | self.unreadable.keys()) - present:
                yield self.remove(key, "")
        for obj in snapshot.objects.values():
            yield self.put(obj)
        for bad in (*snapshot.unreadable.values(), *snapshot.nameless):
            yield self.put_unreadable(bad)


def _is_another(uid: str, other: str) -> bool:
    """Whether two uids are surely of two objects; an unread one is no proof."""
    return bool(uid and other and uid != other)
