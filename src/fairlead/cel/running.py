"""The state of one evaluation: variables, and the cost that is left."""

from collections.abc import Callable, Iterable

from fairlead.cel.errors import CelCostError
from fairlead.cel.types import StaticType
from fairlead.cel.values import Value
from fairlead.model.lazy_dataclass import dataclass


@dataclass(slots=True)
class Evaluation:
    variables: list[Value]
    left: int

    def charge(self, cost: int) -> None:
        """Raises CelCostError."""
        self.left -= cost
        if self.left < 0:
            raise CelCostError

    def charge_sizes(self, values: Iterable[Value]) -> None:
        """One for a call, and one for each ten characters or items that it reads."""
        cost = 1
        for value in values:
            if isinstance(value, (str, bytes, list)):
                cost += len(value) // 10
        self.charge(cost)


Runner = Callable[[Evaluation], Value]


@dataclass(frozen=True, slots=True)
class Checked:
    """The type of an expression, and what computes it."""

    kind: StaticType
    run: Runner
