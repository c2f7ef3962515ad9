"""What each tenant holds: a fact about the cluster, kept as holdings come and go.

What a tenant may hold is policy, and not known here. Nothing is counted until it is asked for.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fairlead.model.pods import Pod

if TYPE_CHECKING:
    from fairlead.cluster.holdings import Holding

#: The tenant of a pod, such as its namespace.
TenantOf = Callable[[Pod], str]


@dataclass(slots=True)
class TenantUse:
    """What the pods of one tenant hold together, assumed holdings included."""

    pods: int = 0
    #: By resource; those that are 0 may be missing.
    amounts: Counter[str] = field(default_factory=Counter)
    #: Of single GPUs: compute in thousandths of a GPU, and memory where it was asked for.
    gpu_milli: int = 0
    gpu_mib: int = 0

    def add(self, held: "Holding", sign: int) -> None:
        self.pods += sign
        for name, amount in held.amounts:
            self.amounts[name] += sign * amount
        for use in held.grant.uses if held.grant else ():
            self.gpu_milli += sign * use.milli
            self.gpu_mib += sign * use.memory_mib


NO_USE = TenantUse()


class Tenants:
    """The use of every tenant that holds anything. A pod is counted for one tenant."""

    def __init__(self, tenant_of: TenantOf, holdings: Iterable["Holding"]) -> None:
        self._tenant_of = tenant_of
        self._use: dict[str, TenantUse] = {}
        #: For whom each pod was counted: its labels may change while it is there.
        self._counted_for: dict[str, str] = {}
        for held in holdings:
            self.put(held)

    def use_of(self, tenant: str) -> TenantUse:
        """To be read, and not kept: it changes with every holding."""
        return self._use.get(tenant, NO_USE)

    def __iter__(self) -> Iterator[tuple[str, TenantUse]]:
        return iter(self._use.items())

    def put(self, held: "Holding") -> None:
        tenant = self._counted_for[held.pod.uid] = self._tenant_of(held.pod)
        self._use.setdefault(tenant, TenantUse()).add(held, +1)

    def take(self, held: "Holding") -> None:
        tenant = self._counted_for.pop(held.pod.uid)
        use = self._use[tenant]
        use.add(held, -1)
        if not use.pods:
            del self._use[tenant]

    def follow(self, held: "Holding") -> None:
        """The pod holds the same as before, and may belong to another tenant now."""
        if self._counted_for[held.pod.uid] != self._tenant_of(held.pod):
            self.take(held)
            self.put(held)
