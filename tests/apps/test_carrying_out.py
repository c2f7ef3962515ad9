"""What becomes of the instructions of the engine."""

from typing import get_args

from fairlead.apps.run.carrying_out import CarryingOut
from fairlead.engine import instructions


def test_each_instruction_has_a_handler() -> None:
    carrying_out = CarryingOut(None, None, None, expects_variables=False, perform=print)

    assert set(carrying_out.handlers) == set(get_args(instructions.Instruction))
