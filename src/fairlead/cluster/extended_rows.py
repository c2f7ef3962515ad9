"""What HTTP extenders say of the nodes for the pod that is being placed."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field

import numpy as np

from fairlead.cluster.arrays import NodeMask, NodeScores
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.pods import PodRequest


@dataclass(frozen=True, slots=True)
class ExtendedRows:
    #: Where it may go, as far as extenders are concerned.
    rows: NodeMask
    #: What is added to the score of each row.
    scores: NodeScores | None = None
    #: Why not, by row; empty if an extender does not say.
    reasons: Mapping[int, str] = field(default_factory=dict)
    #: Rows where evicting pods would not help.
    unresolvable: frozenset[int] = frozenset()


class ExtendedMembers:
    """The same for the pods of the gang that is being placed; it is made when it is needed."""

    def __init__(
        self,
        make: Mapping[str, Callable[[], ExtendedRows]],
        requests: Callable[[], Mapping[PodRequest, Sequence[str]]],
    ) -> None:
        """By uid of the pod; and uids by request."""
        self._make = make
        self._requests = requests
        self._known: dict[str, ExtendedRows] = {}
        self._by_request: dict[PodRequest, NodeMask] | None = None

    def __contains__(self, uid: str) -> bool:
        return uid in self._make

    def of(self, uid: str) -> ExtendedRows | None:
        if uid not in self._known and uid in self._make:
            self._known[uid] = self._make[uid]()
        return self._known.get(uid)

    def rows_of(self, request: PodRequest) -> NodeMask | None:
        """Where all of its pods with such a request may go; None: anywhere."""
        if self._by_request is None:
            self._by_request = {
                each: np.logical_and.reduce([found.rows for uid in uids if (found := self.of(uid))])
                for each, uids in self._requests().items()
            }
        return self._by_request.get(request)
