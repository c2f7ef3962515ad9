"""Room that is held for a unit for which others were evicted, until it runs or a limit passes.

The nodes are held by nominations: pods that may not evict the unit leave the room free. A unit that
never uses its room gives it back after a limit, and may not ask for more for a while.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping

from fairlead.cluster import claiming
from fairlead.cluster.cluster import Cluster
from fairlead.model.claims import AllocatedDevice, ResourceClaim
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.pods import Pod

#: How long the room is held after the last victim is gone, and how long victims may take to go.
HELD_S = 300.0
VICTIMS_GO_S = 3600.0
#: After room that was not used, or an eviction that failed; doubled each time.
_PAUSE_S = 30.0
_LONGEST_PAUSE_S = 3600.0


@dataclass(slots=True, eq=False)
class Hold:
    """The room of one unit."""

    key: str
    #: The node of each of its pods, by uid.
    nodes: dict[str, str]
    #: Victims that are not gone yet, and claims that are not deallocated yet, by uid.
    victims: set[str]
    until_s: float
    #: How many victims there were, and how many claims of theirs are to be deallocated.
    evicted: int
    claims: int = 0


@dataclass(frozen=True, slots=True)
class _Pause:
    until_s: float
    length_s: float


class HeldRoom:
    """By the key of the unit."""

    def __init__(
        self, cluster: Cluster, has_devices: Callable[[str, float], None] = lambda _key, _now: None
    ) -> None:
        """`has_devices` is told which unit has all devices that it waited for, and when."""
        self._cluster = cluster
        self._has_devices = has_devices
        self._holds: dict[str, Hold] = {}
        #: The units that wait for each victim, by uid.
        self.goes_for: dict[str, set[str]] = {}
        self._pauses: dict[str, _Pause] = {}

    def __bool__(self) -> bool:
        return bool(self._holds)

    def __iter__(self) -> Iterator[Hold]:
        return iter(self._holds.values())

    def get(self, key: str) -> Hold | None:
        return self._holds.get(key)

    def begin(
        self,
        key: str,
        nodes: Mapping[str, tuple[Pod, str]],
        victims: Iterable[str],
        now: float,
        claims: Iterable[ResourceClaim] = (),
        devices: Iterable[AllocatedDevice] = (),
    ) -> None:
        """Nominates each pod for its node; `victims` and `claims` of theirs are still to go.

        What the claims free is kept for the unit, and so are those of the `devices` that are free.
        """
        self.drop(key)
        held_nodes, leaving = {uid: node for uid, (_, node) in nodes.items()}, set(victims)
        freed, asked = {claim.uid: claim for claim in claims}, list(devices)
        until_s = now + (VICTIMS_GO_S if leaving or freed else HELD_S)
        hold = Hold(key, held_nodes, leaving | freed.keys(), until_s, len(leaving), len(freed))
        self._holds[key] = hold
        for uid in hold.victims:
            self.goes_for.setdefault(uid, set()).add(key)
        for pod, node in nodes.values():
            self._cluster.nominations.put(pod, node)
        if freed or asked:
            first = next(pod for pod, _ in nodes.values())
            claiming.keep(self._cluster, key, first, freed.values(), asked)

    def restore(
        self,
        key: str,
        nodes: Mapping[str, tuple[Pod, str]],
        evicted: int,
        claims: Iterable[ResourceClaim],
        now: float,
    ) -> None:
        """What was held before a restart is held again: `claims` are still to be deallocated.

        The records of several pods may be about one unit.
        """
        freed = list(claims)
        hold = self._holds.get(key)
        if hold is None:
            self.begin(key, nodes, (), now, freed)
            hold = self._holds[key]
        else:
            hold.victims |= {claim.uid for claim in freed}
            hold.until_s = now + (VICTIMS_GO_S if hold.victims else HELD_S)
            hold.claims += len(freed)
            for claim in freed:
                self.goes_for.setdefault(claim.uid, set()).add(key)
        hold.evicted = max(hold.evicted, evicted)
        first = next(pod for pod, _ in nodes.values())
        claiming.keep(self._cluster, key, first, freed, ())

    def keep_again(self, key: str, devices: Iterable[AllocatedDevice]) -> None:
        """Of devices that were kept, those that are free are kept again."""
        claiming.keep_again(self._cluster, key, {*self._holds[key].nodes.values()}, devices)

    def victim_gone(self, uid: str, now: float) -> None:
        for key in self.goes_for.pop(uid, ()):
            hold = self._holds[key]
            hold.victims.discard(uid)
            if not hold.victims:
                hold.until_s = now + HELD_S
                if key in self._cluster.claims.kept:  # to others they are in use: nothing wakes it
                    self._has_devices(key, now)

    def is_whole(self, hold: Hold, pending: Iterable[str]) -> bool:
        """Whether no pod of the unit that still waits has lost its node to another."""
        node_of = self._cluster.nominations.node_of
        return all(node_of(uid) == hold.nodes[uid] for uid in pending if uid in hold.nodes)

    def used(self, key: str) -> None:
        """The unit has nodes: nothing is held any more."""
        self._forget(key)
        self._pauses.pop(key, None)

    def drop(self, key: str) -> None:
        """Others may have the room."""
        hold = self._forget(key)
        for uid in hold.nodes if hold else ():
            self._cluster.nominations.drop(uid)

    def _forget(self, key: str) -> Hold | None:
        hold = self._holds.pop(key, None)
        for uid in hold.victims if hold else ():
            self.goes_for[uid].discard(key)
            if not self.goes_for[uid]:
                del self.goes_for[uid]
        if key in self._cluster.claims.kept:
            claiming.keep_no_more(self._cluster, key)
        return hold

    # -- pauses ------------------------------------------------------------------------------

    def pause(self, key: str, now: float) -> None:
        """It asked for room in vain: it may not evict others for a while."""
        before = self._pauses.get(key)
        length_s = min(2 * before.length_s, _LONGEST_PAUSE_S) if before else _PAUSE_S
        self._pauses[key] = _Pause(now + length_s, length_s)

    def is_paused(self, key: str, now: float) -> bool:
        pause = self._pauses.get(key)
        return pause is not None and now < pause.until_s

    def forget(self, key: str) -> None:
        """The unit is gone."""
        self.drop(key)
        self._pauses.pop(key, None)

    # -- what time brings about --------------------------------------------------------------

    def due_s(self) -> float | None:
        return min((hold.until_s for hold in self._holds.values()), default=None)

    def overdue(self, now: float) -> list[str]:
        """Gives back what was held for too long, and says for which units."""
        keys = [hold.key for hold in self._holds.values() if hold.until_s <= now]
        for key in keys:
            self.drop(key)
            self.pause(key, now)
        return keys
