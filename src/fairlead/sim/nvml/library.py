"""An NVML without a GPU: an object with the functions, constants and errors of `pynvml`.

Programs that take it as an object cannot distinguish it from the module. Functions that are not
imitated are not found, as with an old driver.
"""

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import pynvml

from fairlead.sim.nvml import mig, modes, readings, wiring
from fairlead.sim.nvml.machine import FakeMachine, Fault
from fairlead.sim.nvml.sessions import CALLS, Handles, Session, refuse
from fairlead.sim.nvml.store import MachineStore, MemoryStore

#: Each of these files fills the table of calls.
ROOMS = (mig, modes, readings, wiring)

_HANG_S = 3600.0
_POLL_S = 0.01
_HELPERS = ("nvmlStruct", "nvmlFriendly", "nvmlException")
#: Texts that the module asks the real library for.
_TEXTS = {19: "In use by another client", 23: "Insufficient Resources"}
#: Told before and after each call what its name is, and whether it is over.
Witness = Callable[[str, bool], None]


class FakeNvml:
    """A program's copy of the library; the machine is the driver's.

    The witness may raise: that is how a test kills a program between two calls.
    """

    def __init__(self, store: MachineStore | FakeMachine, witness: Witness | None = None) -> None:
        self._store = MemoryStore(store) if isinstance(store, FakeMachine) else store
        self._witness = witness or (lambda _name, _over: None)
        self._handles = Handles()
        #: The driver's life that it was initialised in; None before.
        self._life: int | None = None
        for code, text in _TEXTS.items():
            pynvml.NVMLError._errcode_to_string.setdefault(code, text)

    def __getattr__(self, name: str) -> Any:
        if name in CALLS:
            return partial(self._called, name)
        found = getattr(pynvml, name)
        if name.startswith("nvml") and callable(found) and not name.startswith(_HELPERS):
            return _not_found
        return found

    # -- the library itself ------------------------------------------------------------------------

    def nvmlInit(self) -> None:  # noqa: N802
        self.nvmlInitWithFlags(0)

    def nvmlInitWithFlags(self, _flags: int) -> None:  # noqa: N802
        self._witness("nvmlInitWithFlags", False)
        self._fail("nvmlInitWithFlags", "")
        with self._store.open() as machine:
            if not machine.loaded:
                raise refuse(pynvml.NVML_ERROR_DRIVER_NOT_LOADED)
            self._life = machine.life
        self._witness("nvmlInitWithFlags", True)

    def nvmlShutdown(self) -> None:  # noqa: N802
        if self._life is None:
            raise refuse(pynvml.NVML_ERROR_UNINITIALIZED)
        self._life = None
        self._handles = Handles()

    def nvmlEventSetWait_v2(self, events: Any, timeout_ms: int) -> Any:  # noqa: N802
        """Waits for real, outside the driver: others go on meanwhile."""
        end_s = time.monotonic() + timeout_ms / 1000
        while True:
            found = self._called("nvmlEventSetPoll", events)
            if found is not None:
                return found
            if time.monotonic() >= end_s:
                raise refuse(pynvml.NVML_ERROR_TIMEOUT)
            time.sleep(min(_POLL_S, timeout_ms / 1000))

    nvmlEventSetWait = nvmlEventSetWait_v2  # noqa: N815

    # -- every call --------------------------------------------------------------------------------

    def _called(self, name: str, *args: Any, **options: Any) -> Any:
        self._witness(name, False)
        self._fail(name, self._about(args))
        with self._store.open() as machine:
            self._alive(machine)
            answer = CALLS[name](Session(machine, self._handles), *args, **options)
        self._witness(name, True)
        return answer

    def _alive(self, machine: FakeMachine) -> None:
        if self._life is None or self._life != machine.life:
            raise refuse(pynvml.NVML_ERROR_UNINITIALIZED)
        if not machine.loaded:
            raise refuse(pynvml.NVML_ERROR_DRIVER_NOT_LOADED)

    def _about(self, args: tuple[Any, ...]) -> str:
        """The GPU that a call is about, by its first argument."""
        if not args or isinstance(args[0], int | str):
            return ""
        try:
            return self._handles.key(args[0])[1]
        except pynvml.NVMLError:
            return ""

    def _fail(self, name: str, uuid: str) -> None:
        """Faults happen outside the driver: one that hangs does not block other callers."""
        with self._store.open() as machine:
            fault = next((one for one in machine.faults if _meets(one, name, uuid)), None)
            if fault is None:
                return
            fault.times -= fault.times > 0
        if fault.hangs:
            time.sleep(_HANG_S)
        if fault.error:
            raise refuse(fault.error)


def _meets(fault: Fault, name: str, uuid: str) -> bool:
    return fault.times != 0 and fault.call in {"", name} and fault.uuid in {"", uuid}


def _not_found(*_args: Any, **_options: Any) -> Any:
    raise refuse(pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)
