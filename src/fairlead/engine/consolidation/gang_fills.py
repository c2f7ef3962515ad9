"""Gangs in the trials of consolidation: placed by the same rules as in an attempt."""

from collections.abc import Mapping

from fairlead.cluster.arrays import NodeMask
from fairlead.cluster.cluster import Cluster
from fairlead.cluster.trial import Trial
from fairlead.engine.gang_topology_trials import TopologyTrials
from fairlead.engine.gang_trials import BeyondQuota, Filling, GangTrials, KnowsPlaces, ordered
from fairlead.placement.gang_part import has_topology
from fairlead.placement.place import Placement
from fairlead.queue.units import Gang


class GangFills:
    """It changes the trial that it is given, and nothing else."""

    def __init__(
        self,
        cluster: Cluster,
        placements: Mapping[str, Placement],
        beyond_quota: BeyondQuota,
    ) -> None:
        self._trials = GangTrials(cluster, placements, beyond_quota)
        self._topology = TopologyTrials(cluster, placements, self._trials)

    def fill(self, trial: Trial, gang: Gang, known: KnowsPlaces | None = None) -> Filling:
        """All that it needs, or none; `known`: where its pods were placed in earlier turns."""
        self._trials.known = known
        try:
            return self._fill(trial, gang)
        finally:
            self._trials.known = None

    def _fill(self, trial: Trial, gang: Gang) -> Filling:
        if has_topology(gang.spec):
            return self._topology.best(trial, gang, 0.0)
        return self._trials.best(trial, gang)

    def fill_partly(self, trial: Trial, gang: Gang, within: NodeMask | None) -> Filling:
        """As many as there is room for, by no rule of topology."""
        order = ordered(gang)
        masks = None if within is None else {pod.uid: within for pod in order}
        filling = Filling.of(gang, order, masks)
        self._trials.fill(trial, filling, len(order))
        return filling
