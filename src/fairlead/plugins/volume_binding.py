"""Claims must be bound to volumes that the node can reach, or be bindable there."""

from collections.abc import Iterable
from dataclasses import field
from typing import ClassVar

import numpy as np

from fairlead.cluster.arrays import NodeMask, NodeScores
from fairlead.cluster.aspects import Aspect
from fairlead.cluster.nodes import Nodes
from fairlead.cluster.storage import Storage
from fairlead.cluster.volume_outlook import MOST_WAITING, look, sorted_out
from fairlead.cluster.volume_room import worth
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.pods import PodRequest
from fairlead.model.volumes import VolumeClaimUse
from fairlead.plugins.api import Reason
from fairlead.plugins.shapes import ScoringShape, check_shape, emptier_is_better, line_of
from fairlead.plugins.volume_step import VolumeStep

_UNBINDABLE = "node(s) didn't find available persistent volumes to bind"
_NOT_EVALUATED = (
    f"{_UNBINDABLE} among those that were evaluated: too many have a node affinity of their own"
)


@dataclass(frozen=True, slots=True)
class VolumeBinding:
    #: What storage is worth that becomes so full; only the score asks.
    shape: ScoringShape = field(default_factory=emptier_is_better)
    name: ClassVar[str] = "VolumeBinding"
    reads: ClassVar[Aspect] = Aspect.VOLUMES | Aspect.LABELS
    refusal: ClassVar[str] = "node(s) didn't match PersistentVolume's node affinity"
    resolvable: ClassVar[bool] = False
    depends_on_pods: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_shape(self.shape)

    def applies(self, request: PodRequest, nodes: Nodes) -> bool:
        return request.volumes is not None and bool(request.volumes.claims)

    def pre_filter(self, request: PodRequest, nodes: Nodes) -> str:
        uses = request.volumes.claims if request.volumes else ()
        problems = (problem_with(use, nodes.storage) for use in uses)
        if problem := next(filter(None, problems), ""):
            return problem
        if any(_is_overdue(use, nodes.storage) for use in uses):
            return "pod has unbound immediate PersistentVolumeClaims"
        waiting = sorted_out(request.volumes, nodes.storage)[1] if request.volumes else ()
        if len(waiting) > MOST_WAITING:
            return f"{len(waiting)} claims wait for the pod; Fairlead binds {MOST_WAITING} for one"
        return ""

    def allows(self, request: PodRequest, nodes: Nodes) -> NodeMask:
        if request.volumes is None:
            return nodes.all()
        return ~look(request.volumes, nodes).refused

    def reasons(self, request: PodRequest, nodes: Nodes) -> Iterable[Reason]:
        """A node may have one about what is bound and one about what is not."""
        if request.volumes is None:
            return
        found = look(request.volumes, nodes)
        for text, where in (
            (self.refusal, found.far),
            (_UNBINDABLE, found.unbindable & ~found.unread),
            (_NOT_EVALUATED, found.unread),
            ("node(s) did not have enough free storage", found.cramped),
            (
                "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
                found.lost,
            ),
        ):
            yield Reason(text, where, nodes.none())

    def applies_as_score(self, request: PodRequest, nodes: Nodes) -> bool:
        return nodes.behaviour.scores_free_storage and self.applies(request, nodes)

    def rank(self, request: PodRequest, nodes: Nodes, left: NodeMask) -> NodeScores:
        """kube-scheduler 1.37 likes nodes by how full their storage becomes; 1.36 does not ask."""
        if request.volumes is None or not nodes.behaviour.scores_free_storage:
            return np.zeros(len(nodes))
        return worth(look(request.volumes, nodes), nodes, line_of(self.shape))

    def prepares(self, request: PodRequest) -> bool:
        return request.volumes is not None

    def pre_bind(self, request: PodRequest, node: Nodes) -> VolumeStep | None:
        """What must be done about volumes before a pod is bound to the one node given."""
        if request.volumes is None:
            return None
        plan = look(request.volumes, node).plan(0)
        return VolumeStep(plan) if plan.claims else None


def problem_with(use: VolumeClaimUse, storage: Storage) -> str:
    """Why the claim is of no use to the pod wherever it goes, in kube-scheduler's words."""
    claim = storage.volume_claims.get(use.key)
    if claim is None and use.ephemeral:
        return (
            "waiting for ephemeral volume controller to create the persistentvolumeclaim "
            f'"{use.name}"'
        )
    if claim is None:
        return f'persistentvolumeclaim "{use.name}" not found'
    if claim.lost:
        return (
            f'persistentvolumeclaim "{claim.name}" bound to non-existent persistentvolume '
            f'"{claim.volume}"'
        )
    if claim.deleting:
        return f'persistentvolumeclaim "{claim.name}" is being deleted'
    if use.ephemeral and claim.owner != use.owner:
        return f"PVC {claim.key} was not created for pod {use.pod} (pod is not owner)"
    return ""


def _is_overdue(use: VolumeClaimUse, storage: Storage) -> bool:
    """It should have been bound without us."""
    claim = storage.volume_claims.get(use.key)
    return claim is not None and not claim.bound and not storage.waits(claim)
