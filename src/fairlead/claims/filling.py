"""Which devices can serve a request, for columns: slice by slice, and equal devices at once."""

from collections.abc import Iterator, Sequence
from operator import attrgetter

import numpy as np

from fairlead.claims.columns import ROWS_TOGETHER, Codes, DeviceRows
from fairlead.claims.errors import AllocationError
from fairlead.claims.inventory import DeviceInventory
from fairlead.claims.requests import WantedDevices
from fairlead.model.devices import Device, DeviceForm

#: What a device is for a request. A selector fails on it, or what it would give makes no sense.
UNUSABLE, USABLE, ERROR, UNCOUNTABLE = 1, 2, 3, 4
_form = attrgetter("form")


def fill(
    slices: Iterator[DeviceRows], wanted: WantedDevices, column: Codes, inventory: DeviceInventory
) -> None:
    """Raises LookUnfinished and SearchLimit: what was found stays."""
    filling, answers = _Filling(inventory, wanted, column), inventory.answers
    for rows in slices:
        plain = rows.shape.is_plain
        names = answers.names(wanted.selection, rows.part.driver) if plain else None
        if names is None:
            filling.one_by_one(rows)
        else:
            filling.together(rows, _keys(rows, names))


class _Filling:
    def __init__(self, inventory: DeviceInventory, wanted: WantedDevices, column: Codes) -> None:
        self._inventory, self._wanted, self._column = inventory, wanted, column
        #: By identity of capacities and taints: all that matters of a form besides selectors.
        self._forms: dict[tuple[int, int], int] = {}
        #: By identity of the form and of the attributes that selectors read.
        self._kinds: dict[object, int] = {}
        #: The same without the names of the devices, which make forms different.
        self._unnamed: dict[object, int] = {}

    def together(self, rows: DeviceRows, keys: Sequence[object]) -> None:
        """Devices with the same key have the same answer."""
        found, one_by_one = 0, rows.shape.common is None
        try:
            codes = bytes(map(self._kinds.__getitem__, keys))
        except KeyError:
            found = self._find(rows, keys)
            codes = bytes(map(self._kinds.__getitem__, keys))
        self._column[rows.first : rows.last] = np.frombuffer(codes, np.int8)
        looked = len(keys) if one_by_one else -(-len(keys) // ROWS_TOGETHER)
        self._inventory.turn.spend(devices=looked + found)

    def _find(self, rows: DeviceRows, keys: Sequence[object]) -> int:
        """How many keys are new."""
        known, before = self._kinds, len(self._kinds)
        for key, device in zip(keys, rows.part.devices, strict=True):
            if key not in known:
                known[key] = self._unnamed_code(rows.part.driver, device, key)
        return len(known) - before

    def _unnamed_code(self, driver: str, device: Device, key: object) -> int:
        form, read = device.form, key[1:] if isinstance(key, tuple) else ()
        unnamed = driver, id(form.capacity), id(form.taints), form.shareable, read
        code = self._unnamed.get(unnamed)
        if code is None:
            before = self._inventory.answers.work
            code = self._unnamed[unnamed] = self._code(driver, device)
            self._spend(before)
        return code

    def one_by_one(self, rows: DeviceRows) -> None:
        """Those that a turn before this one has not come to."""
        left = [row for row in range(rows.first, rows.last) if not self._column[row]]
        for row in left:
            before = self._inventory.answers.work
            device = rows.part.devices[row - rows.first]
            self._column[row] = self._code(rows.part.driver, device)
            self._spend(before)
        self._inventory.turn.spend(devices=len(left))

    def _spend(self, before: int) -> None:
        """After the answer is kept: the turn may end here."""
        work = self._inventory.answers.work - before
        if work:
            self._inventory.turn.spend(evaluations=work)

    def _code(self, driver: str, device: Device) -> int:
        said = self._inventory.answers.of(self._wanted.selection, driver, device)
        if said is False:
            return UNUSABLE
        if said is not True:
            return ERROR
        form = device.form
        key = id(form.capacity), id(form.taints)
        code = self._forms.get(key)
        if code is None:
            code = self._forms[key] = self._form_code(form)
        return code

    def _form_code(self, form: DeviceForm) -> int:
        wanted = self._wanted
        try:
            amounts = wanted.amounts(form, self._inventory.behaviour)
        except AllocationError:
            return UNCOUNTABLE
        if amounts is None or not (wanted.is_for_all or wanted.tolerates(form)):
            return UNUSABLE
        return USABLE


def _keys(rows: DeviceRows, names: frozenset[str]) -> Sequence[object]:
    """All that the answer depends on, for each device."""
    common, devices = rows.shape.common, rows.part.devices
    if common is None:
        return [
            (id(each.form), *[id(pair) for pair in each.attributes if pair[0] in names])
            for each in devices
        ]
    forms = map(id, map(_form, devices))
    places = [place for place, name in enumerate(common) if name in names]
    if not places:
        return list(forms)
    return list(zip(forms, *(map(id, rows.pairs(place)) for place in places), strict=True))
