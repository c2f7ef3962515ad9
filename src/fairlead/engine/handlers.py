"""Which part of the engine takes in which event."""

from collections.abc import Callable
from typing import Any, TypeVar

from fairlead.cluster import claiming, reserving
from fairlead.cluster.data_sets import put_data
from fairlead.cluster.named_readings import put_named_reading
from fairlead.engine import events, releases, reservations, service_dumps, start_dumps
from fairlead.engine.instructions import Instruction
from fairlead.engine.parts import Parts
from fairlead.engine.pod_binding import PodBinding
from fairlead.engine.seen_pods import SeenPods
from fairlead.model.queues import UnitOrder

E = TypeVar("E")

#: What an event results in; None: no instructions.
Handler = Callable[[E, float], list[Instruction] | None]


class Handlers(dict[type, Handler[Any]]):
    """By the type of the event."""

    def on(self, kind: type[E], handler: Handler[E]) -> None:
        self[kind] = handler


def handlers_of(parts: Parts, binding: PodBinding) -> Handlers:
    """One for each event there is."""
    found = Handlers()
    _add_pods(found, SeenPods(parts))
    _add_outcomes(found, parts, binding)
    _add_nodes(found, parts)
    _add_objects(found, parts)
    _add_claims(found, parts)
    _add_gangs(found, parts)
    _add_queues(found, parts)
    _add_readings(found, parts)
    _add_run_times(found, parts)
    return found


def _add_pods(handlers: Handlers, pods: SeenPods) -> None:
    handlers.on(events.PodSeen, pods.seen)
    handlers.on(events.PodGone, pods.gone)
    handlers.on(events.PodRejected, pods.rejected)
    handlers.on(events.ReleaseOverdue, pods.release_overdue)


def _add_outcomes(handlers: Handlers, parts: Parts, binding: PodBinding) -> None:
    """How what the engine asked for went."""

    def eviction_ended(event: events.EvictionEnded, now: float) -> None:
        uid, problem = event.uid, event.problem
        if parts.consolidation.ended(uid, problem, now):
            return
        if not parts.gangs.released(uid, problem, now):
            parts.evictions.ended(uid, problem, now)

    def extenders_answered(event: events.ExtendersAnswered, _now: float) -> None:
        if parts.extending:
            parts.extending.answered(event.uid, event.answer)

    handlers.on(events.NodeChosen, binding.assume_external)
    handlers.on(events.Prepared, binding.prepared)
    handlers.on(events.PrepareFailed, binding.prepare_failed)
    handlers.on(events.BindDone, binding.done)
    handlers.on(events.BindFailed, binding.failed)
    handlers.on(events.EvictionEnded, eviction_ended)
    handlers.on(events.ExtendersAnswered, extenders_answered)


def _add_nodes(handlers: Handlers, parts: Parts) -> None:
    cluster, plans = parts.cluster, parts.plans

    def node_seen(event: events.NodeSeen, _now: float) -> None:
        node = event.node
        cluster.put_node(node)
        for uid in releases.confirmed(cluster, node):
            cluster.release(uid)
        cluster.trust(f"node/{node.name}")
        if plans.advance:
            plans.advance.node_seen(node)

    def node_gone(event: events.NodeGone, _now: float) -> None:
        cluster.remove_node(event.name)
        if plans.advance:
            plans.advance.node_gone(event.name)
        cluster.trust(f"node/{event.name}")

    def inventory_seen(event: events.InventorySeen, _now: float) -> None:
        cluster.put_inventory(event.node, event.source, event.inventory)

    handlers.on(events.NodeSeen, node_seen)
    handlers.on(events.NodeGone, node_gone)
    handlers.on(events.InventorySeen, inventory_seen)
    handlers.on(events.NodeDistrusted, lambda event, _: cluster.distrust(event.name, event.cause))
    handlers.on(events.TrustRestored, lambda event, _: cluster.trust(event.cause))
    _add_reservations(handlers, parts)


def _add_reservations(handlers: Handlers, parts: Parts) -> None:
    """GPUs of device plugins that are reserved for shares."""
    cluster = parts.cluster

    def idle(event: events.ReservationIdle, _now: float) -> list[Instruction]:
        return [*reservations.close(cluster, event.node, event.number)]

    handlers.on(events.ReservationIdle, idle)
    handlers.on(
        events.ReservationsPaused, lambda event, _: reserving.pause(cluster, event.node, event.why)
    )


def _add_objects(handlers: Handlers, parts: Parts) -> None:
    cluster, topology = parts.cluster, parts.cluster.topology

    def server_known(event: events.ServerKnown, _now: float) -> None:
        cluster.behaviour = event.behaviour

    def namespace_seen(event: events.NamespaceSeen, _now: float) -> None:
        if cluster.put_namespace(event.name, event.labels):
            parts.requeuer.sort_again()
        parts.queues.namespace_seen(event.name, event.queue)

    def selector_seen(event: events.SelectorSeen, _now: float) -> None:
        selectors = cluster.default_selectors
        selectors.put(event.kind, event.namespace, event.name, event.selector)

    handlers.on(events.ServerKnown, server_known)
    handlers.on(events.NamespaceSeen, namespace_seen)
    handlers.on(events.SelectorSeen, selector_seen)
    handlers.on(events.StorageSeen, lambda event, _: cluster.put_storage(event.told))
    handlers.on(events.StorageGone, lambda event, _: cluster.remove_storage(event.gone))
    handlers.on(
        events.BudgetSeen, lambda event, _: cluster.put_budget(event.budget.key, event.budget)
    )
    handlers.on(events.BudgetGone, lambda event, _: cluster.put_budget(event.key, None))
    handlers.on(
        events.HyperNodeSeen,
        lambda event, _: topology.put_hyper_node(event.name, event.hyper_node),
    )


