"""HTTP extenders of kube-scheduler's protocol: whom to ask about which pods, and what they say."""

from collections.abc import Mapping
from dataclasses import field

from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.pods import Pod

#: kube-scheduler's points go to 100, those of an extender to 10.
POINTS = 10


@dataclass(frozen=True, slots=True)
class ExtenderTerms:
    """One extender, as far as a decision depends on it."""

    #: The prefix of its URL, which names it.
    name: str
    #: It is asked about pods with one of these resources only; empty: about all.
    managed: frozenset[str] = frozenset()
    #: Pods are placed without it if it fails.
    ignorable: bool = False

    def concerns(self, pod: Pod) -> bool:
        return not self.managed or any(name in self.managed for name, _ in pod.request.resources)


@dataclass(frozen=True, slots=True)
class ExtenderAnswer:
    """What the extenders say about a pod and some nodes."""

    #: Nodes that all of them accept.
    accepted: tuple[str, ...] = ()
    #: Why not, by node; where evicting pods would not help, the node is also in `unresolvable`.
    refused: Mapping[str, str] = field(default_factory=dict)
    unresolvable: frozenset[str] = frozenset()
    #: What is added to the score of a node.
    scores: Mapping[str, float] = field(default_factory=dict)
    #: Why there is no answer; empty if there is one.
    error: str = ""
