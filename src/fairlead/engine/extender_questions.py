"""What HTTP extenders were asked about one pod so far, and what they answered."""

from dataclasses import field

import numpy as np

from fairlead.cluster.cluster import Cluster
from fairlead.cluster.extended_rows import ExtendedRows
from fairlead.model.errors import FairleadError
from fairlead.model.http_extenders import ExtenderAnswer
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.pods import Pod
from fairlead.queue.entries import Entry


class ExtenderFailed(FairleadError):
    """An extender that is not ignorable gave no answer."""


@dataclass(slots=True)
class PodQuestion:
    pod: Pod
    #: Of the pod, or of its gang.
    entry: Entry
    #: How often the cluster had improved when it was first asked about.
    asked_at: int
    accepted: dict[str, float] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    unresolvable: set[str] = field(default_factory=set)
    error: str = ""
    #: Answers so far: one about the best nodes, then others if those are not enough.
    rounds: int = 0

    def take(self, answer: ExtenderAnswer) -> None:
        self.error, self.rounds = answer.error, self.rounds + 1
        self.accepted |= {node: answer.scores.get(node, 0.0) for node in answer.accepted}
        self.refused |= answer.refused
        self.unresolvable |= answer.unresolvable

    @property
    def known(self) -> int:
        """Nodes that were asked about."""
        return len(self.accepted) + len(self.refused)

    def accepted_rows(self, cluster: Cluster) -> ExtendedRows:
        """Where it may go: what the extenders accept, with their points."""
        scores = np.zeros(cluster.columns.size)
        for node, points in self.accepted.items():
            if node in cluster.row_of:
                scores[cluster.row_of[node]] = points
        rows = cluster.nodes.named(self.accepted)
        return ExtendedRows(rows, scores, self._reasons(cluster), self._unresolvable(cluster))

    def rows_not_refused(self, cluster: Cluster) -> ExtendedRows:
        """The same, with what they were not asked about."""
        rows = ~cluster.nodes.named(self.refused)
        return ExtendedRows(rows, None, self._reasons(cluster), self._unresolvable(cluster))

    def _reasons(self, cluster: Cluster) -> dict[int, str]:
        row_of = cluster.row_of
        return {row_of[node]: text for node, text in self.refused.items() if node in row_of}

    def _unresolvable(self, cluster: Cluster) -> frozenset[int]:
        row_of = cluster.row_of
        return frozenset(row_of[node] for node in self.unresolvable if node in row_of)
