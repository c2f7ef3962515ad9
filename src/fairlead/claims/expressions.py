"""Expressions on devices. Only this module imports CEL; the first selector imports this module."""

from functools import lru_cache

from fairlead.cel import (
    KUBE_COST_LIMIT,
    CelCompileError,
    CelError,
    DeviceInput,
    Program,
    compile_expression,
    device_input,
)
from fairlead.model.devices import Device


def evaluated(expression: str, device: DeviceInput) -> bool | tuple[bool, str]:
    """Yes or no; or whether the expression compiles, and the text of the error."""
    program = _compiled(expression)
    if isinstance(program, CelCompileError):
        return False, str(program)
    try:
        return program.evaluate(device, cost_limit=KUBE_COST_LIMIT)
    except CelError as error:
        return True, str(error)


@lru_cache(maxsize=128)
def _compiled(expression: str) -> Program | CelCompileError:
    try:
        return compile_expression(expression)
    except CelCompileError as error:
        return error


def converted(driver: str, device: Device) -> DeviceInput:
    """What expressions see of a device."""
    form = device.form
    amounts = {name: capacity.value for name, capacity in form.capacity}
    attributes = dict(device.attributes)
    return device_input(driver, attributes, amounts, allow_multiple_allocations=form.shareable)
