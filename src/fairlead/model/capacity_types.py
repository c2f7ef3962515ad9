"""How capacity is paid for, by the labels of platforms, and what a pod accepts of it.

fairlead.dev/capacity-type: on-demand            # never on spot capacity
fairlead.dev/capacity-type: spot-allowed         # as without the annotation
fairlead.dev/capacity-type: spot-preferred       # on spot capacity where it fits
fairlead.dev/capacity-type: spot-preferred 30m   # and it waits for that so long
fairlead.dev/capacity-type: spot-at-most 50%     # of the pods of its gang
"""

from collections.abc import Mapping
from enum import IntEnum

from fairlead.model.lazy_dataclass import dataclass

CAPACITY_TYPE = "fairlead.dev/capacity-type"


class CapacityType(IntEnum):
    """Of a node. Only spot capacity is taken away by its provider at short notice."""

    UNKNOWN = 0  #: no label says it; it counts as on-demand
    ON_DEMAND = 1
    RESERVED = 2
    SPOT = 3

    @property
    def word(self) -> str:
        return self.name.lower().replace("_", "-")


#: By label key (Karpenter, EKS, GKE, AKS): what its values mean.
_LABELS: Mapping[str, Mapping[str, CapacityType]] = {
    "karpenter.sh/capacity-type": {
        "spot": CapacityType.SPOT,
        "on-demand": CapacityType.ON_DEMAND,
        "reserved": CapacityType.RESERVED,
    },
    "eks.amazonaws.com/capacityType": {
        "SPOT": CapacityType.SPOT,
        "ON_DEMAND": CapacityType.ON_DEMAND,
        "CAPACITY_BLOCK": CapacityType.RESERVED,
    },
    "cloud.google.com/gke-spot": {"true": CapacityType.SPOT},
    "cloud.google.com/gke-preemptible": {"true": CapacityType.SPOT},
    "cloud.google.com/gke-provisioning": {
        "spot": CapacityType.SPOT,
        "preemptible": CapacityType.SPOT,
        "standard": CapacityType.ON_DEMAND,
        "reservation": CapacityType.RESERVED,
    },
    "kubernetes.azure.com/scalesetpriority": {
        "spot": CapacityType.SPOT,
        "regular": CapacityType.ON_DEMAND,
    },
}
#: Labels that say how a node is paid for.
LABEL_KEYS = tuple(_LABELS)


def capacity_type(labels: Mapping[str, str]) -> CapacityType:
    """Of a node with these labels. Where labels contradict each other, spot counts."""
    found = CapacityType.UNKNOWN
    for key, meanings in _LABELS.items():
        value = labels.get(key)
        if value is not None:
            found = max(found, meanings.get(value, CapacityType.UNKNOWN))
    return found


@dataclass(frozen=True, slots=True)
class CapacityTerms:
    """What a pod accepts."""

    on_demand_only: bool = False
    prefers_spot: bool = False
    #: How long it waits for spot capacity although other nodes fit.
    wait_s: float = 0.0
    #: The largest share of the pods of its gang on spot capacity; None: any.
    spot_share: float | None = None
