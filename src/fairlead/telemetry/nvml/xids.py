"""Which errors of the driver mean that a GPU is sick, and which are a program's own fault."""

from typing import Any

from fairlead.telemetry.nvml.calls import OF_THE_DRIVER, TIMEOUT, Library, maybe, text
from fairlead.telemetry.nvml.facts import Xid

#: After one of these nothing new should start on the GPU before it was checked, or
#: reset it. What programs cause themselves (13, 31, 43, 45, 68), what the GPU has dealt with (63:
#: a row was replaced; 92: single bits corrected; 94: contained, only its program dies), and every
#: number that is not here, says nothing against the GPU.
SICK = {
    46: "it stopped processing",
    48: "two bits of its memory failed at once",
    62: "its controller halted",
    64: "a row of its memory could not be replaced",
    74: "an NVLink failed",
    79: "it fell off the bus",
    95: "a memory error was not contained",
    119: "its system processor does not answer",
    120: "its system processor failed",
    140: "a memory error was not corrected",
    143: "it could not be started",
}

#: The action that the driver requests (nvmlDeviceGetFieldValues, field 230); 0: none.
_RECOVERY_FIELD = 230
_RECOVERY = {
    1: "the driver requires a reset of the GPU",
    2: "the driver requires a reboot of the machine",
    3: "the driver requires it to be isolated from other GPUs",
    4: "the driver requires it to be drained and reset",
    5: "the driver requires a recovery of its IMEX domain",
    6: "the driver requires a reset of its bus",
    7: "the driver requires a reboot of the system",
}
#: More at once than any GPU reports; the others come with the next question.
_MOST = 256


def words(number: int) -> str:
    """What is wrong with a GPU after this Xid; empty if nothing is."""
    return f"Xid {number}: {SICK[number]}" if number in SICK else ""


def recovery(library: Library, handle: Any) -> str:
    fields = maybe(library, "nvmlDeviceGetFieldValues", handle, [_RECOVERY_FIELD])
    if not fields or fields[0].nvmlReturn:
        return ""
    wanted = int(fields[0].value.uiVal)
    return _RECOVERY.get(wanted, "") if wanted else ""


class XidWatch:
    """Collects what the driver reports from the moment it is made."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._set = library.nvmlEventSetCreate()
        self._registered: set[str] = set()

    def register(self, uuid: str) -> None:
        """May be repeated. A GPU that is lost, or does not report errors, is left alone."""
        if uuid in self._registered:
            return
        try:
            handle = self._library.nvmlDeviceGetHandleByUUID(uuid)
            kind = self._library.nvmlEventTypeXidCriticalError
            maybe(self._library, "nvmlDeviceRegisterEvents", handle, kind, self._set)
        except self._library.NVMLError as error:
            if error.value in OF_THE_DRIVER:
                raise
        else:
            self._registered.add(uuid)

    def seen(self) -> list[Xid]:
        found: list[Xid] = []
        while len(found) < _MOST and (event := self._next()) is not None:
            if event.eventType == self._library.nvmlEventTypeXidCriticalError:
                uuid = text(self._library.nvmlDeviceGetUUID(event.device))
                found.append(Xid(uuid, int(event.eventData)))
        return found

    def _next(self) -> Any:
        try:
            return self._library.nvmlEventSetWait_v2(self._set, 1)
        except self._library.NVMLError as error:
            if error.value in OF_THE_DRIVER:
                raise
            if error.value != TIMEOUT:
                self._begin_anew()
            return None

    def _begin_anew(self) -> None:
        """One lost GPU breaks the whole set; registering again helps."""
        maybe(self._library, "nvmlEventSetFree", self._set)
        self._set = self._library.nvmlEventSetCreate()
        self._registered.clear()
