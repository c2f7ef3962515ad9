"""What a check finds."""

from fairlead.model.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class ClusterFault:
    """One fault. Two looks at the same fault give equal faults."""

    #: One word for the kind of fault, such as `pool-incomplete`.
    kind: str
    #: The object, such as `ResourceClaim team/c`.
    about: str
    what: str
    #: How to remove the fault.
    advice: str


#: Names that a sentence lists before it only counts.
_MOST_NAMES = 3


def listed(names: list[str]) -> str:
    """The first names, and how many more there are."""
    shown, left = ", ".join(names[:_MOST_NAMES]), len(names) - _MOST_NAMES
    return f"{shown} and {left} more" if left > 0 else shown
