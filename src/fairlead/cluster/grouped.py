"""Things by two keys, so that all of one group are found at once. Empty groups leave no trace."""

from collections.abc import Collection, Hashable, Mapping
from typing import Generic, TypeVar

G = TypeVar("G", bound=Hashable)
V = TypeVar("V")


class Grouped(Generic[G, V]):
    def __init__(self) -> None:
        self._groups: dict[G, dict[str, V]] = {}

    def __contains__(self, group: G) -> bool:
        return group in self._groups

    @property
    def groups(self) -> Collection[G]:
        return self._groups.keys()

    def of(self, group: G) -> Mapping[str, V]:
        return self._groups.get(group, {})

    def put(self, group: G, key: str, value: V) -> None:
        self._groups.setdefault(group, {})[key] = value

    def drop(self, group: G, key: str) -> None:
        members = self._groups.get(group)
        if members is not None:
            members.pop(key, None)
            if not members:
                del self._groups[group]

    def replace(self, group: G, members: Mapping[str, V]) -> None:
        """The group has these members, in this order."""
        self._groups.pop(group, None)
        if members:
            self._groups[group] = dict(members)
