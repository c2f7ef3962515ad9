"""Equal parts of devices as one object: a cluster has a million devices, and few kinds of them."""

from dataclasses import replace
from typing import TypeVar

from fairlead.model.devices import AttributeValue, Device, DeviceForm, ResourceSlice

_Part = TypeVar("_Part")
#: Parts to keep at least before those of slices that are gone are dropped.
_FEW = 4096


class SharedParts:
    """The parts that were seen; dropped now and then, which costs nothing but memory."""

    def __init__(self) -> None:
        self._known: dict[object, object] = {}
        self._devices = 0

    def shared(self, part: ResourceSlice) -> ResourceSlice:
        """The slice, made of parts that others have, too."""
        if len(self._known) > _FEW + 4 * self._devices:
            self._known.clear()
            self._devices = 0
        self._devices += len(part.devices)
        return replace(part, devices=tuple(self._device(each) for each in part.devices))

    def _device(self, device: Device) -> Device:
        pairs = tuple(self._pair(pair) for pair in device.attributes)
        attributes = self._one(pairs, tuple(type(value) for _, value in pairs))
        return Device(self._form(device.form), attributes)

    def _pair(self, pair: tuple[str, AttributeValue]) -> tuple[str, AttributeValue]:
        return self._one(pair, type(pair[1]))

    def _form(self, form: DeviceForm) -> DeviceForm:
        known = self._known.get((form, DeviceForm))
        if isinstance(known, DeviceForm):
            return known
        parts = replace(
            form,
            capacity=self._one(form.capacity),
            consumes=self._one(tuple(self._one(use) for use in form.consumes)),
            taints=self._one(form.taints),
        )
        return self._one(parts, DeviceForm)

    def _one(self, part: _Part, kind: object = None) -> _Part:
        """Kinds keep apart what is equal in Python: True and 1."""
        return self._known.setdefault((part, kind), part)  # type: ignore[return-value]
