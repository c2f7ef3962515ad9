"""The objects of gangs, and the trees that they form where one is part of another.

The pods of a tree are placed together, under the key of its root. Its leaves are the objects that
pods name; in the gang, each is a group with the name of the object.
"""

from collections.abc import Iterator
from dataclasses import replace

from fairlead.model.errors import FairleadError
from fairlead.model.gang_needs import lacking
from fairlead.model.gangs import DEEPEST, MOST_GROUPS, GangSpec, Group
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.pods import Pod


@dataclass(frozen=True, slots=True)
class _Way:
    """From an object up to the root of its tree."""

    root: str
    #: The key of an object on the way that is not there.
    missing: str = ""
    problem: str = ""


class GangTrees:
    def __init__(self) -> None:
        self._objects: dict[str, GangSpec] = {}
        #: Keys of parts, in the order in which they came, by the key of what they are part of.
        self._parts: dict[str, dict[str, None]] = {}
        #: What was put together, by the key of the root.
        self._whole: dict[str, GangSpec] = {}

    def get(self, key: str) -> GangSpec | None:
        """The object itself."""
        return self._objects.get(key)

    def put(self, spec: GangSpec) -> None:
        self.drop(spec.key)
        self._objects[spec.key] = spec
        if spec.part_of:
            self._parts.setdefault(spec.part_of, {})[spec.key] = None
            self._whole.pop(self._way(spec.key).root, None)

    def drop(self, key: str) -> None:
        self._whole.pop(self._way(key).root, None)
        spec = self._objects.pop(key, None)
        if spec is not None and spec.part_of:
            parts = self._parts[spec.part_of]
            del parts[key]
            if not parts:
                del self._parts[spec.part_of]

    def is_tree(self, key: str) -> bool:
        """Whether the gang has other objects as its parts."""
        return key in self._parts

    def leaves(self, key: str) -> Iterator[GangSpec]:
        """The objects that pods name, of the tree below this one and with it."""
        return (spec for spec in self._below(key) if spec.least_groups is None)

    def _below(self, key: str) -> Iterator[GangSpec]:
        """The objects of the tree below this one and with it."""
        left, seen = [key], set[str]()
        while left:
            key = left.pop()
            spec = self._objects.get(key)
            if spec is not None:
                yield spec
            seen.add(key)  # a circle has no root, and no end
            left += (part for part in self._parts.get(key, ()) if part not in seen)

    def root_of(self, key: str) -> str:
        """The key of the gang that is placed with what names this object."""
        spec = self._objects.get(key)
        if spec is None or not spec.part_of:
            return key
        way = self._way(key)
        return key if way.missing or way.problem else way.root

    def missing_for(self, key: str) -> str:
        """The key of the object without which it is not known what this one is part of."""
        return self._way(key).missing

    def spec_of(self, key: str) -> GangSpec | None:
        """What is placed together under this key; None if there is no such object."""
        spec = self._objects.get(key)
        if spec is None:
            return None
        if not spec.part_of:
            return self._put_together(spec) if key in self._parts else spec
        way = self._way(key)
        return None if way.missing else GangSpec(key, 1, problem=way.problem)

    def resolved(self, pod: Pod) -> Pod:
        """The pod as a member of the gang that it is placed with."""
        said = pod.gang
        assert said is not None
        named = said.part or said.gang
        root = self.root_of(named)
        if root == said.gang:
            return pod
        if root == named:
            return replace(pod, gang=replace(said, gang=named, group="", part=""))
        return replace(pod, gang=replace(said, gang=root, group=leaf_name(named), part=named))

    def _way(self, key: str) -> _Way:
        way = [key]
        while (spec := self._objects.get(way[-1])) is not None and spec.part_of:
            if spec.part_of in way:
                return _Way(key, problem=_CIRCLE.format(_name(key), _name(spec.part_of)))
            if len(way) > DEEPEST:
                return _Way(key, problem=_DEEP.format(_name(key)))
            way.append(spec.part_of)
        return _Way(way[-1], missing="" if spec else way[-1])

    def _put_together(self, root: GangSpec) -> GangSpec:
        known = self._whole.get(root.key)
        if known is None:
            try:
                known = replace(root, groups=_Assembly(self._objects, self._parts).below(root.key))
                preempts = all(spec.preempts for spec in self._below(root.key))
                known = replace(known, minimum=max(1, lacking(known, {})), preempts=preempts)
            except FairleadError as error:
                known = replace(root, problem=str(error))
            self._whole[root.key] = known
        return known


class _Assembly:
    """The groups of one tree."""

    def __init__(self, objects: dict[str, GangSpec], parts: dict[str, dict[str, None]]) -> None:
        self._objects = objects
        self._parts = parts
        self._count = 0

    def below(self, key: str, depth: int = 0) -> tuple[Group, ...]:
        keys = self._parts.get(key, {}) if depth < DEEPEST else {}
        self._count += len(keys)
        if self._count > MOST_GROUPS:
            raise FairleadError(_MANY.format(_name(key)))
        return tuple(self._group(self._objects[part], depth + 1) for part in keys)

    def _group(self, spec: GangSpec, depth: int) -> Group:
        if spec.least_groups is None:
            group = Group(leaf_name(spec.key), spec.minimum)
        else:
            group = Group(spec.key, spec.least_groups, self.below(spec.key, depth))
        return replace(group, topology=spec.topology, evicted_whole=spec.evicted_whole)


def leaf_name(key: str) -> str:
    """The name of the group that stands for an object."""
    return key.rpartition("/")[2]


def _name(key: str) -> str:
    return key.partition("/")[2]


_CIRCLE = "the gang {} is invalid: {} is part of itself; break that circle"
_DEEP = f"the gang {{}} is invalid: it is nested more than {DEEPEST} deep"
_MANY = f"the gang is invalid: with {{}} it has more than {MOST_GROUPS} groups; write fewer"
