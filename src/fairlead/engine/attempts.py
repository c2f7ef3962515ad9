"""One attempt to schedule a unit, and what came of it."""

from collections.abc import Mapping, Sequence
from enum import Enum
from types import MappingProxyType
from typing import NamedTuple

from fairlead.engine.instructions import Instruction
from fairlead.queue.units import Unit


class Outcome(Enum):
    """As kube-scheduler's metrics call it; HELD_BACK and UNFINISHED are not known there."""

    SCHEDULED = "scheduled"  #: a node was found, and the bind is under way
    UNSCHEDULABLE = "unschedulable"  #: no node fits
    HELD_BACK = "held_back"  #: a quota does not admit the pod, whatever the nodes
    UNFINISHED = "unfinished"  #: a gang or its claims take more than one turn: more follows
    ERROR = "error"  #: there is no verdict: a plugin failed, or the scheduler did


class Attempt(NamedTuple):
    unit: Unit
    outcome: Outcome
    #: What the driver is to do about it, in this order.
    instructions: Sequence[Instruction]
    #: Of a gang with topology rules that was placed: domains that it spans, by level.
    spans: Mapping[str, int] = MappingProxyType({})
