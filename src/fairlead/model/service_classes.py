"""Service classes: how long units of a kind may wait, and for which share of them that is to hold.

fairlead.dev/service-class: interactive    # as an annotation or a label of pods
"""

from collections.abc import Mapping

from fairlead.model.lazy_dataclass import dataclass

SERVICE_CLASS = "fairlead.dev/service-class"
#: Classes of one configuration: each has series of its own, and counts of each hour.
MOST_CLASSES = 16
LONGEST_WINDOW_S = 35 * 86_400.0


@dataclass(frozen=True, slots=True)
class GpuTerms:
    """Which GPUs pods of a class get, and which pods may join them there.

    Levels are shares of the time in which a GPU was measured to be busy, at its busiest.
    """

    #: They get GPUs below this level; None: any.
    quiet: float | None = None
    #: Pods of other classes join them below this level; 0: never; None: always.
    neighbours: float | None = None
    #: They share the GPUs that pods of the class have already, before others are used.
    packed: bool = False

    @property
    def is_alone(self) -> bool:
        """Pods of the class share GPUs with each other only."""
        return self.neighbours == 0.0


@dataclass(frozen=True, slots=True)
class ServiceClass:
    """What the administrator promises to units of the class."""

    name: str
    #: A unit is to start within this time of when it could first have been scheduled.
    wait_goal_s: float
    #: The share of units for which this is to hold, and over which time.
    target: float = 0.95
    window_s: float = 28 * 86_400.0
    #: Units of these queues and PriorityClasses are of the class if their pods name none.
    queues: frozenset[str] = frozenset()
    priority_classes: frozenset[str] = frozenset()
    #: Pods of these namespaces may name it; None: all.
    namespaces: frozenset[str] | None = None
    #: None: any GPUs, beside any pods.
    gpus: GpuTerms | None = None

    def may_be_named_in(self, namespace: str) -> bool:
        return self.namespaces is None or namespace in self.namespaces


def named_class(annotations: Mapping[str, str], labels: Mapping[str, str]) -> str:
    """The class that a pod names; empty: none."""
    return annotations.get(SERVICE_CLASS) or labels.get(SERVICE_CLASS, "")
