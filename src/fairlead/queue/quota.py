"""The question that is asked before a pod is placed: may its tenant have more?

The cluster knows what tenants hold, and a policy what they may hold. A tenant is part of the
equivalence class of a waiting pod, and never of its request: pods of all tenants share their views.
"""

from dataclasses import dataclass
from typing import Protocol

from fairlead.cluster.aspects import Aspect
from fairlead.cluster.tenants import Tenants
from fairlead.model.pods import Pod


@dataclass(frozen=True, slots=True)
class QuotaRefusal:
    """Why the pod waits though a node may fit."""

    #: The reason of the condition. "Unschedulable" is kept for pods that fit on no node.
    reason: str
    message: str
    #: What could end the wait; by default that some pod ends.
    woken_by: Aspect = Aspect.USAGE


class QuotaPolicy(Protocol):
    def tenant_of(self, pod: Pod) -> str:
        """The tenant that a pod is counted for."""
        ...

    def admits(self, pod: Pod, tenants: Tenants) -> QuotaRefusal | None:
        """None if the pod may be placed now.

        Pods with the same scheduler name, request, priority and tenant must get the same answer.
        """
        ...
