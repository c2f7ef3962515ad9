"""Gangs without pods and the queues of teams: whether they may have pods, and what that charges."""

from collections.abc import Iterator

from fairlead.cluster.charges import Charges
from fairlead.model.gangs import GangSpec
from fairlead.model.pods import Amounts, PodRequest
from fairlead.model.quantities import PODS
from fairlead.queue.queue import SchedulingQueue
from fairlead.queue.quotas.admitted import AdmittedGangs
from fairlead.queue.quotas.names import QueueNames
from fairlead.queue.quotas.policy import QueuePolicy
from fairlead.queue.quotas.tree import QueueTree
from fairlead.queue.units import Gang


class QueueAdmissions:
    def __init__(
        self, tree: QueueTree, names: QueueNames, charges: Charges, queue: SchedulingQueue
    ) -> None:
        self._tree = tree
        self._names = names
        self._charges = charges
        self._queue = queue
        self.gangs = AdmittedGangs(tree)
        #: None while there is no queue of a team.
        self.policy: QueuePolicy | None = None
        self.version = 0
        self.now = 0.0

    def beyond_quota(self, spec: GangSpec) -> str:
        """Why the gang is not admitted; empty if it may be."""
        if self.policy is None:
            return ""
        queue = self._names.of_gang(spec)
        refusal = self.policy.admits_gang(spec, queue, self._asked(spec)) if queue else None
        return refusal.message if refusal else ""

    def admitted(self, spec: GangSpec) -> None:
        queue = self._names.of_gang(spec) if self.policy is not None else ""
        if queue and any(map(self._charges_early, self._tree.lineage(queue))):
            self.gangs.charge(spec, queue, self._asked(spec), self.now)

    def forget(self, gang: str) -> None:
        """It is not there any more."""
        if self.gangs.end(gang) is not None:
            self.version += 1

    def ended(self, now: float) -> Iterator[str]:
        """Queues that are charged less: for gangs that have nodes, or had their time."""
        for gang in [gang for gang in self.gangs if self._has_nodes(gang)]:
            if (queue := self.gangs.end(gang)) is not None:
                yield queue
        yield from self.gangs.advance(now, lambda gang: self._queue.gang(gang) is not None)

    def _has_nodes(self, gang: str) -> bool:
        entry = self._queue.gang(gang)
        return entry is not None and isinstance(entry.unit, Gang) and bool(entry.unit.placed)

    def _charges_early(self, key: str) -> bool:
        spec = self._tree.get(key)
        return spec is not None and spec.charged_at_admission

    def _asked(self, spec: GangSpec) -> Amounts:
        asked = dict(self._charges.of_request(PodRequest(resources=spec.least_resources)))
        return tuple({**asked, PODS: spec.minimum}.items())
