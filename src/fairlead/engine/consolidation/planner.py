"""The cheapest moves that let a waiting unit start, found in trials that are undone.

Sets of units to move are tried in the order of the GPUs that they hold. Where a pod finds no node,
be it of the waiting unit or of one that left, the set is tried again with more units: those that
make room for this pod. The first set that works is the plan.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import field
from typing import NamedTuple

from fairlead.cluster.cluster import Cluster
from fairlead.cluster.trial import Trial
from fairlead.engine.consolidation.domains import domains_of
from fairlead.engine.consolidation.free_gpus import FreeGpus, free_gpus
from fairlead.engine.consolidation.frontier import Candidate, Frontier, Units
from fairlead.engine.consolidation.movable import Movability, gpu_milli, requested_milli
from fairlead.engine.consolidation.plans import ConsolidationPlan, Move, NoConsolidation
from fairlead.engine.consolidation.rooms import Rooms, RoomsOfNodes
from fairlead.engine.consolidation.simulation import FillsGangs, Simulated, Simulation
from fairlead.model.consolidation import MoveLimits
from fairlead.model.gpus import WHOLE
from fairlead.model.lazy_dataclass import dataclass
from fairlead.placement.place import Placement
from fairlead.queue.units import Unit


class Effort(NamedTuple):
    """Sets of units that one search tries, and what it may cost (see `Work.spent`)."""

    most_tried: int
    most_work: int


USUAL = Effort(200, 80_000)
#: To mention moves in an explanation of something else.
EXPLAINED = Effort(20, 20_000)

#: Units that are tried to be left where they are, once a plan is found.
_MOST_SPARED = 16
#: Equal sets of pods that found no places elsewhere, on as many nodes, are not tried on others.
_ENOUGH_FAILED = 8


@dataclass(slots=True)
class _Course:
    """How the search for one unit goes."""

    unit: Unit
    gain_gpu_s: float
    rooms: RoomsOfNodes
    free: FreeGpus | None = None
    #: How often pods with these requests together found no places elsewhere.
    failed: Counter[tuple[int, ...]] = field(default_factory=Counter)
    #: The least that a set loses which loses too much, and whether one moves too many pods.
    too_dear: float | None = None
    too_many: bool = False


class ConsolidationPlanner:
    """Looks for plans. It changes nothing."""

    def __init__(
        self,
        cluster: Cluster,
        placements: Mapping[str, Placement],
        gangs: FillsGangs,
        movability: Movability,
        limits: MoveLimits,
        effort: Effort = USUAL,
    ) -> None:
        self._cluster = cluster
        self._placements = placements
        self._simulation = Simulation(cluster, placements, gangs)
        self._movability = movability
        self._limits = limits
        self._effort = effort

    def plan(self, unit: Unit) -> ConsolidationPlan | NoConsolidation:
        """Moves that let the unit start, or why there are none."""
        asked = sum(requested_milli(pod.request) for pod in unit.pods)
        if not asked:
            return NoConsolidation("it asks for no GPUs")
        rooms = RoomsOfNodes(self._cluster, self._movability, unit.priority)
        course = _Course(unit, asked / WHOLE * self._limits.horizon_s, rooms)
        with self._cluster.trial() as trial:
            return self._search(trial, course)

    def _search(self, trial: Trial, course: _Course) -> ConsolidationPlan | NoConsolidation:
        work = self._cluster.work
        until = work.spent + self._effort.most_work
        frontier = Frontier(
            lambda units: self._allows(course, units), lambda: work.spent > until
        )  # fmt: skip
        if not self._begin(trial, course, frontier):
            return NoConsolidation("it fits as things are")
        for _ in range(self._effort.most_tried):
            candidate = frontier.pop()
            if candidate is None:
                return NoConsolidation(self._why_none(course), cut_short=work.spent > until)
            found = self._simulate(trial, course, frontier, candidate)
            if found.stuck is None:
                units = candidate.units
                if sum(unit.milli for unit in units) > (frontier.least or 0):
                    units, found = self._sparing(trial, course, units, found)
                return self._planned(course, units, found)
        return NoConsolidation(self._why_none(course), cut_short=True)

    def _begin(self, trial: Trial, course: _Course, frontier: Frontier) -> bool:
        """The first branches: one, or one for each domain. False if the unit fits."""
        for within in domains_of(course.unit, self._cluster, self._placements):
            candidate = Candidate(frozenset(), within)
            if self._simulate(trial, course, frontier, candidate).stuck is None:
                return False
        return True

    def _simulate(
        self, trial: Trial, course: _Course, frontier: Frontier, candidate: Candidate
    ) -> Simulated:
        """Tries a set; if it is not enough, larger ones are next."""
        found = self._simulation.run(trial, course.unit, candidate.units, candidate.within)
        rooms = self._rooms(course, candidate, found)
        trial.rollback()
        if rooms is not None:
            if not found.waiting:
                course.failed[_composition(candidate.units)] += 1
            frontier.extend(candidate.units, rooms, found.missing, candidate.within)
        return found

    def _rooms(self, course: _Course, candidate: Candidate, found: Simulated) -> Rooms | None:
        """For the pod that found no node, as the trial has it."""
        pod = found.stuck
        if pod is None:
            return None
        rooms = Rooms(
            pod, self._placements[pod.scheduler], self._cluster, course.rooms,
            without=frozenset(unit.key for unit in candidate.units),
            within=candidate.within if found.waiting else None,
            moves=not found.waiting,
        )  # fmt: skip
        if not found.waiting:
            return rooms
        free = free_gpus(pod, found.missing, rooms.usable, self._cluster)
        course.free = course.free or free
        return rooms if free.is_enough else None

    def _allows(self, course: _Course, units: Units) -> bool:
        """Whether a set may be moved, whatever it helps."""
        self._cluster.work.pods += 10 + len(units)
        lost_gpu_s = sum(unit.lost_gpu_s for unit in units)
        if lost_gpu_s >= min(course.gain_gpu_s, self._limits.most_gpu_seconds):
            course.too_dear = min(lost_gpu_s, course.too_dear or lost_gpu_s)
            return False
        if sum(len(unit.members) for unit in units) > self._limits.most_moves:
            course.too_many = True
            return False
        if course.failed[_composition(units)] >= _ENOUGH_FAILED:
            return False
        return self._movability.are_allowed(units)

    def _sparing(
        self, trial: Trial, course: _Course, units: Units, found: Simulated
    ) -> tuple[Units, Simulated]:
        """Without units whose move is of no use."""
        for unit in sorted(units, key=lambda unit: (-unit.milli, unit.key))[:_MOST_SPARED]:
            fewer = units - {unit}
            less = self._simulation.run(trial, course.unit, fewer, None)
            trial.rollback()
            if less.stuck is None:
                units, found = fewer, less
        return units, found

    def _planned(self, course: _Course, units: Units, found: Simulated) -> ConsolidationPlan:
        moves = [
            Move(held.pod, held.node, found.targets[held.pod.uid], gpu_milli(held))
            for unit in sorted(units, key=lambda unit: unit.key)
            for held in unit.members
        ]
        lost_gpu_s = sum(unit.lost_gpu_s for unit in units)
        return ConsolidationPlan(
            course.unit.key, tuple(found.starts), tuple(moves), lost_gpu_s, course.gain_gpu_s
        )

    def _why_none(self, course: _Course) -> str:
        if course.free is None:
            return "no node has the label of its topology level"
        said = [course.free.message]
        if not course.free.usable:
            return "no node could have it, however empty"
        if not course.free.is_enough:
            return f"{said[0]}: too few in sum, so no move helps"
        if course.too_dear is not None:
            said.append(
                f"moves would lose {course.too_dear:.0f} GPU-seconds or more, and at most "
                f"{min(course.gain_gpu_s, self._limits.most_gpu_seconds):.0f} may be lost"
            )
        if course.too_many:
            said.append(f"moves of more than {self._limits.most_moves} pods are not planned")
        against = course.rooms.against.most_common(3)
        said += [f"{count} pod(s) {why}" for why, count in against]
        return "; ".join(said) if len(said) > 1 else f"{said[0]}; no moves were found that help"


def _composition(units: Units) -> tuple[int, ...]:
    """Equal for sets of pods with the same requests."""
    return tuple(sorted(hash(held.pod.request) for unit in units for held in unit.members))
