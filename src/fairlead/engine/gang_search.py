"""Nodes for a gang in a trial: by topology rules where it has some, else by scores."""

from collections.abc import Mapping

from fairlead.cluster.cluster import Cluster
from fairlead.cluster.trial import Trial
from fairlead.engine.gang_admission import shortage
from fairlead.engine.gang_topology_trials import TopologyPatience, TopologyTrials
from fairlead.engine.gang_trials import BeyondQuota, Filling, GangTrials, OtherModels
from fairlead.engine.later_alternatives import LaterAlternatives
from fairlead.placement.gang_part import has_topology
from fairlead.placement.gang_room import GangRoom
from fairlead.placement.place import Placement
from fairlead.queue.queue import SchedulingQueue
from fairlead.queue.units import Gang

#: What one setting of alternatives may cost before no other orders are tried for it.
_SETTING_WORK = 10_000
_ANY_WORK = 1 << 62


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
        #: Whether later alternatives of claims are tried, where profiles allow it: not for gangs
        #: that HTTP extenders are asked about, which know only of the first ones.
        self.tries_later = True
        self._alternatives = LaterAlternatives(cluster, placements)
        self._placements = placements

    def best(self, trial: Trial, gang: Gang, now: float, room: GangRoom | None = None) -> Filling:
        """`room`: what is known already of the requests of its pods."""
        if not self.tries_later:
            return self.plain(trial, gang, now, room)
        return self._with_alternatives(self._alternatives, trial, gang, now, room)

    def asked(self, trial: Trial, gang: Gang, now: float) -> Filling:
        """The same, for a question: later searches go on as if it had not been made."""
        alternatives = LaterAlternatives(self._cluster, self._placements)
        return self._with_alternatives(alternatives, trial, gang, now, None)

    def _with_alternatives(
        self,
        alternatives: LaterAlternatives,
        trial: Trial,
        gang: Gang,
        now: float,
        room: GangRoom | None,
    ) -> Filling:
        """If it does not fit, with later alternatives of its claims, where profiles allow it."""
        nearest, begun_at = alternatives.nearest(gang), self._cluster.work.spent
        if nearest is None:
            nearest = self.plain(trial, gang, now, room)
            if nearest.succeeded or not alternatives.may_help(gang, nearest):
                return nearest

        def place() -> Filling:
            self.trials.gives_reasons = False
            try:
                return self.plain(trial, gang, now, work=_SETTING_WORK)
            finally:
                self.trials.gives_reasons = True

        return alternatives.search(trial, gang, nearest, place, now, begun_at)

    def plain(
        self,
        trial: Trial,
        gang: Gang,
        now: float,
        room: GangRoom | None = None,
        work: int = _ANY_WORK,
    ) -> Filling:
        """With the first alternatives of its claims."""
        if has_topology(gang.spec):
            return self.topology.best(trial, gang, self.patience.waited_s(gang.key, now), room)
        return self.trials.best(trial, gang, work)

    def shortage(self, gang: Gang) -> str:
        """Which sum that the gang needs is not free; empty if none."""
        lack = "" if gang.placed else shortage(self._cluster, gang.spec, {})
        return f"gang {gang.spec.name}: {lack}." if lack else ""
