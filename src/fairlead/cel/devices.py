"""What an expression sees of a device: converted once for all expressions."""

from collections.abc import Mapping
from fractions import Fraction

from fairlead.cel.errors import CelEvaluationError
from fairlead.cel.units import quantity_value, version_of
from fairlead.cel.values import Amount, DomainMap, Value
from fairlead.model.devices import AttributeValue, Exact, VersionText
from fairlead.model.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class DeviceInput:
    """The value of `device`; or the error that every expression has for this device."""

    value: dict[str, Value]
    error: str = ""


def device_input(
    driver: str,
    attributes: Mapping[str, AttributeValue],
    capacity: Mapping[str, str | Exact],
    *,
    allow_multiple_allocations: bool = False,
) -> DeviceInput:
    """Names without a domain are the driver's. An attribute of no known type is None."""
    error = ""
    by_domain, amounts = DomainMap(), DomainMap()
    for name, attribute in attributes.items():
        try:
            _put(by_domain, driver, name, _converted(attribute))
        except CelEvaluationError as reason:
            error = error or f"attribute {name}: {reason}"
    for name, amount in capacity.items():
        try:
            value = quantity_value(amount) if isinstance(amount, str) else Amount(Fraction(amount))
            _put(amounts, driver, name, value)
        except CelEvaluationError as reason:
            error = error or f"capacity {name}: {reason}"
    device = {
        "driver": driver,
        "allowMultipleAllocations": allow_multiple_allocations,
        "attributes": by_domain,
        "capacity": amounts,
    }
    return DeviceInput(device, error)


def _put(maps: DomainMap, driver: str, name: str, value: Value | Amount) -> None:
    domain, slash, identifier = name.partition("/")
    place = (domain, identifier) if slash else (driver, name)
    maps.setdefault(place[0], {})[place[1]] = value


def _converted(attribute: AttributeValue) -> Value:
    if attribute is None:
        raise CelEvaluationError("unsupported attribute value")
    if not isinstance(attribute, VersionText):
        return attribute
    try:
        return version_of(attribute.text)
    except CelEvaluationError as reason:
        raise CelEvaluationError(f"parse semantic version: {reason}") from None
