"""A few pods on nodes, in all ways: where the largest goes first, and on the fullest node first."""

from collections.abc import Mapping, Sequence

import numpy as np

from fairlead.cluster.arrays import NodeMask
from fairlead.cluster.cluster import Cluster
from fairlead.cluster.trial import Trial
from fairlead.engine import reservations
from fairlead.engine.consolidation.movable import requested_milli
from fairlead.model.pods import Pod
from fairlead.placement.place import Placement

#: Placements that are tried in all, and nodes for one pod.
_MOST_STEPS = 100
_MOST_NODES = 4


def place_in(
    trial: Trial, pod: Pod, placement: Placement, within: NodeMask | None = None
) -> str:  # fmt: skip
    """Places the pod in the trial, evicting no other; its node, or nothing."""
    found = placement.find(pod, within)
    if found is None:
        return ""
    steps = placement.steps(pod, found.node)
    steps += reservations.steps(found.node, found.grant)
    trial.assume(pod, found.node, found.grant)
    for step in steps:
        step.assume(trial, found.node)
    return found.node


class Packing:
    """It changes the trial that it is given, and nothing else."""

    def __init__(self, cluster: Cluster, placements: Mapping[str, Placement]) -> None:
        self._cluster = cluster
        self._placements = placements

    def nodes_for(self, trial: Trial, pods: Sequence[Pod]) -> dict[str, str] | None:
        """A node for each pod, which has it in the trial then; None if there is no way."""
        order = sorted(pods, key=lambda pod: (-requested_milli(pod.request), pod.key))
        found: dict[str, str] = {}
        return found if self._place_all(trial, order, found, _MOST_STEPS) >= 0 else None

    def _place_all(
        self, trial: Trial, pods: Sequence[Pod], found: dict[str, str], steps: int
    ) -> int:
        """Steps that are left; below 0 if there is no way, and nothing was placed."""
        if not pods:
            return steps
        pod, placement = pods[0], self._placements[pods[0].scheduler]
        for row in self._rows(pod, placement):
            start = trial.checkpoint()
            steps -= 1
            if steps > 0 and (node := place_in(trial, pod, placement, self._only(row))):
                found[pod.uid] = node
                left = self._place_all(trial, pods[1:], found, steps)
                if left >= 0:
                    return left
                steps = -left - 1
            trial.rollback(start)
        return -steps - 1

    def _rows(self, pod: Pod, placement: Placement) -> list[int]:
        """Those that it fits, the fullest first."""
        rows = np.flatnonzero(placement.view(pod).left)
        free, _ = self._cluster.nodes.free_gpus()
        found: list[int] = rows[np.argsort(free[rows], kind="stable")][:_MOST_NODES].tolist()
        return found

    def _only(self, row: int) -> NodeMask:
        mask = np.zeros(self._cluster.columns.size, dtype=np.bool_)
        mask[row] = True
        return mask
