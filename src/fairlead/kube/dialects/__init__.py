"""Every dialect that Fairlead speaks, and the one place where they meet."""

from collections.abc import Mapping

from fairlead.kube.dialects import discovery
from fairlead.kube.dialects.api import Asking, Dialect, Offering
from fairlead.kube.dialects.nvidia import Nvidia
from fairlead.kube.dialects.ours import Ours
from fairlead.model.gpus import GpuAsk, Grant, Inventory
from fairlead.model.pods import Pod

__all__ = [
    "DIALECTS",
    "KEYS",
    "Asking",
    "Offering",
    "read_ask",
    "read_grant",
    "read_inventory",
    "tell",
]

_OURS = Ours()
#: Whoever says most about a pod or a node comes first; plain counts come last.
DIALECTS: tuple[Dialect, ...] = (_OURS, Nvidia())
_BY_NAME = {dialect.name: dialect for dialect in DIALECTS}

#: Annotations of pods that some dialect reads.
KEYS = frozenset(key for dialect in DIALECTS for key in dialect.keys)


def read_ask(asking: Asking) -> GpuAsk | None:
    """What the pod asks of GPUs, in the first dialect that understands it."""
    return next(filter(None, (dialect.ask(asking) for dialect in DIALECTS)), None)


def read_inventory(offering: Offering) -> Inventory | None:
    """The node's cards one by one if anybody lists them, else what its labels tell of them."""
    found = next(filter(None, (dialect.inventory(offering) for dialect in DIALECTS)), None)
    return discovery.counted(offering) if found is None else discovery.completed(found, offering)


def read_grant(annotations: Mapping[str, str]) -> Grant | None:
    """The cards that a bound pod was given, if anybody says."""
    if KEYS.isdisjoint(annotations):
        return None
    return next(filter(None, (dialect.grant(annotations) for dialect in DIALECTS)), None)


def tell(pod: Pod, node: str, grant: Grant) -> dict[str, str]:
    """The annotations that go with the bind."""
    return {**_OURS.tell(pod, node, grant), **_BY_NAME[grant.dialect].tell(pod, node, grant)}
