"""Who is on which card, and whether he should be. No I/O and no clock.

A process belongs on a card if its pod was given that card, or if nobody can tell which cards the
pod was given. Others are *strangers*: of a pod that was given other cards, of a pod that is gone,
or of no pod at all.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum

from fairlead.telemetry.nvml.facts import Process
from fairlead.telemetry.processes import Owner

#: A stranger that stays is reported again after this.
REPEAT_S = 3600.0
#: How the health of a withheld card begins.
NOT_EMPTY = "not empty"
#: MPS serves the pods of a card with one process that belongs to none of them.
_SERVERS = frozenset({"nvidia-cuda-mps"})

#: The GPU instances that a pod was given of each card; None: all of the card.
Given = Mapping[str, frozenset[int] | None]


class Kind(Enum):
    """What makes a process a stranger."""

    UNASSIGNED = "of a pod that was not assigned this GPU"
    LEFT_BEHIND = "of a pod that is gone"
    OF_NO_POD = "of no pod"


@dataclass(frozen=True, slots=True)
class Tenant:
    """A pod of this node. `given` is None where nobody can tell which cards it has."""

    namespace: str
    name: str
    uid: str
    version: str = ""
    given: Given | None = None
    #: It has ended, so whatever it had is free.
    over: bool = False

    def may_use(self, card: str, instance: int | None) -> bool:
        if self.given is None:
            return True
        if card not in self.given:
            return False
        instances = self.given[card]
        return instances is None or instance is None or instance in instances


#: The pods of a node by each uid that their processes may go by. Several may claim to be the
#: mirror of one static pod; then no process is theirs that is not each one's.
Tenants = Mapping[str, tuple[Tenant, ...]]


@dataclass(frozen=True, slots=True)
class Sighting:
    """One process on one card, and whose it is."""

    card: str
    gpu: str
    process: Process
    owner: Owner


@dataclass(frozen=True, slots=True)
class Stranger:
    """A process that has been where it should not be for longer than the grace."""

    sighting: Sighting
    kind: Kind
    #: Its pod, if that is still there, or all pods that claim to be.
    tenants: tuple[Tenant, ...] = ()

    @property
    def words(self) -> str:
        owner, process = self.sighting.owner, self.sighting.process
        return f"process {process.pid} ({owner.command}) {self.kind.value}"

    @property
    def advice(self) -> str:
        if self.kind is Kind.UNASSIGNED:
            return "make it use the GPUs in CUDA_VISIBLE_DEVICES, or request more GPUs"
        return "stop it to make the GPU available to other pods"


@dataclass(frozen=True, slots=True)
class Verdict:
    strangers: tuple[Stranger, ...] = ()
    #: Those to be reported now: new, or not reported for long.
    news: tuple[Stranger, ...] = ()
    #: Why nobody should get a card, by card.
    withheld: Mapping[str, str] = field(default_factory=dict)


class Watchman:
    """Remembers since when each stranger is where he is."""

    def __init__(
        self, *, grace_s: float, withhold: bool = True, trusted: frozenset[str] = frozenset()
    ) -> None:
        """`trusted`: namespaces whose pods may be on any card."""
        self._grace_s = grace_s
        self.withholds = withhold
        self._trusted = trusted
        #: None before the first look.
        self._since: dict[tuple[int, str], float] | None = None
        self._told: dict[tuple[int, str], float] = {}

    def judge(self, sightings: Iterable[Sighting], tenants: Tenants, now_s: float) -> Verdict:
        """`tenants`: all pods of the node."""
        found = [
            Stranger(seen, kind, claims)
            for seen in sightings
            for claims in (claims_to(seen.owner, tenants),)
            if (kind := self._kind(seen, claims)) is not None
        ]
        # Whoever is there when we come was there before: a restart of ours frees no card.
        start = float("-inf") if self._since is None else now_s
        before = self._since or {}
        since = self._since = {_key(each): before.get(_key(each), start) for each in found}
        late = [each for each in found if now_s - since[_key(each)] >= self._grace_s]
        return Verdict(tuple(late), tuple(self._news(late, now_s)), self._held(found, late))

    def _kind(self, seen: Sighting, claims: tuple[Tenant, ...]) -> Kind | None:
        owner = seen.owner
        if not owner.pod_uids:
            belongs = owner.command in _SERVERS or seen.process.draws
            return None if belongs else Kind.OF_NO_POD
        living = [tenant for tenant in claims if not tenant.over]
        if not living:
            return Kind.LEFT_BEHIND
        allowed = all(
            tenant.namespace in self._trusted or tenant.may_use(seen.card, seen.process.instance)
            for tenant in living
        )
        return None if allowed else Kind.UNASSIGNED

    def _news(self, late: list[Stranger], now_s: float) -> list[Stranger]:
        """Who goes and comes back within the hour is no news."""
        told = self._told = {key: at for key, at in self._told.items() if now_s - at < REPEAT_S}
        news = [each for each in late if _key(each) not in told]
        told |= {_key(each): now_s for each in news}
        return news

    def _held(self, found: list[Stranger], late: list[Stranger]) -> dict[str, str]:
        """A card is not free while somebody nobody answers for holds memory there.

        What a pod left behind counts at once, since its card is given away at once. A pod that is
        where it should not be does not keep others from the card that was promised to them.
        """
        held: dict[str, str] = {}
        # The same one is named each time, or the list would change with every look.
        for each in sorted(found, key=_key) if self.withholds else ():
            counts = each.kind is Kind.LEFT_BEHIND or (each.kind is Kind.OF_NO_POD and each in late)
            if counts:
                held.setdefault(each.sighting.card, f"{NOT_EMPTY}: {each.words}")
        return held


def claims_to(owner: Owner, tenants: Tenants) -> tuple[Tenant, ...]:
    """The pods whose process it may be: of the outermost uid that is known here."""
    return next((tenants[uid] for uid in owner.pod_uids if uid in tenants), ())


def _key(stranger: Stranger) -> tuple[int, str]:
    return (stranger.sighting.process.pid, stranger.sighting.card)
