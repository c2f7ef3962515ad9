"""The answer to "where does this pod go?": a place, or a refusal that says why."""

from collections.abc import Iterator, Mapping
from itertools import chain

from fairlead.cluster.aspects import Aspect
from fairlead.model.behaviour import KUBERNETES_1_36, Behaviour
from fairlead.model.claims import ResourceClaim
from fairlead.model.goals import GoalCount, GoalReport
from fairlead.model.gpus import Grant
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.pods import Pod
from fairlead.plugins.api import GpuDetail


@dataclass(frozen=True, slots=True)
class Placed:
    """The node for a pod, its total score, and the GPUs of the pod."""

    node: str
    score: float
    #: Which GPUs, if the pod asks for any.
    grant: Grant | None = None


@dataclass(frozen=True, slots=True)
class PlacementRecord:
    """Why a pod was placed where it was, in numbers."""

    score: float
    #: What each score of the profile added to that.
    scores: Mapping[str, float]
    #: The GPUs that it gets, as they were before, and what they were doing.
    gpus: tuple[GpuDetail, ...] = ()
    #: What each goal of the profile counted there, in its unit.
    goals: tuple[GoalCount, ...] = ()
    #: And on other nodes: the next best, and those that no other beats. None without goals.
    alternatives: GoalReport | None = None


#: What is said about resource claims of a refused pod.
NO_CLAIMS = "no new claims to deallocate"
FREED = "deallocation of ResourceClaim completed"
DELETED = "deletion of ResourceClaim completed"
NOT_FREED = "still not schedulable"

#: Pods that must leave, by the node that they are on.
VictimsByNode = Mapping[str, tuple[Pod, ...]]


@dataclass(frozen=True, slots=True)
class Eviction:
    """Who has to go so that a pod can have a node."""

    #: The node that the pod is nominated for.
    node: str
    #: Mostly on that node alone; those of one node the most important first.
    victims_by_node: VictimsByNode
    #: Victims whose disruption budget is used up.
    violations: int = 0

    @property
    def victims(self) -> tuple[Pod, ...]:
        """Those of all nodes."""
        return tuple(chain.from_iterable(self.victims_by_node.values()))

    def remaining(self) -> VictimsByNode:
        """The victims that are not being deleted already."""
        remaining = {
            node: tuple(victim for victim in victims if not victim.deleting)
            for node, victims in self.victims_by_node.items()
        }
        return {node: victims for node, victims in remaining.items() if victims}

    @property
    def message(self) -> str:
        """kube-scheduler's words, where it says anything."""
        count = len(self.victims)
        return (
            f"found a potential placement for pod on node {self.node}, preempting {count} victims"
        )


#: Who could have to leave, whose budget is used up, and who is expected there.
EvictionConditions = tuple[list[Pod], set[str], list[Pod]]


@dataclass(frozen=True, slots=True)
class TriedEviction:
    """The result of a trial eviction on a node; valid under these conditions only."""

    conditions: EvictionConditions
    eviction: Eviction | None
    #: What stood against it.
    against: list[str]


@dataclass(frozen=True, slots=True)
class Refused:
    """No node fits. Counts are nodes under each reason of the first rule that refused them."""

    nodes: int
    reasons: tuple[tuple[str, int], ...]
    #: Names of the rules that refused at least one node.
    refusers: tuple[str, ...]
    #: A change of any of these could change the answer.
    woken_by: Aspect
    #: Why the pod cannot run anywhere, said before any node was looked at.
    pre_filter_message: str = ""
    #: What kept us from evicting others; None if that was not tried.
    no_eviction: str | None = None
    eviction: Eviction | None = None
    #: The search for pods to evict was cut short: the next attempt goes on with it.
    unfinished: bool = False
    #: The node that the pod is nominated for from now on; None: as before.
    nomination: str | None = None
    #: How near any node came, where a rule reports it.
    nearest: str = ""
    #: Of a pod with resource claims: the one to deallocate, and what is said about that.
    frees: ResourceClaim | None = None
    claim_note: str = NO_CLAIMS
    #: Whose words to use.
    behaviour: Behaviour = KUBERNETES_1_36

    @property
    def message(self) -> str:
        """kube-scheduler's words, to the byte, and between them what we know of GPUs."""
        if self.nodes and self.pre_filter_message and self.no_eviction is None:
            # The note on resource claims needs what was not looked at, and says so.
            return f"{self.summary} not found"
        attempts = ", ".join(self._attempts()) if self.nodes else ""
        return f"{self.summary} {attempts}" if attempts else self.summary

    @property
    def summary(self) -> str:
        """The same without what was tried to make room."""
        if not self.nodes:
            return "no nodes available to schedule pods"
        if self.pre_filter_message:
            return f"0/{self.nodes} nodes are available: {self.pre_filter_message}."
        said = unavailable(self.nodes, dict(self.reasons))
        return f"{said} {self.nearest}" if self.nearest else said

    def _attempts(self) -> Iterator[str]:
        """What was tried to make room, in the order in which kube-scheduler tries it."""
        if self.eviction:
            if self.behaviour.tells_of_victims:
                yield f"preemption: {self.eviction.message}"
            return
        # Also a pod without resource claims got the note on them, as long as there was one.
        if self.frees or not self.behaviour.silent_about_claims:
            yield self.claim_note
        if self.no_eviction is not None:
            yield f"preemption: {self.no_eviction}"


def unavailable(nodes: int, counts: dict[str, int]) -> str:
    """Counted reasons as one sentence: `0/5 nodes are available: 2 Too many pods, …`."""
    # Sorted as text, so that "10 x" stands before "2 y": users' alerts match on it.
    counted = ", ".join(sorted(f"{count} {text}" for text, count in counts.items() if count))
    return f"0/{nodes} nodes are available: {counted}."


Verdict = Placed | Refused
