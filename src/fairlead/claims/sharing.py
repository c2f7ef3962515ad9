"""Equal parts of devices as one object: a cluster has a million devices, and few kinds of them."""

from dataclasses import replace
from typing import TypeVar

from fairlead.claims.versions import is_plain_version
from fairlead.model.devices import AttributeValue, Device, DeviceForm, ResourceSlice, VersionText
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.sizes import ENTRY_BYTES, PLACE_BYTES, weigh

_Part = TypeVar("_Part")
#: Most parts are of one device, as its UUID is, and no other device ever shares them: to drop them
#: all costs the next slices one copy of what they have in common.
_MOST_BYTES = 16 << 20
_Names = tuple[str, ...] | None


@dataclass(frozen=True, slots=True, eq=False)
class SliceShape:
    """What is known of the devices of a slice as soon as it comes; slices of many nodes share it.

    Attributes of shared devices are pairs of name and value, each one object for all devices.
    """

    #: The names of the attributes where all devices have the same; else None.
    common: _Names
    #: No value is of an unknown type, or a version that may not be one.
    is_plain: bool
    #: All names differ, and no device affects another one.
    is_simple: bool


class SharedParts:
    """The parts that were seen; dropped now and then, which costs nothing but memory."""

    def __init__(self) -> None:
        self._known: dict[object, object] = {}
        self._shapes: dict[tuple[_Names, bool, bool], SliceShape] = {}
        #: Pairs, by identity, with values that are not plain.
        self._odd: set[int] = set()
        self._bytes = 0

    def shared(self, part: ResourceSlice) -> tuple[ResourceSlice, SliceShape]:
        """The slice, made of parts that others have, too."""
        if self._bytes > _MOST_BYTES:
            self._forget()  # not within a slice: its shape needs all odd pairs of it
        part = replace(part, devices=tuple(self._device(each) for each in part.devices))
        return part, self._shape(part)

    def _forget(self) -> None:
        self._known.clear()
        self._shapes.clear()
        self._odd.clear()
        self._bytes = 0

    def _device(self, device: Device) -> Device:
        pairs = tuple(self._pair(pair) for pair in device.attributes)
        attributes = self._one(pairs, tuple(type(value) for _, value in pairs))
        if attributes is pairs:
            self._bytes += 2 * PLACE_BYTES * len(pairs)
        return Device(self._form(device.form), attributes)

    def _pair(self, pair: tuple[str, AttributeValue]) -> tuple[str, AttributeValue]:
        known = self._one(pair, type(pair[1]))
        if known is pair:
            self._bytes += weigh(pair)
            if not _is_plain(pair[1]):
                self._odd.add(id(pair))
        return known

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
        self._bytes += weigh(parts)
        return self._one(parts, DeviceForm)

    def _shape(self, part: ResourceSlice) -> SliceShape:
        odd = self._odd
        plain = not odd or all(odd.isdisjoint(map(id, each.attributes)) for each in part.devices)
        key = _common(part), plain, _is_simple(part)
        return self._shapes.get(key) or self._shapes.setdefault(key, SliceShape(*key))

    def _one(self, part: _Part, kind: object = None) -> _Part:
        """Kinds keep apart what is equal in Python: True and 1."""
        known = self._known.setdefault((part, kind), part)
        if known is part:
            self._bytes += ENTRY_BYTES
        return known  # type: ignore[return-value]


def _common(part: ResourceSlice) -> _Names:
    names = {tuple([name for name, _ in device.attributes]) for device in part.devices}
    return names.pop() if len(names) == 1 else None


def _is_plain(value: AttributeValue) -> bool:
    if isinstance(value, VersionText):
        return is_plain_version(value.text)
    return value is not None


def _is_simple(part: ResourceSlice) -> bool:
    forms = [device.form for device in part.devices]
    if any(form.consumes or form.shareable for form in forms):
        return False
    return len({form.name for form in forms}) == len(forms)
