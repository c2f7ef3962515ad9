"""Lines with corners, from how full something would be to what that is worth."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fairlead.model.lazy_dataclass import dataclass

HIGHEST = 10


@dataclass(frozen=True, slots=True)
class ShapePoint:
    """A corner of the line from how full something is (in percent) to its score (0 to 10)."""

    utilization: int
    score: int


ScoringShape = tuple[ShapePoint, ...]


def fuller_is_better() -> ScoringShape:
    return ShapePoint(0, 0), ShapePoint(100, HIGHEST)


def emptier_is_better() -> ScoringShape:
    return ShapePoint(0, HIGHEST), ShapePoint(100, 0)


def check_shape(shape: Sequence[ShapePoint]) -> None:
    at = [point.utilization for point in shape]
    if not at or at != sorted(set(at)):
        raise ValueError("shape: give points of rising utilization, at least one")
    for point in shape:
        if not (0 <= point.utilization <= 100 and 0 <= point.score <= HIGHEST):
            raise ValueError("shape: utilization goes from 0 to 100, and score from 0 to 10")


def line_of(shape: Sequence[ShapePoint]) -> NDArray[np.int64]:
    """The score (0 to 100) for each whole percent."""
    return np.array([_on_line(shape, percent) for percent in range(101)], dtype=np.int64)


def _on_line(shape: Sequence[ShapePoint], percent: int) -> int:
    """Between corners cut towards the first."""
    scale = 100 // HIGHEST
    before = shape[0]
    for point in shape:
        if percent <= point.utilization:
            rise, run = scale * (point.score - before.score), point.utilization - before.utilization
            return scale * before.score + int(rise * (percent - before.utilization) / max(run, 1))
        before = point
    return scale * before.score
