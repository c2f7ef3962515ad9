"""What HTTP extenders say of the nodes for the pod that is being placed."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from fairlead.cluster.arrays import NodeMask, NodeScores
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


@dataclass(frozen=True, slots=True)
class ExtendedMembers:
    """The same for the pods of the gang that is being placed."""

    by_uid: Mapping[str, ExtendedRows]
    #: Where all of its pods with such a request may go.
    by_request: Mapping[PodRequest, NodeMask]
