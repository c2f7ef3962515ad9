"""Linear programs, solved by HiGHS: the least costs of amounts from zero upwards, within limits.

HiGHS is imported when it is first needed.
"""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from fairlead.model.lazy_dataclass import dataclass

if TYPE_CHECKING:
    import highspy

Floats = npt.NDArray[np.float64]
Numbers = Sequence[int] | npt.NDArray[np.integer]
Limits = Sequence[float] | npt.NDArray[np.number]


@dataclass(frozen=True, slots=True)
class Solution:
    """Amounts within all limits; the best there are, unless time ran out."""

    amounts: Floats
    cost: float
    #: By row: what a limit costs for each 1 that it is higher.
    prices: Floats
    is_best: bool


class LinearProgram:
    """Rows of limits are numbered as they are added."""

    def __init__(self, costs: Floats, most: Limits | float = math.inf) -> None:
        """What one of each costs, and how many of each there may be."""
        self._costs = costs
        self._most = np.broadcast_to(np.asarray(most, np.float64), costs.shape)
        self._rows: list[npt.NDArray[np.intp]] = []
        self._columns: list[npt.NDArray[np.intp]] = []
        self._factors: list[Floats] = []
        self._low: list[float] = []
        self._high: list[float] = []

    def limit(self, matrix: npt.ArrayLike, low: Limits, high: Limits) -> None:
        """A row for each of the matrix: the sum of factors times amounts, from low to high."""
        dense = np.atleast_2d(np.asarray(matrix, np.float64))
        rows, columns = np.nonzero(dense)
        self.limit_some(rows, columns, dense[rows, columns], low, high)

    def limit_some(
        self, rows: Numbers, columns: Numbers, factors: Limits, low: Limits, high: Limits
    ) -> None:
        """The same by the factors that are not zero; rows count from the first that is added."""
        self._rows.append(np.asarray(rows, np.intp) + len(self._low))
        self._columns.append(np.asarray(columns, np.intp))
        self._factors.append(np.asarray(factors, np.float64))
        self._low.extend(low)
        self._high.extend(high)

    def solved(
        self, *, whole: bool = False, seconds: float = math.inf, gap: float | None = None
    ) -> Solution | None:
        """In whole amounts or any; `gap` is how far from the best, in parts, is best enough."""
        import highspy

        solver = highspy.Highs()  # type: ignore[no-untyped-call]
        options = {"output_flag": False, "time_limit": seconds, "mip_rel_gap": gap}
        for name, value in options.items():
            if value is not None:
                solver.setOptionValue(name, value)
        solver.passModel(self._model(whole=whole))
        solver.run()
        found = solver.getInfo()
        if found.primal_solution_status != highspy.SolutionStatus.kSolutionStatusFeasible:
            return None
        solution = solver.getSolution()
        return Solution(
            np.array(solution.col_value),
            found.objective_function_value,
            np.array(solution.row_dual),
            solver.getModelStatus() == highspy.HighsModelStatus.kOptimal,
        )

    def _model(self, *, whole: bool) -> "highspy.HighsLp":
        import highspy

        rows, columns = np.concatenate(self._rows), np.concatenate(self._columns)
        order = np.lexsort((columns, rows))
        model = highspy.HighsLp()
        model.num_col_, model.num_row_ = len(self._costs), len(self._low)
        model.col_cost_, model.col_upper_ = self._costs, self._most
        model.col_lower_ = np.zeros(len(self._costs))
        model.row_lower_, model.row_upper_ = np.array(self._low), np.array(self._high)
        model.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        model.a_matrix_.start_ = np.searchsorted(rows[order], np.arange(len(self._low) + 1))
        model.a_matrix_.index_ = columns[order]
        model.a_matrix_.value_ = np.concatenate(self._factors)[order]
        if whole:
            model.integrality_ = [highspy.HighsVarType.kInteger] * len(self._costs)
        return model
