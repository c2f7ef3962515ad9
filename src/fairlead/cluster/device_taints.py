"""Taints that rules add to devices."""

from collections.abc import Collection
from dataclasses import replace

from fairlead.model.behaviour import KUBERNETES_1_37, Behaviour
from fairlead.model.devices import Device, DeviceTaint, DeviceTaintRule, ResourceSlice


def tainted(
    part: ResourceSlice, rules: Collection[DeviceTaintRule], behaviour: Behaviour
) -> ResourceSlice:
    """The slice with the taints of rules after its own, by the names of the rules."""
    matching = sorted(
        (rule for rule in rules if taints_part(rule, part, behaviour)), key=lambda rule: rule.name
    )
    if not matching:
        return part
    return replace(part, devices=tuple(_tainted(device, matching) for device in part.devices))


def taints_part(rule: DeviceTaintRule, part: ResourceSlice, behaviour: Behaviour) -> bool:
    """A rule without a selector matched all devices before 1.37, and matches none since."""
    if not rule.has_selector:
        return behaviour.version < KUBERNETES_1_37.version
    return rule.driver in (None, part.driver) and rule.pool in (None, part.pool)


def _tainted(device: Device, rules: Collection[DeviceTaintRule]) -> Device:
    added: tuple[DeviceTaint, ...] = tuple(
        rule.taint for rule in rules if rule.device in (None, device.name)
    )
    if not added:
        return device
    return replace(device, form=replace(device.form, taints=(*device.form.taints, *added)))
