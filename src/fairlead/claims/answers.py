"""Answers of selectors, each found once for all devices that are equal in what is read of them.

GPUs differ in their UUIDs, which few selectors read: a cluster of 40,000 GPUs has some ten answers.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from fairlead.claims.errors import SearchLimit
from fairlead.claims.selecting import Answer, DeviceSelection, SelectorFault
from fairlead.claims.versions import is_plain_version
from fairlead.model.devices import Device, VersionText

_MOST_SELECTIONS = 512
_MOST_KINDS = 8192
#: Of all selections together: about 32 MiB.
_MOST_ANSWERS = 131_072
#: What one expression may cost on every device: selectors that drivers publish cost less. More, up
#: to the limit of CEL, only on so many kinds of devices: some milliseconds each.
_CHEAP = 200
_MOST_EXPENSIVE = 64
#: Such an evaluation takes as long as so many others.
_EXPENSIVE = 50


class SelectorAnswers:
    """Bounded; what is dropped is found again."""

    def __init__(self) -> None:
        self._known: dict[tuple[DeviceSelection, str], _KindAnswers] = {}
        #: Answers that were found since all were dropped.
        self._found = 0
        #: Expressions that were evaluated, in all, and how many there may be.
        self.work = 0
        #: Devices that were asked about, in all.
        self.asked = 0
        self._limit = 0
        self._where = ""
        #: The last that was asked: most devices after each other are of one driver.
        self._last: tuple[DeviceSelection, str, _KindAnswers] | None = None

    @property
    def evaluations(self) -> int:
        """How often selectors were evaluated: the work that was done."""
        return sum(known.evaluations for known in self._known.values())

    def of(self, selection: DeviceSelection, driver: str, device: Device) -> Answer:
        """What the selectors say of the device."""
        self.asked += 1
        last = self._last
        if last is None or last[0] is not selection or last[1] != driver:
            last = self._last = selection, driver, self._kinds(selection, driver)
        said = last[2].known(device)
        if said is not None:
            return said
        said, work = last[2].of(device)
        self._found += 1
        if self._found > _MOST_ANSWERS:
            self._forget()
        if work:
            self.work += work
            if self._where and self.work > self._limit:
                raise SearchLimit(f"{self._where}timed out trying to allocate devices")
        return said

    def names(self, selection: DeviceSelection, driver: str) -> frozenset[str] | None:
        """Attributes that answers depend on where all values are plain; None: it may be all.

        Besides, answers depend on the form of a device.
        """
        if not selection.of_class and not selection.of_request:
            return frozenset()
        names = self._kinds(selection, driver).names
        return None if names is None else names[0]

    def _kinds(self, selection: DeviceSelection, driver: str) -> "_KindAnswers":
        known = self._known.get((selection, driver))
        if known is None:
            if len(self._known) >= _MOST_SELECTIONS:
                self._forget()
            known = self._known[selection, driver] = _KindAnswers(selection, driver)
        return known

    def _forget(self) -> None:
        self._known.clear()
        self._last, self._found = None, 0

    @contextmanager
    def limited(self, most: int, where: str) -> Iterator[None]:
        """Raises SearchLimit after so many evaluations; what was found until then is kept."""
        before = self._limit, self._where
        self._limit, self._where = self.work + most, where
        try:
            yield
        finally:
            self._limit, self._where = before


class _KindAnswers:
    """Answers of one selection for devices of one driver."""

    def __init__(self, selection: DeviceSelection, driver: str) -> None:
        self._selection, self._driver = selection, driver
        #: Attributes and capacities that are read; None: it may be anything.
        self.names: tuple[frozenset[str], frozenset[str]] | None = None
        if selection.of_class or selection.of_request:
            from fairlead.claims.expressions import names_read

            self.names = names_read((*selection.of_class, *selection.of_request), driver)
        self._answers: dict[object, Answer] = {}
        self.evaluations = 0
        self._expensive = 0
        #: Versions that can be read.
        self._sound: set[str] = set()

    def known(self, device: Device) -> Answer | None:
        """None: it has to be evaluated."""
        return self._answers.get(self._kind(device))

    def of(self, device: Device) -> tuple[Answer, int]:
        """The answer, and how many expressions were evaluated for it."""
        found, work = self._evaluated(device)
        kind = self._kind(device)
        if kind is not None:
            self._remember(kind, found)
        return found, work

    def _evaluated(self, device: Device) -> tuple[Answer, int]:
        """Most selectors cost little. Others may do so for some kinds of devices only."""
        self.evaluations += 1
        said, work = self._selection.answer(self._driver, device, _CHEAP)
        if not isinstance(said, SelectorFault) or self._expensive >= _MOST_EXPENSIVE:
            return said, work
        from fairlead.claims.expressions import COST_LIMIT, TOO_EXPENSIVE

        if said.problem != TOO_EXPENSIVE:
            return said, work
        self._expensive += 1
        said, more = self._selection.answer(self._driver, device, COST_LIMIT)
        return said, work + _EXPENSIVE * more

    def _remember(self, kind: object, answer: Answer) -> None:
        if len(self._answers) >= _MOST_KINDS:
            self._answers.clear()
        self._answers[kind] = answer

    def _kind(self, device: Device) -> object | None:
        """All that the answer depends on; None: it has to be evaluated."""
        if self.names is None:
            return None
        attributes, capacity = self.names
        read: list[object] = []
        for name, value in device.attributes:
            if value.__class__ is str:
                pass
            elif value.__class__ is VersionText:
                if value.text not in self._sound and not self._is_sound(value.text):
                    return None
            elif value is None:
                return None
            if name in attributes:
                read.append((name, value.__class__, value))
        form = device.form
        if capacity:
            read += [(name, each.value) for name, each in form.capacity if name in capacity]
        return (form.shareable, *read) if read else form.shareable

    def _is_sound(self, text: str) -> bool:
        if not is_plain_version(text):
            return False
        if len(self._sound) >= _MOST_KINDS:
            self._sound.clear()
        self._sound.add(text)
        return True
