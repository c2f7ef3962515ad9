"""What each tenant holds: a fact about the cluster, kept as holdings come and go.

What a tenant may hold is policy, and not known here. Nothing is counted until it is asked for.
A pod is counted for the tenant that it had when it came to its node: an edit moves no use.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import field
from typing import TYPE_CHECKING

from fairlead.cluster.charges import ChargeOf
from fairlead.cluster.holding_groups import HoldingGroups
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.pods import Amounts, Pod

if TYPE_CHECKING:
    from fairlead.cluster.holdings import Holding

#: The tenant of a pod, such as the key of its queue; empty: it is not counted.
TenantOf = Callable[[Pod], str]

#: A holding of the tenant comes (+1) or goes (-1), and what it counts for.
OnChange = Callable[[str, "Holding", Amounts, int], None]


@dataclass(slots=True)
class TenantUse:
    """What the pods of one tenant hold together, assumed holdings included."""

    pods: int = 0
    #: In the amounts of a queue; those that are 0 may be missing.
    amounts: Counter[str] = field(default_factory=Counter)

    def add(self, charge: Amounts, sign: int) -> None:
        self.pods += sign
        amounts, get = self.amounts, self.amounts.get
        for name, amount in charge:
            amounts[name] = get(name, 0) + sign * amount


NO_USE = TenantUse()


class Tenants:
    """The use of every tenant that holds anything. A pod is counted for one tenant."""

    def __init__(
        self,
        tenant_of: TenantOf,
        charge_of: ChargeOf,
        holdings: Iterable["Holding"],
        on_change: OnChange | None = None,
    ) -> None:
        """`on_change` is called for what comes and goes after these holdings."""
        self._tenant_of = tenant_of
        self._charge_of = charge_of
        self._on_change: OnChange | None = None
        self._use: dict[str, TenantUse] = {}
        #: What each pod was counted as.
        self._charges: dict[str, Amounts] = {}
        self._groups: HoldingGroups | None = None
        for held in holdings:
            held.tenant = None
            self.put(held)
        self._on_change = on_change

    def use_of(self, tenant: str) -> TenantUse:
        """To be read, and not kept: it changes with every holding."""
        return self._use.get(tenant, NO_USE)

    def __iter__(self) -> Iterator[tuple[str, TenantUse]]:
        return iter(self._use.items())

    def charge(self, uid: str) -> Amounts:
        """What the pod is counted as; nothing if it has no tenant."""
        return self._charges.get(uid, ())

    def groups(self, holdings: Iterable["Holding"]) -> HoldingGroups:
        """All holdings by tenant and priority; `holdings` are those that are there."""
        if self._groups is None:
            self._groups = HoldingGroups(holdings)
        return self._groups

    def put(self, held: "Holding") -> None:
        tenant = held.tenant
        if tenant is None:
            tenant = held.tenant = self._tenant_of(held.pod)
        if self._groups is not None:
            self._groups.put(held)
        if not tenant:
            return
        charge = self._charges[held.pod.uid] = self._charge_of(held)
        use = self._use.get(tenant)
        if use is None:
            use = self._use[tenant] = TenantUse()
        use.add(charge, +1)
        if self._on_change is not None:
            self._on_change(tenant, held, charge, +1)

    def take(self, held: "Holding") -> None:
        if self._groups is not None:
            self._groups.take(held.pod.uid)
        charge = self._charges.pop(held.pod.uid, None)
        if charge is None or not held.tenant:
            return
        use = self._use[held.tenant]
        use.add(charge, -1)
        if not use.pods:
            del self._use[held.tenant]
        if self._on_change is not None:
            self._on_change(held.tenant, held, charge, -1)

    def move(self, held: "Holding") -> None:
        """It was not known yet whose the pod is, or what GPUs its node has."""
        self.take(held)
        held.tenant = None
        self.put(held)

    def count_again(self, held: "Holding") -> None:
        """The GPUs of its node are other ones than before."""
        if held.tenant and self._charge_of(held) != self._charges.get(held.pod.uid):
            self.take(held)
            self.put(held)
