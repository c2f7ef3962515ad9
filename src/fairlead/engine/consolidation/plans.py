"""What a consolidation would do, or why there is none."""

from fairlead.model.gpus import WHOLE
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.pods import Pod


@dataclass(frozen=True, slots=True)
class Move:
    """A running pod, and the node that its successor gets."""

    pod: Pod
    node: str
    target: str
    milli: int


@dataclass(frozen=True, slots=True)
class Start:
    """A waiting pod, and the node that it gets."""

    pod: Pod
    node: str


@dataclass(frozen=True, slots=True)
class ConsolidationPlan:
    """After the moves the waiting unit starts, and all that moved run again."""

    #: The key of the waiting unit.
    unit: str
    starts: tuple[Start, ...]
    moves: tuple[Move, ...]
    lost_gpu_s: float
    gained_gpu_s: float

    @property
    def moved_milli(self) -> int:
        """Thousandths of GPUs whose pods move."""
        return sum(move.milli for move in self.moves)

    @property
    def message(self) -> str:
        gpus = f"{self.moved_milli / WHOLE:g}"
        return (
            f"{len(self.moves)} pod(s) with {gpus} GPU(s) move, {self.lost_gpu_s:.0f} GPU-seconds "
            f"are lost and {self.gained_gpu_s:.0f} gained"
        )


@dataclass(frozen=True, slots=True)
class NoConsolidation:
    """Why no moves help; the search may have been cut short."""

    why: str
    cut_short: bool = False