def _add_claims(handlers: Handlers, parts: Parts) -> None:
    def seen(event: events.ClaimObjectSeen, now: float) -> None:
        if claiming.put(parts.cluster, event.seen):
            parts.device_rooms.claim_seen(event.seen, now)
            parts.claim_gates.seen(event.seen, now)
            parts.extended.seen(event.seen, now)

    def gone(event: events.ClaimObjectGone, now: float) -> None:
        claiming.remove(parts.cluster, event.gone)
        parts.device_rooms.claim_seen(event.gone, now)
        parts.claim_gates.seen(event.gone, now)
        parts.extended.seen(event.gone, now)

    handlers.on(events.ClaimObjectSeen, seen)
    handlers.on(events.ClaimObjectGone, gone)


def _add_gangs(handlers: Handlers, parts: Parts) -> None:
    gangs = parts.gangs

    def gang_seen(event: events.GangSeen, now: float) -> None:
        parts.cluster.claims.groups.put(event.spec)
        gangs.object_seen(event.spec, now)
        parts.queues.gang_seen(event.spec)

    def gang_gone(event: events.GangGone, now: float) -> None:
        parts.cluster.claims.groups.drop(event.key)
        gangs.object_gone(event.key, now)

    handlers.on(events.GangSeen, gang_seen)
    handlers.on(events.GangGone, gang_gone)
    handlers.on(
        events.GangKindSeen, lambda event, now: gangs.kind_seen(event.dialect, event.problem, now)
    )
    handlers.on(
        events.TopologySeen, lambda event, now: gangs.topology_seen(event.key, event.topology, now)
    )
    handlers.on(events.NodeRequestsServed, gangs.node_requests.told)
    handlers.on(events.NodeRequestSeen, gangs.node_requests.told)


def _add_queues(handlers: Handlers, parts: Parts) -> None:
    """What limits units beside nodes: queues, advance reservations, counted resources."""
    queues, plans, counted = parts.queues, parts.plans, parts.counted

    def queue_seen(event: events.QueueSeen, now: float) -> None:
        queues.seen(event.spec)
        plans.queue_seen(event.spec.key, event.spec.backfill)
        if event.spec.order is UnitOrder.SLACK:
            parts.service_goals.begin(now)
        parts.gangs.rooms.limits_changed()

    def queue_gone(event: events.QueueGone, _now: float) -> None:
        queues.gone(event.key)
        plans.queue_seen(event.key, None)
        parts.gangs.rooms.limits_changed()

    def kind_seen(event: events.QueueKindSeen, _now: float) -> None:
        queues.kind_seen(event.dialect, event.problem, is_served=event.is_served)

    handlers.on(events.QueueSeen, queue_seen)
    handlers.on(events.QueueGone, queue_gone)
    handlers.on(events.QueueKindSeen, kind_seen)
    handlers.on(events.AdvanceSeen, lambda event, _: plans.advance_seen(event.reservation))
    handlers.on(events.AdvanceGone, lambda event, _: plans.advance_gone(event.name))
    handlers.on(events.CountedSeen, lambda event, now: counted.seen(event.resource, now))
    handlers.on(events.CountedGone, lambda event, now: counted.gone(event.name, now))


def _add_readings(handlers: Handlers, parts: Parts) -> None:
    cluster, windows = parts.cluster, parts.start_windows
    handlers.on(events.PricesComputed, lambda event, _: cluster.put_prices(event.prices))
    handlers.on(events.ReadingsTaken, lambda event, now: cluster.put_readings(event.readings, now))
    handlers.on(events.FiguresSeen, lambda event, _: cluster.put_figures(event.seen))
    handlers.on(events.ReadingSeen, lambda event, _: put_named_reading(cluster, event.seen))
    handlers.on(events.PlanComputed, parts.gangs.plan_computed)
    handlers.on(events.DataSeen, lambda event, _: put_data(cluster, event.seen))
    handlers.on(events.ForecastSeen, lambda event, now: windows.put(event.forecast, now))


def _add_run_times(handlers: Handlers, parts: Parts) -> None:
    run_times, record = parts.run_times, parts.kept.start_record

    def owner_seen(event: events.OwnerRunTimeSeen, _now: float) -> None:
        run_times.owners.put(event.owner, event.run_time, event.started)

    def record_loaded(event: events.StartRecordLoaded, _now: float) -> None:
        record.take(start_dumps.load(event.data, parts.utc_s(0.0)))

    handlers.on(events.RunEnded, lambda event, _: run_times.ended(event))
    handlers.on(events.OwnerRunTimeSeen, owner_seen)
    handlers.on(events.RunTimesLoaded, lambda event, _: run_times.load(event.data))
    handlers.on(events.ForecastDue, lambda event, now: parts.start_forecasts.note(event.depth, now))
    handlers.on(events.StartRecordLoaded, record_loaded)
    _add_service_classes(handlers, parts)


def _add_service_classes(handlers: Handlers, parts: Parts) -> None:
    record = parts.kept.service_record
    handlers.on(
        events.ServiceClassesSeen, lambda event, now: parts.know_classes(event.classes, now)
    )
    handlers.on(
        events.ServiceRecordLoaded, lambda event, _: record.take(service_dumps.load(event.data))
    )
