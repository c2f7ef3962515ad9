"""What one pod takes from one node.

A pod's life in the cluster, as its holding shows it:

        assume            confirm
    ──────────▶ assumed ──────────▶ confirmed
                   │                    │
            forget │             remove │        (confirm without assume: bound by someone else)
                   ▼                    ▼
                nothing              nothing

Assumed holdings never expire. A bind whose reply was lost may still have happened, so only its
outcome, or the pod's own end, may free what it holds.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import cache

from fairlead.cluster.aspects import NOTHING, Aspect
from fairlead.model.gpus import GpuRequest, GpuUse, Grant, GrantSource
from fairlead.model.holders import Holder, pod_holder
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.pods import Amounts, HostPort, Pod


@cache
def _touched(ports: bool, volumes: bool, gpus: bool) -> Aspect:
    """Remembered, since flags are slow to put together."""
    found = Aspect.USAGE | Aspect.PODS
    for held, aspect in ((ports, Aspect.PORTS), (volumes, Aspect.VOLUMES), (gpus, Aspect.DEVICES)):
        found |= aspect if held else NOTHING
    return found


@dataclass(slots=True)
class Holding:
    """What one pod takes from one node. Its node may not be known yet, or no longer."""

    pod: Pod
    node: str
    amounts: Amounts
    scored: tuple[int, int]
    ports: tuple[HostPort, ...]
    assumed: bool
    grant: Grant | None = None
    #: What it has together with other pods: it is free when the last of them is gone.
    shared: tuple[tuple[Holder, Grant], ...] = ()
    #: Its GPUs are devices of a claim that was made for it, and not counted here.
    by_claim: bool = False
    #: The tenant that it is counted for, which no edit of the pod changes; None: not known yet.
    tenant: str | None = None

    @property
    def touches(self) -> Aspect:
        """What of its node changes when it comes or goes."""
        volumes, gpus = self.pod.request.volumes, self.grant is not None or bool(self.shared)
        return _touched(bool(self.ports), volumes is not None, gpus)

    def grants(self) -> Iterator[tuple[Holder, Grant]]:
        """The GPUs that it has, with the holder that each grant is in the ledger by."""
        if self.grant:
            yield pod_holder(self.pod.uid), self.grant
        yield from self.shared

    @classmethod
    def of(
        cls, pod: Pod, node: str, *, assumed: bool, grant: Grant | None = None
    ) -> "Holding":  # fmt: skip
        """What a pending pod would hold there (assumed), or what a bound one does."""
        request = pod.request
        amounts = request.resources if assumed else pod.usage
        grant = grant or pod.grant or unidentified_gpus(request.gpu_request)
        return cls(pod, node, amounts, pod.held_scored, request.host_ports, assumed, grant)


def granted(pod: Pod, held: Holding | None) -> Grant | None:
    """The GPUs that a bound pod has: they stay as they are, whatever its annotations say later.

    Only a device plugin may still say what it took, and another scheduler what it assigned. What
    Fairlead assigns is on the pod when it is first seen, and never changes.
    """
    said = pod.grant
    if held is None or held.assumed or held.node != pod.node:
        return said or unidentified_gpus(pod.request.gpu_request)
    kept = held.grant
    if said is not None and _is_news(said, kept):
        return said
    pending = said is not None and said.pending
    return replace(kept, pending=pending) if kept and kept.pending != pending else kept


def _is_news(said: Grant, kept: Grant | None) -> bool:
    if said.source is GrantSource.BOUND:
        return kept is not None and kept.source < GrantSource.BOUND
    return said.assigned and (kept is None or said.source >= kept.source)


def holds_the_same(held: Holding, pod: Pod, grant: Grant | None) -> bool:
    holds = held.node, held.amounts, held.scored, held.pod.priority
    same = holds == (pod.node, pod.usage, pod.held_scored, pod.priority)
    return same and held.grant == grant


def unidentified_gpus(ask: GpuRequest | None) -> Grant | None:
    """What a pod holds that requested GPUs without an assignment."""
    if ask is None or ask.profile or ask.map_slot or not ask.whole:
        return None
    return Grant((GpuUse(""),) * ask.gpus, source=GrantSource.ASKED)
