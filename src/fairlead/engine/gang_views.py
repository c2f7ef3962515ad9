"""Gangs whose pods have many different requests: what they ask for is looked up over several turns.

Each request has a view, and a view costs as much as the cluster has nodes. So before such a gang is
tried, its views are made, some in each turn; no other unit is tried meanwhile. Where there are more
requests than views that are kept, the gang is placed in slices.
"""

from collections import Counter
from collections.abc import Mapping

from fairlead.cluster.cluster import Cluster
from fairlead.engine import gang_flights
from fairlead.model.pods import Pod, PodRequest
from fairlead.placement.gang_part import has_many_parts, has_topology
from fairlead.placement.gang_room import GangRoom
from fairlead.placement.place import Placement
from fairlead.queue.entries import Entry
from fairlead.queue.units import Gang

#: Different requests that the pods of one gang may have.
MOST_REQUESTS = 2000
#: What making views may cost in one turn (see `Work.spent`).
WORK = 20_000
#: To place a member costs as much as so many goals for it; more by topology rules, or if it has
#: parts of GPUs or claims.
_PER_POD = 5
_PER_RULE = 10
_PER_PART = 5
_PER_CLAIM = 50


class GangViews:
    """Of one gang at a time."""

    def __init__(self, cluster: Cluster, placements: Mapping[str, Placement]) -> None:
        self._cluster = cluster
        self._placements = placements
        #: A gang that is tried once its views are made, and one pod for each view to make.
        self.entry: Entry | None = None
        self._left: list[Pod] = []
        #: How many different requests it has.
        self.count = 0
        #: For topology rules: what is free for each request.
        self.room: GangRoom | None = None

    def begin(self, entry: Entry, gang: Gang, requests: Mapping[PodRequest, Pod]) -> None:
        self.count = len(requests)
        self.entry, self._left = entry, [*requests.values()][::-1]
        self.room = GangRoom(self._cluster) if has_topology(gang.spec) else None

    @property
    def are_made(self) -> bool:
        return not self._left

    def go_on(self) -> None:
        """Makes some more."""
        work, until = self._cluster.work, self._cluster.work.spent + WORK
        while self._left and work.spent < until:
            pod = self._left.pop()
            placement = self._placements[pod.scheduler]
            try:
                self.room.know(pod, placement) if self.room else placement.view(pod)
            except Exception:  # the attempt itself fails, where it is reported
                self._left.clear()

    def end(self) -> GangRoom | None:
        room, self.entry, self.room = self.room, None, None
        self._left.clear()
        return room

    def requests(self, gang: Gang) -> tuple[dict[PodRequest, Pod], Counter[PodRequest]]:
        """The different requests, each with the first pod that has it, and how many have it."""
        found: dict[PodRequest, Pod] = {}
        counts: Counter[PodRequest] = Counter()
        for pod in gang.pods:
            request = self._placements[pod.scheduler].request(pod)
            found.setdefault(request, pod)
            counts[request] += 1
        return found, counts

    def are_needed(self, gang: Gang, requests: int) -> bool:
        """Whether what is looked up is still there when the gang is tried."""
        return requests > 1 and (has_topology(gang.spec) or not self.is_large(gang, requests))

    def is_large(self, gang: Gang, requests: int) -> bool:
        """Whether it is placed in slices."""
        if len(gang.pods) > gang_flights.SLICE or has_many_parts(gang.spec, len(self._cluster)):
            return True
        return requests > self._placements[gang.pod.scheduler].views_kept // 2

    def is_costly(self, gang: Gang) -> bool:
        """Whether goals, parts of GPUs or claims make it as costly as a large one."""
        goals = self._placements[gang.pod.scheduler].profile.goals
        parts = sum(pod.request.gpu_request is not None for pod in gang.pods)
        claims = sum(bool(pod.request.claims) for pod in gang.pods)
        each = _PER_POD + (len(goals.all) if goals else 0)
        each += _PER_RULE if has_topology(gang.spec) and (goals or parts or claims) else 0
        more = parts * _PER_PART + claims * _PER_CLAIM
        return len(gang.pods) * each + more > _PER_POD * gang_flights.SLICE
