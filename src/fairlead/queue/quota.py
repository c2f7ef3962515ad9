"""The question that is asked before a pod is placed: may its tenant have more?

The cluster knows what tenants hold, and a policy what they may hold. A tenant is part of the
equivalence class of a waiting pod, and never of its request: pods of all tenants share their views.
"""

from collections.abc import Collection, Iterable
from typing import Protocol

from fairlead.cluster.aspects import Aspect
from fairlead.cluster.tenants import Tenants
from fairlead.model.gpus import Grant
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.pods import Pod


@dataclass(frozen=True, slots=True)
class QuotaRefusal:
    """Why the pod waits though a node may fit."""

    #: The reason of the condition. "Unschedulable" is kept for pods that fit on no node.
    reason: str
    message: str
    #: What could end the wait; by default that some pod ends.
    woken_by: Aspect = Aspect.USAGE
    #: The queue whose change could end the wait; "": a change of any queue; None: of no queue.
    queue: str | None = None
    #: Where an amount is the reason: of which resource, and how much.
    resource: str = ""
    limit: int = 0
    used: int = 0
    asked: int = 0


class QuotaPolicy(Protocol):
    def tenant_of(self, pod: Pod) -> str:
        """The tenant that a pod is counted for."""
        ...

    def class_of(self, pod: Pod) -> str:
        """Its part of the equivalence class: the tenant, and what else makes a difference."""
        ...

    def admits(self, pod: Pod, tenants: Tenants) -> QuotaRefusal | None:
        """None if the pod may be placed now.

        Pods with the same scheduler name, request, priority and class must get the same answer.
        """
        ...

    def admits_on(self, pod: Pod, node: str, grant: Grant | None) -> QuotaRefusal | None:
        """None if the pod may have these GPUs of the node."""
        ...

    def models_beyond(self, pod: Pod, models: Iterable[str]) -> list[str]:
        """Those of which the pod may have no GPUs; asked when `admits_on` has refused it."""
        ...

    def admits_some(self, pods: Collection[Pod], needed: int) -> QuotaRefusal | None:
        """None if so many of these pods may be placed together now."""
        ...
