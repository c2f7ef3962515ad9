"""How nodes are requested for gangs that lack them."""

from collections.abc import Mapping
from dataclasses import field

from fairlead.model.lazy_dataclass import dataclass

#: Cluster Autoscaler adds nodes for all pods of a request, or for none.
ATOMIC = "best-effort-atomic-scale-up.autoscaling.x-k8s.io"


@dataclass(frozen=True, slots=True)
class RequestTerms:
    class_name: str = ATOMIC
    #: For the class, such as `ValidUntilSeconds`.
    parameters: Mapping[str, str] = field(default_factory=dict)
    #: After this time a request that has ended is written again; then after twice the time.
    retry_s: float = 60.0
