"""Members move to another gang when the tree changes that their object is part of."""

from collections.abc import Iterator, Mapping

from fairlead.cluster.cluster import Cluster
from fairlead.engine.gang_trees import GangTrees, leaf_name
from fairlead.model.gangs import GangSpec
from fairlead.model.pods import Pod
from fairlead.queue.entries import Pool
from fairlead.queue.queue import SchedulingQueue
from fairlead.queue.units import Gang


class GangMoves:
    """Which members are in a gang that they do not belong to any more."""

    def __init__(self, cluster: Cluster, queue: SchedulingQueue, trees: GangTrees) -> None:
        self._cluster = cluster
        self._queue = queue
        self._trees = trees
        #: By the gang that they are in, the keys of the objects whose pods move.
        self._due: dict[str, set[str]] = {}

    def gangs_of(self, key: str, spec: GangSpec | None) -> dict[str, str]:
        """The gang of each object that may belong to another if this one comes, changes or goes."""
        if not self._trees.is_tree(key) and not _is_part(self._trees.get(key), spec):
            return {}
        names = {key, *(leaf.key for leaf in self._trees.leaves(key))}
        return {name: self._trees.root_of(name) for name in names}

    def note(self, before: Mapping[str, str]) -> None:
        """The tree has changed: members whose gang was another one before are to move."""
        for named, gang in before.items():
            if self._trees.root_of(named) != gang:
                self._due.setdefault(gang, set()).add(named)

    def take(self, key: str) -> list[Pod]:
        """The members that move from this gang, as members of their new one.

        None as long as it is being bound or released.
        """
        entry = self._queue.gang(key) if key in self._due else None
        if entry is None or entry.pool is Pool.NONE:
            return []
        gang, names = entry.unit, self._due.pop(key)
        assert isinstance(gang, Gang)
        found = [*gang.pending, *self._with_node(gang, {leaf_name(name) for name in names} | {""})]
        moving = (pod for pod in found if pod.gang and (pod.gang.part or pod.gang.gang) in names)
        return [self._trees.resolved(pod) for pod in moving]

    def _with_node(self, gang: Gang, groups: set[str]) -> Iterator[Pod]:
        for uid in [uid for uid, group in gang.placed.items() if group in groups]:
            held = self._cluster.holdings.get(uid)
            if held is None:  # it has finished; the driver finds it again
                self._queue.remove(uid)
            elif held.pod.gang:
                held.pod = self._trees.resolved(held.pod)
                yield held.pod


def _is_part(*specs: GangSpec | None) -> bool:
    return any(spec is not None and spec.part_of for spec in specs)
