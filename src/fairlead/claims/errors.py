"""Why nothing can be allocated, where it is not simply that no device is left.

FairleadError
├── AllocationError     stops the attempt on all nodes; the text is kube-scheduler's
│   └── SearchLimit     the search took too long
├── InvalidPools        only this node is refused: pools there are invalid
└── LookUnfinished      the turn is over; what was found is kept, and the next turn goes on
"""

from fairlead.model.errors import FairleadError


class AllocationError(FairleadError):
    """The attempt stops, on all nodes."""


class SearchLimit(AllocationError):
    """The search took more steps than it may."""


class InvalidPools(FairleadError):
    """Nothing was found, and some pools of the node could not be looked at."""

    def __init__(self) -> None:
        super().__init__("invalid resource pools were encountered")


class LookUnfinished(FairleadError):
    """More was to be looked at than one turn allows."""

    def __init__(self) -> None:
        super().__init__("not all devices were looked at yet")
