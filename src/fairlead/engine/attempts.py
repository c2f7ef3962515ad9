"""One attempt to schedule a pod, and what came of it."""

from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple

from fairlead.engine.instructions import Instruction
from fairlead.model.pods import Pod


class Outcome(Enum):
    """As kube-scheduler's metrics call it."""

    SCHEDULED = "scheduled"  #: a node was found, and the bind is under way
    UNSCHEDULABLE = "unschedulable"  #: no node fits
    ERROR = "error"  #: there is no verdict: a plugin failed, or the scheduler did


class Attempt(NamedTuple):
    pod: Pod
    outcome: Outcome
    #: What the driver is to do about it, in this order.
    instructions: Sequence[Instruction]
