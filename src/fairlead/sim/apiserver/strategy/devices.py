"""ResourceSlices and DeviceClasses: what drivers and administrators publish."""

from typing import Any

from fairlead.sim.apiserver.status import Cause, duplicate, required, too_many
from fairlead.sim.apiserver.strategy.base import Strategy, immutable

Object = dict[str, Any]

_MOST_DEVICES = 128
_NODES = ("nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection")


class DeviceClassStrategy(Strategy):
    counts_generations = True


class SliceStrategy(Strategy):
    counts_generations = True
    allows_blind_update = False

    def validate(self, obj: Object) -> list[Cause]:
        spec = obj.get("spec") or {}
        causes = self.validate_meta(obj)
        if not any(spec.get(name) for name in _NODES):
            names = ", ".join(f"`{name}`" for name in _NODES)
            causes.append(required("spec", f"exactly one of {names} is required"))
        return causes + _device_causes(spec.get("devices") or [])

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        paths = ("spec.driver", "spec.pool.name", "spec.nodeName")
        return [cause for path in paths for cause in immutable(new, old, path)]


def _device_causes(devices: list[Object]) -> list[Cause]:
    causes, seen = too_many("spec.devices", len(devices), _MOST_DEVICES), set[str]()
    for number, device in enumerate(devices[:_MOST_DEVICES]):
        name = device.get("name", "")
        causes += [duplicate(f"spec.devices[{number}]", name)] if name in seen else []
        seen.add(name)
    return causes
