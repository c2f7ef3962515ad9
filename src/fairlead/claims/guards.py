"""Selectors that fail on a device because it lacks an attribute, and the form that does not fail.

For `fairlead explain` alone.
"""

from collections.abc import Iterable, Iterator

from fairlead.claims.expressions import COST_LIMIT, converted, evaluated, items_read
from fairlead.claims.inventory import DeviceInventory
from fairlead.claims.selecting import DeviceSelection, SelectorFault
from fairlead.model.claims import DeviceId
from fairlead.model.devices import Device
from fairlead.model.lazy_dataclass import dataclass

#: Devices that are asked for each selection.
_MOST_DEVICES = 20_000


@dataclass(frozen=True, slots=True)
class GuardedSelector:
    """A selector, the first device that it fails on, and the same with a test before it."""

    #: `class gpu` or `request r`.
    place: str
    number: int
    device: str
    expression: str
    guarded: str


def guarded_selectors(
    selections: Iterable[tuple[str, DeviceSelection]], inventory: DeviceInventory
) -> Iterator[GuardedSelector]:
    """Of the selectors that fail; `selections` by the place of their request."""
    for place, selection in selections:
        found = _failing(selection, inventory)
        if found is None:
            continue
        fault, key, device = found
        expressions = selection.of_class if fault.place else selection.of_request
        text = expressions[fault.number] or ""
        if guarded := guarded_form(text, key.driver, device):
            where = fault.place or place
            yield GuardedSelector(where, fault.number, str(key), text, guarded)


def _failing(
    selection: DeviceSelection, inventory: DeviceInventory
) -> tuple[SelectorFault, DeviceId, Device] | None:
    """The first device that a selector fails on."""
    asked = 0
    for part in inventory.slices():
        for device in part.devices:
            said = inventory.answers.of(selection, part.driver, device)
            if isinstance(said, SelectorFault):
                return said, DeviceId(part.driver, part.pool, device.name), device
        asked += len(part.devices)
        if asked > _MOST_DEVICES:
            return None
    return None


def guarded_form(expression: str, driver: str, device: Device) -> str:
    """With a test for each attribute that the device lacks; empty if that does not help."""
    has = {name for name, _ in device.attributes}, {name for name, _ in device.form.capacity}
    tests = []
    for section, domain, name in sorted(items_read(expression)):
        names = has[section == "capacity"]
        if f"{domain}/{name}" not in names and not (domain == driver and name in names):
            tests.append(f"'{name}' in device.{section}['{domain}']")
    if not tests:
        return ""
    body = f"({expression})" if "||" in expression or "?" in expression else expression
    guarded = " && ".join((*tests, body))
    works = isinstance(evaluated(guarded, converted(driver, device), COST_LIMIT), bool)
    return guarded if works else ""
