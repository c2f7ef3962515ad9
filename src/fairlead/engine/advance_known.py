"""A reservation as the engine knows it: what the object says, and what was chosen for it."""

from dataclasses import field

from fairlead.model.advance import AdvanceReservation, AdvanceStatus
from fairlead.model.lazy_dataclass import dataclass


@dataclass(slots=True, eq=False)
class KnownReservation:
    spec: AdvanceReservation
    nodes: set[str] = field(default_factory=set)
    #: GPUs of each of these nodes, if it does not have them whole.
    gpus_on: dict[str, int] = field(default_factory=dict)
    status: AdvanceStatus | None = None
    evicted_s: float = float("-inf")
    #: When more GPUs are looked for, if there were too few.
    search_s: float = float("-inf")

    @property
    def has_effect(self) -> bool:
        return bool(self.nodes) and not self.spec.problem

    @property
    def is_by_gpu(self) -> bool:
        """Whether others may use the rest of its nodes."""
        return self.spec.gpus_per_node > 0

    def overlaps(self, start_s: float, end_s: float) -> bool:
        return self.spec.start_s < end_s and start_s < self.spec.end_s
