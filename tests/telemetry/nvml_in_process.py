"""The simulated NVML in this process, for tests of everything but calls that hang."""

import msgspec

from fairlead.sim.nvml import FakeMachine, FakeNvml
from fairlead.telemetry.nvml.process import Nvml
from fairlead.telemetry.nvml.survey import Surveyor
from fairlead.telemetry.nvml.worker import NvmlAnswer, NvmlHandler, NvmlQuery


class InProcessNvml(Nvml):
    """Calls a handler in place of a process; dropping it ends the handler."""

    def __init__(self, machine: FakeMachine) -> None:
        super().__init__()
        self.machine = machine
        self.handler: NvmlHandler | None = None

    async def _exchange(self, query: NvmlQuery) -> bytes:
        if self.handler is None:
            self.handler = NvmlHandler(FakeNvml(self.machine))
            self.starts += 1
        line = msgspec.json.encode(query)
        answer: NvmlAnswer = self.handler.answer(msgspec.json.decode(line, type=NvmlQuery))
        return msgspec.json.encode(answer) + b"\n"

    def _drop(self) -> None:
        self.handler = None


class Clock:
    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


def a_surveyor(machine: FakeMachine) -> tuple[Surveyor, InProcessNvml, Clock]:
    handler, clock = InProcessNvml(machine), Clock()
    return Surveyor(handler, clock), handler, clock
