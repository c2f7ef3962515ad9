"""What the selectors of classes and requests say of devices: yes, no, or an error.

An error is kept as an answer: it counts only when the search comes to the device.
"""

from dataclasses import field
from typing import TYPE_CHECKING

from fairlead.model.behaviour import Behaviour
from fairlead.model.claims import DeviceId
from fairlead.model.devices import Device
from fairlead.model.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from fairlead.cel import DeviceInput

_HINT = (
    "consider using CEL optional chaining (.? followed by orValue()) "
    "or guarding the check with has() for optional fields"
)


@dataclass(frozen=True, slots=True, eq=False)
class SelectorFault:
    """The error of a selector, on one device."""

    #: The class; "" for the claim.
    place: str
    number: int
    problem: str
    compiles: bool

    def text(self, claim: str, key: DeviceId, rules: Behaviour) -> str:
        """In the words of kube-scheduler."""
        place = f"{self.place or f'claim {claim}'}: selector #{self.number}"
        if not self.compiles:
            return f"{place}: CEL compile error: {self.problem}"
        if not rules.names_failing_devices:
            return f"{place}: CEL runtime error: {self.problem}"
        missing = "no such key:" in self.problem
        hint = f"{self.problem}. {_HINT}" if missing else self.problem
        return f"{place} on device {key}: CEL runtime error: {hint}"


Answer = bool | SelectorFault


@dataclass(frozen=True, slots=True)
class DeviceSelection:
    """All selectors of a request: those of its class first."""

    class_name: str
    of_class: tuple[str | None, ...]
    of_request: tuple[str | None, ...]
    _hash: int = field(default=0, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        told = self.class_name, self.of_class, self.of_request
        object.__setattr__(self, "_hash", hash(told))

    def __hash__(self) -> int:
        return self._hash

    def answer(self, driver: str, device: Device, cost_limit: int) -> tuple[Answer, int]:
        """Yes, no, or an error; and how many expressions were evaluated for it.

        The limit is that of each expression.
        """
        if not self.of_class and not self.of_request:
            return True, 0
        from fairlead.claims.expressions import converted

        seen = converted(driver, device)
        of_class, work = _first(f"class {self.class_name}", self.of_class, seen, cost_limit)
        if of_class is not True:
            return of_class, work
        of_request, more = _first("", self.of_request, seen, cost_limit)
        return of_request, work + more


def _first(
    place: str, expressions: tuple[str | None, ...], seen: "DeviceInput", cost_limit: int
) -> tuple[Answer, int]:
    """The first answer that is not yes, and how many there were."""
    from fairlead.claims.expressions import evaluated

    for number, expression in enumerate(expressions):
        said = evaluated(expression or "", seen, cost_limit)
        if not isinstance(said, bool):
            compiles, problem = said
            return SelectorFault(place, number, problem, compiles), number + 1
        if not said:
            return False, number + 1
    return True, len(expressions)
