"""The imagined NVML, asked in this process: for all but what hangs."""

import msgspec

from fairlead.sim.nvml import FakeMachine, FakeNvml
from fairlead.telemetry.nvml.process import Nvml
from fairlead.telemetry.nvml.survey import Surveyor
from fairlead.telemetry.nvml.worker import Answer, Desk, Question


class AtDesk(Nvml):
    """Speaks with a desk as it would with a process; what a process ends with, ends here, too."""

    def __init__(self, machine: FakeMachine) -> None:
        super().__init__()
        self.machine = machine
        self.desk: Desk | None = None

    async def _exchange(self, question: Question) -> bytes:
        if self.desk is None:
            self.desk = Desk(FakeNvml(self.machine))
            self.starts += 1
        line = msgspec.json.encode(question)
        answer: Answer = self.desk.answer(msgspec.json.decode(line, type=Question))
        return msgspec.json.encode(answer) + b"\n"

    def _drop(self) -> None:
        self.desk = None


class Clock:
    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


def a_surveyor(machine: FakeMachine) -> tuple[Surveyor, AtDesk, Clock]:
    desk, clock = AtDesk(machine), Clock()
    return Surveyor(desk, clock), desk, clock
