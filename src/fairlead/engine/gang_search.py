"""Nodes for a gang in a trial: by topology rules where it has some, else by scores."""

from collections.abc import Mapping

from fairlead.cluster.cluster import Cluster
from fairlead.cluster.trial import Trial
from fairlead.engine.gang_admission import shortage
from fairlead.engine.gang_topology_trials import TopologyPatience, TopologyTrials
from fairlead.engine.gang_trials import BeyondQuota, Filling, GangTrials, OtherModels
from fairlead.placement.gang_part import has_topology
from fairlead.placement.gang_room import GangRoom
from fairlead.placement.place import Placement
from fairlead.queue.queue import SchedulingQueue
from fairlead.queue.units import Gang


class GangSearch:
    """It changes the trial that it is given, and nothing else."""

    def __init__(
        self,
        cluster: Cluster,
        queue: SchedulingQueue,
        placements: Mapping[str, Placement],
        beyond_quota: BeyondQuota,
        other_models: OtherModels | None = None,
    ) -> None:
        self._cluster = cluster
        self.trials = GangTrials(cluster, placements, beyond_quota, other_models)
        self.topology = TopologyTrials(cluster, placements, self.trials)
        self.patience = TopologyPatience(queue)

    def best(self, trial: Trial, gang: Gang, now: float, room: GangRoom | None = None) -> Filling:
        """`room`: what is known already of the requests of its pods."""
        if has_topology(gang.spec):
            return self.topology.best(trial, gang, self.patience.waited_s(gang.key, now), room)
        return self.trials.best(trial, gang)

    def shortage(self, gang: Gang) -> str:
        """Which sum that the gang needs is not free; empty if none."""
        lack = "" if gang.placed else shortage(self._cluster, gang.spec, {})
        return f"gang {gang.spec.name}: {lack}." if lack else ""
