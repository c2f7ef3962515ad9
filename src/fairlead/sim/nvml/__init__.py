"""An imagined NVML, held to what a real H200 answered (`tests/sim/test_nvml.py`).

`machine_of(8, wiring="switch")` is a machine; `FakeNvml(machine)` is the library on it. With
`FileStore(path, machine)` in place of the machine several programs share it, and it outlives them.
"""

from fairlead.sim.nvml.library import FakeNvml
from fairlead.sim.nvml.machine import FakeGpu, FakeMachine, FakeProcess, Fault, machine_of
from fairlead.sim.nvml.store import FileStore

__all__ = ["FakeGpu", "FakeMachine", "FakeNvml", "FakeProcess", "Fault", "FileStore", "machine_of"]
