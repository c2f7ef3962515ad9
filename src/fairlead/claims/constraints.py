"""Constraints of a claim: devices with the same value of an attribute, or with different ones."""

from fairlead.model.claims import DeviceConstraint
from fairlead.model.devices import AttributeValue, Device

#: Type and value: True is not 1, and a version is not a text.
TypedValue = tuple[type, AttributeValue]


def attribute_of(device: Device, driver: str, name: str) -> TypedValue | None:
    """The attribute by its full name; names without a domain are the driver's."""
    for known, value in device.attributes:
        if known == name:
            return type(value), value
    domain, slash, short = name.partition("/")
    if slash and domain == driver:
        for known, value in device.attributes:
            if known == short:
                return type(value), value
    return None


class _Constraint:
    """What both kinds share: which requests are meant."""

    def __init__(self, attribute: str, requests: tuple[str, ...]) -> None:
        self.attribute = attribute
        self._requests = frozenset(requests)

    def concerns(self, request: str, alternative: str) -> bool:
        names = self._requests
        if not names or request in names:
            return True
        return bool(alternative) and f"{request}/{alternative}" in names


class MatchConstraint(_Constraint):
    """All values are equal."""

    def __init__(self, attribute: str, requests: tuple[str, ...]) -> None:
        super().__init__(attribute, requests)
        self.value: TypedValue | None = None
        self.count = 0

    def add(self, _: str, value: TypedValue | None) -> bool:
        if value is None:
            return False
        if self.count == 0:
            self.value = value
        elif value != self.value or value[1] is None:
            return False
        self.count += 1
        return True

    def remove(self, _: str) -> None:
        self.count -= 1


class DistinctConstraint(_Constraint):
    """All values differ."""

    def __init__(self, attribute: str, requests: tuple[str, ...]) -> None:
        super().__init__(attribute, requests)
        self._values: list[TypedValue] = []

    def add(self, _: str, value: TypedValue | None) -> bool:
        if value is None or (self._values and value[1] is None) or value in self._values:
            return False
        self._values.append(value)
        return True

    def remove(self, _: str) -> None:
        self._values.pop()


class ForgetfulDistinctConstraint(_Constraint):
    """As in 1.36: of each request only the last value is known, and none after a step back."""

    def __init__(self, attribute: str, requests: tuple[str, ...]) -> None:
        super().__init__(attribute, requests)
        self._values: dict[str, TypedValue] = {}
        self._count = 0

    def add(self, request: str, value: TypedValue | None) -> bool:
        if value is None:
            return False
        if self._count and ((self._values and value[1] is None) or value in self._values.values()):
            return False
        self._values[request] = value
        self._count += 1
        return True

    def remove(self, request: str) -> None:
        self._values.pop(request, None)
        self._count -= 1


Constraint = MatchConstraint | DistinctConstraint | ForgetfulDistinctConstraint


def constraint_of(spec: DeviceConstraint, *, forgetful: bool) -> Constraint | None:
    """None: a constraint of a type that is not known."""
    if spec.match_attribute is not None:
        return MatchConstraint(spec.match_attribute, spec.requests)
    if spec.distinct_attribute is None:
        return None
    kind = ForgetfulDistinctConstraint if forgetful else DistinctConstraint
    return kind(spec.distinct_attribute, spec.requests)
