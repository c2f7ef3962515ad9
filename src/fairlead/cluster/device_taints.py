"""Taints that rules add to devices."""

from collections.abc import Collection
from dataclasses import replace

from fairlead.model.behaviour import KUBERNETES_1_37, Behaviour
from fairlead.model.devices import Device, DeviceTaint, DeviceTaintRule, ResourceSlice

#: Different taints that rules may add to one device: the API allows a slice sixteen of them.
MOST_TAINTS = 256


def tainted(
    part: ResourceSlice, rules: Collection[DeviceTaintRule], behaviour: Behaviour
) -> ResourceSlice:
    """The slice with the taints of rules after its own, by the names of the rules."""
    matching = sorted(
        (rule for rule in rules if taints_part(rule, part, behaviour)), key=lambda rule: rule.name
    )
    if not matching:
        return part
    named, for_all = {rule.device for rule in matching}, _taints(matching, None)
    added = {
        device.name: _taints(matching, device.name) if device.name in named else for_all
        for device in part.devices
    }
    if max(map(len, added.values()), default=0) > MOST_TAINTS:
        problem = f"rules add more than {MOST_TAINTS} taints to a device"
        return replace(part, devices=(), problem=problem)
    devices = (_tainted(device, added[device.name]) for device in part.devices)
    return replace(part, devices=tuple(devices))


def taints_part(rule: DeviceTaintRule, part: ResourceSlice, behaviour: Behaviour) -> bool:
    """A rule without a selector matched all devices before 1.37, and matches none since."""
    if not rule.has_selector:
        return behaviour.version < KUBERNETES_1_37.version
    return rule.driver in (None, part.driver) and rule.pool in (None, part.pool)


def _taints(rules: Collection[DeviceTaintRule], device: str | None) -> tuple[DeviceTaint, ...]:
    """Each once, of the rules that are for all devices, or for this one."""
    return tuple(dict.fromkeys(rule.taint for rule in rules if rule.device in (None, device)))


def _tainted(device: Device, added: tuple[DeviceTaint, ...]) -> Device:
    if not added:
        return device
    return replace(device, form=replace(device.form, taints=(*device.form.taints, *added)))
