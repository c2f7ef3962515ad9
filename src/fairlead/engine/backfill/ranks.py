"""Which of two waiting units comes first, where starts are planned."""

from collections.abc import Callable

from fairlead.engine.backfill.candidates import Candidates
from fairlead.engine.backfill.futures import UnitKey
from fairlead.model.backfill import BackfillMode
from fairlead.queue.entries import Entry
from fairlead.queue.order import PrioritySort, QueueOrder
from fairlead.queue.service_order import ExpectedOf, ServiceOrder, service_key
from fairlead.queue.units import Unit


class UnitRanks:
    def __init__(
        self,
        order: QueueOrder | None,
        expected_of: ExpectedOf,
        scope_of: "Callable[[Unit], tuple[BackfillMode, Candidates]]",
    ) -> None:
        """`scope_of`: how units are planned that are planned together, and those of them."""
        self._order = None if order is None or isinstance(order, PrioritySort) else order
        self._expected_of = expected_of
        self._scope_of = scope_of

    @property
    def is_by_service(self) -> bool:
        """Whether all units are: the queue orders units of one class so already."""
        return isinstance(self._order, ServiceOrder)

    def order_of(self, entry: Entry) -> UnitKey:
        """Its place among all units."""
        ticket = self._scope_of(entry.unit)[1].ticket(entry)
        if self._order is not None:
            return *self._order.active(entry), ticket
        return -entry.unit.priority, entry.first_queued_s, ticket

    def rank_of(self, entry: Entry) -> UnitKey:
        """Its place among units that are planned together."""
        mode, candidates = self._scope_of(entry.unit)
        if mode is not BackfillMode.SHORT_FIRST:
            return self.order_of(entry)
        return *service_key(entry, self._expected_of), candidates.ticket(entry)
