"""The answer to "where does this pod go?": a place, or a refusal that says why."""

from dataclasses import dataclass

from fairlead.cluster.aspects import Aspect


@dataclass(frozen=True, slots=True)
class Placed:
    node: str
    score: float


@dataclass(frozen=True, slots=True)
class Refused:
    """No node fits. Counts are nodes under each reason of the first rule that refused them."""

    nodes: int
    reasons: tuple[tuple[str, int], ...]
    #: Names of the rules that refused at least one node.
    refusers: tuple[str, ...]
    #: A change of any of these could change the answer.
    woken_by: Aspect
    #: Nodes where evicting somebody could help, and nodes where it could not.
    curable_nodes: int = 0
    #: Why the pod cannot run anywhere, said before any node was looked at.
    veto: str = ""
    #: False when nobody on those nodes has a lower priority, so that there is nobody to evict.
    victims: bool = False

    @property
    def message(self) -> str:
        """kube-scheduler's words (1.36), to the byte."""
        if not self.nodes:
            return "no nodes available to schedule pods"
        if self.veto:
            # The note on resource claims needs what was not looked at, and says so.
            return f"0/{self.nodes} nodes are available: {self.veto}. not found"
        # Sorted as text, so that "10 x" stands before "2 y": users' alerts match on it.
        counted = ", ".join(sorted(f"{count} {text}" for text, count in self.reasons))
        return f"0/{self.nodes} nodes are available: {counted}.{self._eviction}"

    @property
    def _eviction(self) -> str:
        # We do not evict yet. Where there is somebody to evict, saying that there is not would be
        # a lie, so nothing is said.
        if self.victims:
            return ""
        outcomes = (
            ("No preemption victims found for incoming pod", self.curable_nodes),
            ("Preemption is not helpful for scheduling", self.nodes - self.curable_nodes),
        )
        counted = ", ".join(sorted(f"{count} {text}" for text, count in outcomes if count))
        # Every pod's message carries kube-scheduler's note on resource claims in front.
        return (
            " no new claims to deallocate, preemption: "
            f"0/{self.nodes} nodes are available: {counted}."
        )


Verdict = Placed | Refused
