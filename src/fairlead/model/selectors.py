"""Which pods are meant: label selectors, and the terms that pods use about each other."""

import re
from collections.abc import Collection, Mapping
from dataclasses import field

from fairlead.model.lazy_dataclass import dataclass

_WHOLE = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)
_FEW = 8


def whole_number(text: str) -> int | None:
    """What the operators Gt and Lt take for a number; None if the text is none."""
    number = int(text) if _WHOLE.fullmatch(text) else None
    return number if number is not None and -(2**63) <= number < 2**63 else None


@dataclass(frozen=True, slots=True, eq=True)
class Requirement:
    """One line of a selector: `key operator values`."""

    key: str
    operator: str
    values: tuple[str, ...] = ()
    #: The values, to be looked up in: some name thousands.
    _named: Collection[str] = field(default=(), init=False, repr=False, compare=False)
    _hash: int = field(default=0, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        few = len(self.values) <= _FEW
        object.__setattr__(self, "_named", self.values if few else frozenset(self.values))
        object.__setattr__(self, "_hash", hash((self.key, self.operator, self.values)))

    def __hash__(self) -> int:
        return self._hash

    def holds(self, labels: Mapping[str, str]) -> bool:
        """For pods' and namespaces' labels; an unknown operator matches nothing."""
        value = labels.get(self.key)
        match self.operator:
            case "In":
                return value is not None and value in self._named
            case "NotIn":
                return value is None or value not in self._named
            case "Exists":
                return value is not None
            case "DoesNotExist":
                return value is None
            case _:
                return False


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """All lines must hold; without any it means everything. "Nothing" is written as None."""

    lines: tuple[Requirement, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        return all(line.holds(labels) for line in self.lines)

    @property
    def keys(self) -> frozenset[str]:
        return frozenset(line.key for line in self.lines)


@dataclass(frozen=True, slots=True)
class PodTerm:
    """Pods of some namespaces that a selector matches, near by in the sense of a topology key."""

    topology_key: str
    selector: LabelSelector | None
    namespaces: tuple[str, ...] = ()
    #: Adds the namespaces whose labels it matches.
    namespace_selector: LabelSelector | None = None
    _hash: int = field(default=0, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # It may name thousands of namespaces, and is looked up for every count.
        told = self.topology_key, self.selector, self.namespaces, self.namespace_selector
        object.__setattr__(self, "_hash", hash(told))

    def __hash__(self) -> int:
        return self._hash

    def means(
        self, namespace: str, labels: Mapping[str, str], of_namespace: Mapping[str, str]
    ) -> bool:
        """Does it mean a pod with these labels, in this namespace with those labels?"""
        if self.selector is None:
            return False
        inside = namespace in self.namespaces or (
            self.namespace_selector is not None and self.namespace_selector.matches(of_namespace)
        )
        return inside and self.selector.matches(labels)


@dataclass(frozen=True, slots=True)
class SpreadRule:
    """Keep the pods that the selector means evenly spread over the domains of a key."""

    topology_key: str
    max_skew: int
    selector: LabelSelector | None
    min_domains: int = 1
    #: Count only nodes that the pod's node affinity allows; and whose taints it tolerates.
    honours_affinity: bool = True
    honours_taints: bool = False
