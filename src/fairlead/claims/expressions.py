"""Expressions on devices. Only this module imports CEL; the first selector imports this module."""

from functools import lru_cache

from fairlead.cel import (
    COST_LIMIT,
    CelCompileError,
    CelCostError,
    CelError,
    DeviceInput,
    Program,
    compile_expression,
    device_input,
)
from fairlead.cel.reads import Read
from fairlead.model.devices import Device

__all__ = ["COST_LIMIT", "TOO_EXPENSIVE", "converted", "evaluated", "items_read", "names_read"]
TOO_EXPENSIVE = str(CelCostError())


def evaluated(expression: str, device: DeviceInput, cost_limit: int) -> bool | tuple[bool, str]:
    """Yes or no; or whether the expression compiles, and the text of the error."""
    program = _compiled(expression)
    if isinstance(program, CelCompileError):
        return False, str(program)
    try:
        return program.evaluate(device, cost_limit=cost_limit)
    except CelError as error:
        return True, str(error)


@lru_cache(maxsize=128)
def _compiled(expression: str) -> Program | CelCompileError:
    try:
        return compile_expression(expression)
    except CelCompileError as error:
        return error


def items_read(expression: str) -> frozenset[Read]:
    """Section, domain and name of what it reads; empty where it may be anything."""
    program = _compiled(expression)
    return frozenset() if isinstance(program, CelCompileError) else program.reads or frozenset()


def names_read(
    expressions: tuple[str | None, ...], driver: str
) -> tuple[frozenset[str], frozenset[str]] | None:
    """Names of attributes and of capacities that decide the answers; None: all of them."""
    names: dict[str, set[str]] = {"attributes": set(), "capacity": set()}
    for expression in expressions:
        program = _compiled(expression or "")
        if isinstance(program, CelCompileError):
            continue
        if program.reads is None:
            return None
        for section, domain, name in program.reads:
            names[section] |= {f"{domain}/{name}", *((name,) if domain == driver else ())}
    return frozenset(names["attributes"]), frozenset(names["capacity"])


def converted(driver: str, device: Device) -> DeviceInput:
    """What expressions see of a device."""
    form = device.form
    amounts = {name: capacity.value for name, capacity in form.capacity}
    attributes = dict(device.attributes)
    return device_input(driver, attributes, amounts, allow_multiple_allocations=form.shareable)
