"""The timed world for pods that use resource claims: they are written and freed at once."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from builders import a_node
from claim_objects import GPU_CLASS, a_claim, a_slice
from fairlead.engine.events import ClaimObjectSeen, PodGone, Prepared
from fairlead.engine.instructions import FreeClaim, Instruction, Prepare, ReleaseClaims
from fairlead.model.backfill import BackfillTerms
from fairlead.model.claim_uses import ClaimUse
from fairlead.model.claims import ClaimObject, ResourceClaim
from fairlead.model.nodes import Node
from fairlead.model.pods import Pod
from fairlead.sim.virtual.claims import VirtualClaims
from timed_world import EXACT, TimedWorld, a_job


def nodes_with(*devices: int) -> list[tuple[Node, int]]:
    """Nodes without a device plugin, and how many devices a driver publishes for each."""
    return [(a_node(f"n{at}", gpus=0), count) for at, count in enumerate(devices)]


def a_claiming_job(name: str, pods: int, run_s: float | None, count: int = 1) -> list[Pod]:
    """Each pod has a claim of its own, for so many devices; the claims are made by the world."""
    return [_with_claims(pod, f"{pod.name}-{count}") for pod in _plain(name, pods, run_s)]


def a_sharing_job(name: str, pods: int, run_s: float | None, *claims: str) -> list[Pod]:
    """All pods use the claims of these names."""
    return [_with_claims(pod, *claims) for pod in _plain(name, pods, run_s)]


def _plain(name: str, pods: int, run_s: float | None) -> list[Pod]:
    return a_job(name, pods, run_s, gpus=0)


def _with_claims(pod: Pod, *claims: str) -> Pod:
    uses = tuple(ClaimUse(each, f"default/{each}") for each in claims)
    return replace(pod, request=replace(pod.request, claims=uses))


class ClaimWorld(TimedWorld):
    """A claim that is not there is made when its pod is: its name ends with its devices."""

    def __init__(self, *nodes: tuple[Node, int], terms: BackfillTerms = EXACT) -> None:
        #: Whether claims stay allocated after their pods, until `free_left_over`.
        self.is_slow = False
        self._left: list[Pod] = []
        super().__init__(*(node for node, _ in nodes), terms=terms)
        self.claims = VirtualClaims(self.engine.cluster.claims)
        self.show(GPU_CLASS)
        for node, count in nodes:
            names = (f"gpu-{at}" for at in range(count))
            self.show(a_slice(node.name, *names))

    def show(self, *objects: ClaimObject) -> None:
        for each in objects:
            self.tell(ClaimObjectSeen(each))

    def create(self, *pods: Pod) -> None:
        known = self.engine.cluster.claims.claims
        for pod in pods:
            for use in pod.request.claims:
                if use.key and use.key not in known:
                    count = use.key.rpartition("-")[2]
                    self.show(self.made(use.name, int(count) if count.isdigit() else 1))
        super().create(*pods)

    def made(self, name: str, count: int, **more: Any) -> ResourceClaim:
        return a_claim(name, count, **more)

    def _carry_out(self, made: Sequence[Instruction]) -> None:
        super()._carry_out(made)
        for each in made:
            if isinstance(each, Prepare):
                for event in self.claims.prepared(each.pod, each.steps):
                    self.tell(event)
                self.tell(Prepared(each.pod.uid))
            elif isinstance(each, FreeClaim):
                self.tell(self.claims.freed(each.claim))
            elif isinstance(each, ReleaseClaims):
                for event in self.claims.released(each.pod):
                    self.tell(event)

    def end(self, *names: str) -> None:
        ended = [pod for pod in self.pods.values() if pod.name in names]
        for pod in ended:
            del self.pods[pod.uid]
            self.tell(PodGone(pod))
        self._left += ended
        if not self.is_slow:
            self.free_left_over()

    def free_left_over(self) -> None:
        """As kube-controller-manager does some time after pods have ended."""
        while self._left:
            for event in list(self.claims.ended(self._left.pop(0))):
                self.tell(event)

    def devices_of(self, name: str) -> list[str]:
        """What the claims of the pod hold."""
        state, pod = self.engine.cluster.claims, self.pods[name]
        keys = [use.key for use in pod.request.claims]
        held = (state.held.get(state.claims[key].uid, ()) for key in keys)
        return [f"{device.pool}/{device.device}" for devices in held for device in devices]
