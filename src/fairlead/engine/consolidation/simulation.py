"""One set of moves in a trial: units leave, the waiting unit starts, the units get other nodes."""

from collections.abc import Collection, Mapping
from dataclasses import field, replace
from typing import Protocol

from fairlead.cluster.arrays import NodeMask
from fairlead.cluster.cluster import Cluster
from fairlead.cluster.trial import Trial
from fairlead.engine.consolidation.movable import MovableUnit, gpu_milli
from fairlead.engine.consolidation.packing import Packing, place_in
from fairlead.engine.consolidation.plans import Start
from fairlead.engine.gang_trials import Filling
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.pods import Pod
from fairlead.placement.gang_part import has_topology
from fairlead.placement.place import Placement
from fairlead.queue.units import Gang, Unit

#: Up to so many pods are placed again in all ways.
_FEW = 2


class FillsGangs(Protocol):
    """Places the pods of a gang in a trial."""

    def fill(self, trial: Trial, gang: Gang) -> Filling:
        """All that it needs, or none."""
        ...

    def fill_partly(self, trial: Trial, gang: Gang, within: NodeMask | None) -> Filling:
        """As many as there is room for, by no rule of topology."""
        ...


@dataclass(slots=True)
class Simulated:
    """What became of the waiting unit and of those that left."""

    starts: list[Start] = field(default_factory=list)
    #: The new node of each pod that moves, by uid.
    targets: dict[str, str] = field(default_factory=dict)
    #: The pod that found no node, and how many pods of its unit need one.
    stuck: Pod | None = None
    missing: int = 1
    #: Whether it is one of the waiting unit.
    waiting: bool = False


class Simulation:
    """It changes the trial that it is given, and nothing else."""

    def __init__(
        self, cluster: Cluster, placements: Mapping[str, Placement], gangs: FillsGangs
    ) -> None:
        self._placements = placements
        self._gangs = gangs
        self._packing = Packing(cluster, placements)

    def run(
        self, trial: Trial, unit: Unit, leaving: Collection[MovableUnit], within: NodeMask | None
    ) -> Simulated:
        """What was placed stays in the trial, also if a pod found no node."""
        for each in leaving:
            for held in each.members:
                trial.evict(held.pod.uid)
        gone = trial.checkpoint()
        found = self._placed(trial, unit, leaving, within)
        if found.stuck is None or found.waiting or not _are_few_pods(unit, leaving):
            return found
        trial.rollback(gone)
        packed = self._packed(trial, unit, leaving)
        return packed or self._placed(trial, unit, leaving, within)

    def _placed(
        self, trial: Trial, unit: Unit, leaving: Collection[MovableUnit], within: NodeMask | None
    ) -> Simulated:
        """Each where the rules place it, the waiting unit first."""
        found = Simulated()
        if isinstance(unit, Gang):
            self._start_gang(trial, unit, found, within)
        else:
            self._start_pod(trial, unit.pod, found)
        if found.stuck is None:
            self._place_again(trial, leaving, found)
        return found

    def _packed(
        self, trial: Trial, unit: Unit, leaving: Collection[MovableUnit]
    ) -> Simulated | None:
        """In any way: the choice of the rules may leave gaps."""
        moved = [_pending(each.members[0].pod) for each in leaving]
        nodes = self._packing.nodes_for(trial, [*unit.pods, *moved])
        if nodes is None:
            return None
        starts = [Start(pod, nodes.pop(pod.uid)) for pod in unit.pods]
        return Simulated(starts, nodes)

    def _start_pod(self, trial: Trial, pod: Pod, found: Simulated) -> None:
        node = self._place(trial, pod)
        if node:
            found.starts.append(Start(pod, node))
        else:
            found.stuck, found.waiting = pod, True

    def _start_gang(
        self, trial: Trial, gang: Gang, found: Simulated, within: NodeMask | None
    ) -> None:
        filling = self._gangs.fill(trial, gang)
        if filling.succeeded:
            found.starts += [Start(each.pod, each.placed.node) for each in filling.placed]
            return
        filling = self._gangs.fill_partly(trial, gang, within)
        found.stuck = filling.first[0] if filling.first else gang.pod
        found.missing = max(1, gang.needed_with(filling.counts))
        found.waiting = True

    def _place_again(
        self, trial: Trial, leaving: Collection[MovableUnit], found: Simulated
    ) -> None:
        """The largest first; a unit that finds no node is tried before the others."""
        order = sorted(leaving, key=lambda unit: (-_largest(unit), unit.key))
        start = trial.checkpoint()
        for _ in range(len(order)):
            stuck = self._place_units(trial, order, found)
            if stuck is None:
                return
            if stuck is order[0]:
                break
            trial.rollback(start)
            order = [stuck, *(unit for unit in order if unit is not stuck)]
        else:
            self._place_units(trial, order, found)

    def _place_units(
        self, trial: Trial, order: list[MovableUnit], found: Simulated
    ) -> MovableUnit | None:
        """The first unit that finds no nodes."""
        found.targets.clear()
        found.stuck = None
        for unit in order:
            found.stuck = self._place_unit(trial, unit, found.targets)
            if found.stuck is not None:
                return unit
        return None

    def _place_unit(
        self, trial: Trial, unit: MovableUnit, targets: dict[str, str]
    ) -> Pod | None:  # fmt: skip
        """A pod of it that found no node."""
        pods = [_pending(held.pod) for held in unit.members]
        if unit.gang is None:
            node = self._place(trial, pods[0])
            targets[pods[0].uid] = node
            return None if node else pods[0]
        gang = Gang(unit.gang.spec)
        for pod in pods:
            gang.put(pod)
        filling = self._gangs.fill(trial, gang)
        targets.update((each.pod.uid, each.placed.node) for each in filling.placed)
        if filling.succeeded and len(filling.placed) == len(pods):
            return None
        return filling.first[0] if filling.first else pods[0]

    def _place(self, trial: Trial, pod: Pod) -> str:
        """Its node; empty if there is none."""
        return place_in(trial, pod, self._placements[pod.scheduler])


def _are_few_pods(unit: Unit, leaving: Collection[MovableUnit]) -> bool:
    """Whether all of them may be placed one by one: few pods without rules in common."""
    if isinstance(unit, Gang):
        few = len(unit.pods) <= _FEW and unit.needed == len(unit.pods)
        if not few or unit.spec.groups or has_topology(unit.spec):
            return False
    return 0 < len(leaving) <= _FEW and not any(each.gang for each in leaving)


def _pending(pod: Pod) -> Pod:
    """As its controller creates it again."""
    return replace(pod, node="", grant=None, started="", nominated="")


def _largest(unit: MovableUnit) -> int:
    return max(gpu_milli(held) for held in unit.members)
