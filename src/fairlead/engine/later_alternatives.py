"""Gangs whose claims get later alternatives (`firstAvailable`), where a profile allows it.

kube-scheduler gives each pod the first alternative that is possible, so the first member of a gang
may take a whole device of which every member could have had a part. If a gang does not fit so,
later alternatives are tried, over several turns, until it fits or nothing is left to try.
"""

from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import replace

from fairlead.claims.errors import LookUnfinished
from fairlead.cluster.aspects import Aspect
from fairlead.cluster.cluster import Cluster
from fairlead.cluster.device_work import counted_work
from fairlead.cluster.narrowed_claims import narrowed_claims
from fairlead.cluster.trial import Trial
from fairlead.engine.alternative_settings import (
    Setting,
    Settings,
    are_all_tried,
    count_kinds,
    have_alternatives,
    settings,
)
from fairlead.engine.gang_trials import Filling, MemberPlacement, ordered
from fairlead.engine.room_searches import SearchPace
from fairlead.model.claims import ResourceClaim
from fairlead.model.lazy_dataclass import dataclass
from fairlead.placement.place import Placement
from fairlead.plugins.claim_step import ClaimStep
from fairlead.plugins.prepare import PrepareStep
from fairlead.queue.units import Gang

#: Larger gangs have the first alternatives, as with kube-scheduler.
MOST_PODS = 100
#: What the settings of one turn may cost (see `Work.spent`), and turns of one search.
_TURN_WORK = 25_000
_MOST_TURNS = 16
#: Claims of a gang that ask for something else: nodes are looked at for each setting of each.
_MOST_KINDS = 8
#: Searches that may go on in a later turn.
_MOST_BEGUN = 8

#: Places the gang in the trial as things are.
PlaceGang = Callable[[], Filling]


@dataclass(slots=True, eq=False)
class _Begun:
    """A search that goes on in the next turn."""

    state: Hashable
    #: How near the gang comes with the first alternatives.
    nearest: Filling
    left: Settings
    #: The setting to try next, and whether it is the answer if the gang fits; None: none is left.
    next: tuple[Setting, bool] | None
    #: Whether no setting is left out.
    is_exact: bool
    turns: int = 0

    def tell(self, *, fits: bool) -> None:
        try:
            self.next = self.left.send(fits)
        except StopIteration:
            self.next = None


class LaterAlternatives:
    """It changes the trials that it is given, and nothing else."""

    def __init__(self, cluster: Cluster, placements: Mapping[str, Placement]) -> None:
        self._cluster, self._placements = cluster, placements
        self._begun: dict[str, _Begun] = {}
        self._pace = SearchPace()

    def nearest(self, gang: Gang) -> Filling | None:
        """What is known if a search for the gang is under way."""
        begun = self._begun.get(gang.key) if self._begun else None
        return begun.nearest if begun and begun.state == self._state(gang) else None

    def may_help(self, gang: Gang, nearest: Filling) -> bool:
        """Whether it lacks devices, and its profiles allow other alternatives."""
        if nearest.succeeded or len(gang.pods) > MOST_PODS or not self._cluster.claims.are_used:
            return False
        claiming = {pod.scheduler for pod in gang.pods if pod.request.claims}
        if not claiming or not all(self._placements[name].tries_later for name in claiming):
            return False
        return bool(nearest.woken_by & Aspect.CLAIMS) and any(True for _ in self._claims(gang))

    def search(
        self,
        trial: Trial,
        gang: Gang,
        nearest: Filling,
        place: PlaceGang,
        now: float,
        begun_at: int,
    ) -> Filling:
        """With other alternatives; else the nearest one, with whether more is to be tried.

        `begun_at`: the work that had been done when the turn of the gang began.
        """
        begun = self._begun.pop(gang.key, None)
        if count_kinds(self._claims(gang)) > _MOST_KINDS:
            return replace(nearest, alternatives_left=True)
        if begun is None and not self._pace.allows(now):
            return replace(nearest, alternatives_left=True, try_again=True)
        state, turns = self._state(gang), begun.turns if begun else 0
        if begun is None or begun.state != state:
            begun = self._new(gang, nearest, state, turns)
        before = self._cluster.work.spent
        found = self._go_on(trial, gang, begun, place, begun_at + _TURN_WORK)
        self._pace.spend(self._cluster.work.spent - before)
        if found is not None:
            return found
        if begun.next is None:
            return replace(nearest, alternatives_left=not begun.is_exact)
        return self._later(gang, begun, nearest)

    def _new(self, gang: Gang, nearest: Filling, state: Hashable, turns: int) -> _Begun:
        claims = list(self._claims(gang))
        left = settings(claims)
        return _Begun(state, nearest, left, next(left, None), are_all_tried(claims), turns)

    def _later(self, gang: Gang, begun: _Begun, nearest: Filling) -> Filling:
        begun.turns += 1
        if begun.turns >= _MOST_TURNS:
            return replace(nearest, alternatives_left=True)
        if len(self._begun) >= _MOST_BEGUN:
            del self._begun[next(iter(self._begun))]
        self._begun[gang.key] = begun
        return replace(nearest, unfinished=True)

    def _go_on(
        self, trial: Trial, gang: Gang, begun: _Begun, place: PlaceGang, until: int
    ) -> Filling | None:
        """The gang in the trial; None if no setting of this turn is the answer."""
        start = trial.checkpoint()
        while begun.next is not None and self._cluster.work.spent <= until:
            setting, is_answer = begun.next
            filling = self._tried(gang, setting, place)
            if filling is None:
                return None
            if filling.succeeded and is_answer:
                return filling
            trial.rollback(start)
            begun.tell(fits=filling.succeeded)
        return None

    def _tried(self, gang: Gang, setting: Setting, place: PlaceGang) -> Filling | None:
        """None: nodes are still to be looked at, in the next turn."""
        state = self._cluster.claims
        whole = {key: state.claims[key] for key in setting}
        with narrowed_claims(state, setting):
            if not self._has_looked(gang):
                return None
            filling = place()
        filling.placed = [_whole_again(member, whole) for member in filling.placed]
        return filling

    def _has_looked(self, gang: Gang) -> bool:
        try:
            with self._cluster.claims.inventory.turn.limited(), counted_work(self._cluster):
                for pod in gang.pods:
                    self._placements[pod.scheduler].view(pod)
        except LookUnfinished:
            return False
        return True

    def _claims(self, gang: Gang) -> Iterator[ResourceClaim]:
        """Those with alternatives that are to be allocated, each once."""
        state = self._cluster.claims
        keys = dict.fromkeys(use.key for pod in ordered(gang) for use in pod.request.claims)
        for claim in filter(None, map(state.claims.get, keys)):
            if claim.allocation is None and not state.pending(claim) and have_alternatives(claim):
                yield claim

    def _state(self, gang: Gang) -> Hashable:
        """While this is equal, what did not fit does not fit."""
        return self._cluster.improved.count, tuple(claim.uid for claim in self._claims(gang))


def _whole_again(
    member: MemberPlacement, whole: Mapping[str, ResourceClaim]
) -> MemberPlacement:  # fmt: skip
    """With the claims as they are: what is written is checked against them."""

    def put_right(step: PrepareStep) -> PrepareStep:
        if not isinstance(step, ClaimStep):
            return step
        writes = (replace(each, claim=whole.get(each.claim.key, each.claim))
                  for each in step.writes)  # fmt: skip
        return replace(step, writes=tuple(writes))

    return replace(member, steps=tuple(map(put_right, member.steps)))
