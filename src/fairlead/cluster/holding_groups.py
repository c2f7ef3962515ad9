"""Holdings by tenant and priority: which pods may be evicted depends on these two alone.

Nothing is kept before it is asked for.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fairlead.cluster.holdings import Holding

#: By priority and uid.
TenantGroups = Mapping[int, Mapping[str, "Holding"]]


class HoldingGroups:
    def __init__(self, holdings: Iterable["Holding"]) -> None:
        #: Of pods without a tenant by the empty word.
        self.by_tenant: dict[str, dict[int, dict[str, Holding]]] = {}
        self._group_of: dict[str, tuple[str, int]] = {}
        for held in holdings:
            self.put(held)

    def put(self, held: "Holding") -> None:
        tenant, priority = held.tenant or "", held.pod.priority
        self._group_of[held.pod.uid] = tenant, priority
        groups = self.by_tenant.setdefault(tenant, {})
        groups.setdefault(priority, {})[held.pod.uid] = held

    def take(self, uid: str) -> None:
        place = self._group_of.pop(uid, None)
        if place is None:
            return
        tenant, priority = place
        groups = self.by_tenant[tenant]
        del groups[priority][uid]
        if not groups[priority]:
            del groups[priority]
            if not groups:
                del self.by_tenant[tenant]
