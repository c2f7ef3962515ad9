"""What became of pods after their decision, until the watch shows them on their node.

              begin                    steps_ended             written                  confirm
    (queue) ─────────▶ PREPARING ─────────────────▶ BINDING ─────────────▶ BOUND ─────────────▶ end
        │                                              ▲
        └────────────── begin, without steps ──────────┘

A member of a gang that is prepared, or has no steps, is READY until all of them are; then all are
bound (`bind`). A gang that is RELEASING is in the queue, in no pool, until its eviction has ended.

A stage ends by the outcome of what the driver was asked to do, or by the pod's own end. The bind of
a pod that is gone stays here until its outcome is known: it may still take effect.
"""

from collections.abc import Iterator
from enum import Enum, auto

from fairlead.cluster.cluster import Cluster
from fairlead.engine.gang_flights import GangFlight
from fairlead.model.lazy_dataclass import dataclass
from fairlead.plugins.prepare import PrepareStep
from fairlead.queue.entries import Entry, Pool
from fairlead.queue.queue import SchedulingQueue


class Stage(Enum):
    PREPARING = auto()  #: the steps before the bind are under way
    READY = auto()  #: it waits for the other members of its gang
    BINDING = auto()  #: the Binding is being written
    BOUND = auto()  #: it was written, and no watch has shown the pod on its node yet


# An enum is slow to ask for a member, and this is asked for every placement.
_BINDING = Stage.BINDING


@dataclass(slots=True, eq=False)
class Flight:
    """One pod. Pods of other schedulers have no entry; nor has a pod that is BOUND."""

    entry: Entry | None
    stage: Stage
    steps: tuple[PrepareStep, ...] = ()


class InFlight:
    """Pods that were decided on, by uid, and the pods for which others are being evicted."""

    def __init__(self) -> None:
        self._flights: dict[str, Flight] = {}
        #: Pods for which others are being evicted just now, by uid. They are still in the queue.
        self.evicting: set[str] = set()
        #: Keys of gangs whose bound members are being evicted, by the uid of the eviction.
        self.releasing: dict[str, str] = {}
        #: Keys of gangs for which others are being evicted, by the uid of the eviction.
        self.making_room: dict[str, str] = {}
        #: Gangs that were decided on, by key.
        self.gangs: dict[str, GangFlight] = {}

    def __contains__(self, uid: str) -> bool:
        return uid in self._flights

    def __iter__(self) -> Iterator[tuple[str, Flight]]:
        return iter(self._flights.items())

    def entry_of(self, uid: str) -> Entry | None:
        """A pod of ours whose bind is not written yet."""
        flight = self._flights.get(uid)
        return flight.entry if flight else None

    def steps_of(self, uid: str) -> tuple[PrepareStep, ...]:
        flight = self._flights.get(uid)
        return flight.steps if flight else ()

    def stage_of(self, uid: str) -> Stage | None:
        flight = self._flights.get(uid)
        return flight.stage if flight else None

    def unconfirmed(self) -> list[str]:
        """The pods that are BOUND."""
        return [uid for uid, flight in self._flights.items() if flight.stage is Stage.BOUND]

    def begin(self, uid: str, entry: Entry | None, steps: tuple[PrepareStep, ...] = ()) -> None:
        assert entry is None or uid not in self._flights, f"{uid} is being bound already"
        stage = Stage.PREPARING if steps else _BINDING
        self._flights[uid] = Flight(entry, stage, steps)

    def begin_member(self, uid: str, entry: Entry, steps: tuple[PrepareStep, ...]) -> None:
        """A member of a gang was decided on; it is not bound before the others are ready."""
        assert uid not in self._flights, f"{uid} is being bound already"
        self._flights[uid] = Flight(entry, Stage.PREPARING if steps else Stage.READY, steps)

    def await_others(self, uid: str) -> None:
        """A member of a gang whose steps have ended is READY."""
        self._flights[uid].stage = Stage.READY

    def bind(self, uid: str) -> None:
        """All members of the gang are ready."""
        self._flights[uid].stage = Stage.BINDING

    def steps_ended(self, uid: str) -> tuple[PrepareStep, ...]:
        """The steps that were under way; nothing if the pod was not PREPARING."""
        flight = self._flights.get(uid)
        if flight is None or flight.stage is not Stage.PREPARING:
            return ()
        steps, flight.steps, flight.stage = flight.steps, (), Stage.BINDING
        return steps

    def written(self, uid: str, *, seen: bool) -> Entry | None:
        """The Binding was written; `seen`: the watch has shown the pod, or its end, before."""
        entry = self.end(uid)
        if not seen:
            self._flights[uid] = Flight(None, Stage.BOUND)
        return entry

    def confirm(self, uid: str) -> None:
        """The watch shows the pod on its node, or its end."""
        flight = self._flights.get(uid)
        if flight is not None and flight.stage is Stage.BOUND:
            del self._flights[uid]

    def end(self, uid: str) -> Entry | None:
        """Nothing more is done for the pod."""
        flight = self._flights.pop(uid, None)
        return flight.entry if flight else None


def contradictions(in_flight: InFlight, cluster: Cluster, queue: SchedulingQueue) -> list[str]:
    """Where the stages do not agree with the ledger or the queue; empty if all is well."""
    flights = dict(in_flight)
    holdings = cluster.holdings.items()
    assumed = {uid for uid, held in holdings if held.assumed and held.pod.reservation is None}
    found = [f"{uid} is assumed, and no bind is under way" for uid in assumed - flights.keys()]
    for uid, flight in flights.items():
        found += (f"{uid} in stage {flight.stage.name}: {what}" for what in
                  _contradictions(flight, queue.get(uid), assumed=uid in assumed))  # fmt: skip
    return found


def _contradictions(flight: Flight, queued: Entry | None, *, assumed: bool) -> Iterator[str]:
    bound = flight.stage is Stage.BOUND
    if bound and not assumed:
        yield "it holds nothing any more"
    if bound and (flight.entry or queued):
        yield "it is still in the queue"
    if bool(flight.steps) != (flight.stage is Stage.PREPARING):
        yield "it has steps in the wrong stage"
    if not bound and queued is not flight.entry and queued is not None:
        yield "the queue has another entry"
    if flight.entry is not None and flight.entry.pool is not Pool.NONE:
        yield "it waits to be tried"
