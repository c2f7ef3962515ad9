"""One cluster, one policy: pods are offered to the real engine, which takes or refuses them."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from fairlead.cluster.aspects import Aspect
from fairlead.engine.engine import Engine
from fairlead.engine.events import BindDone, NodeSeen, PodGone, PodSeen, PricesComputed
from fairlead.engine.instructions import Bind
from fairlead.model.nodes import Node
from fairlead.model.pods import Pod, PodRequest
from fairlead.model.prices import Prices
from fairlead.placement.profile import Profile
from fairlead.plugins.registry import FILTERS, Registry
from traces import SCHEDULER

RANDOM = "Random"


@dataclass(frozen=True, slots=True)
class Decision:
    """What anybody could read from the API server: which pod got which GPUs of which node."""

    pod: str
    node: str
    gpus: tuple[str, ...] = ()


class Replay:
    def __init__(
        self, nodes: Iterable[Node], prices: Prices | None, policy: str, seed: int
    ) -> None:
        self.engine = Engine({SCHEDULER: _profile(policy, seed)})
        for node in nodes:
            self.engine.handle(NodeSeen(node), now=0.0)
        if prices is not None:
            self.engine.handle(PricesComputed(prices), now=0.0)

    def offer(self, pod: Pod) -> Decision | None:
        """Where the pod went; one that fits nowhere is gone for good."""
        self.engine.handle(PodSeen(pod), now=0.0)
        attempt = self.engine.decide(now=0.0)
        for made in attempt.instructions if attempt else ():
            if isinstance(made, Bind):
                self.engine.handle(BindDone(pod.uid), now=0.0)
                uses = made.grant.uses if made.grant else ()
                return Decision(pod.uid, made.node, tuple(use.uuid for use in uses))
        self.engine.handle(PodGone(pod), now=0.0)
        return None

    def leave(self, pod: Pod) -> None:
        self.engine.handle(PodGone(pod), now=0.0)


def _profile(policy: str, seed: int) -> Profile:
    filters = tuple(kind() for kind in FILTERS)
    if policy == RANDOM:
        lots = np.random.default_rng(seed)
        scores = ((_AnyGpu(lots), 1.0),)
        return Profile(policy, filters, scores, _AnyNode(lots), preempts=False)
    return Profile(policy, filters, ((Registry().find(policy)(), 1.0),), preempts=False)


@dataclass(frozen=True, slots=True)
class _AnyNode:
    """The paper's Random: a node by lot …"""

    lots: np.random.Generator = field(hash=False)
    name: ClassVar[str] = "AnyNode"

    def pick(self, request: PodRequest, nodes, scores: np.ndarray) -> int:
        return int(self.lots.integers(len(scores)))


@dataclass(frozen=True, slots=True)
class _AnyGpu:
    """… and a GPU by lot."""

    lots: np.random.Generator = field(hash=False)
    name: ClassVar[str] = "AnyGpu"
    reads: ClassVar[Aspect] = Aspect.PRESENCE

    def rate(self, request: PodRequest, nodes) -> np.ndarray:
        return np.zeros(len(nodes))

    def rate_gpus(self, request: PodRequest, nodes) -> np.ndarray:
        return self.lots.random(nodes.gpus.there().shape)
