"""The nodes that a pod may be placed on: all, or some, such as a rack or an NVLink domain."""

import numpy as np

from fairlead.cluster.arrays import NodeMask
from fairlead.cluster.cluster import Cluster
from fairlead.model.pods import Pod


class Scope:
    """Rules answer for all nodes, whatever the scope: views are shared. Only the choice is limited.

    A rule about the whole cluster, such as topology spread, still counts pods outside the scope.
    """

    __slots__ = ("_cluster", "_within")

    def __init__(self, cluster: Cluster, within: NodeMask | None = None) -> None:
        """Without a mask, all nodes."""
        assert within is None or len(within) == cluster.columns.size, "one entry for each row"
        self._cluster = cluster
        self._within = within

    def __len__(self) -> int:
        """Nodes in it."""
        return len(self._cluster) if self._within is None else int(self.rows().sum())

    @property
    def whole(self) -> bool:
        """Are these all nodes?"""
        return self._within is None

    def rows(self) -> NodeMask:
        """True for the nodes in it; a copy."""
        present = self._cluster.nodes.present().copy()
        return present if self._within is None else present & self._within

    def nominated_row(self, pod: Pod) -> int | None:
        """The row that the pod is nominated for, if it is one of these."""
        row = self._cluster.row_of.get(self._cluster.nominations.node_of(pod.uid))
        outside = row is not None and self._within is not None and not self._within[row]
        return None if outside else row

    def refusing(self, refused: NodeMask | None) -> NodeMask | None:
        """The nodes that are refused besides those that filters refuse; None if there are none."""
        if self._within is None:
            return refused
        outside: NodeMask = np.logical_not(self._within)
        return outside if refused is None else outside | refused
