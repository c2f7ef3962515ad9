"""What the engine consists of: the parts that it makes again when it forgets, and what it keeps."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field

from fairlead.cluster.cluster import Cluster
from fairlead.cluster.demand import Demand
from fairlead.cluster.gpu_tenants import GpuTenants
from fairlead.cluster.holdings import Holding
from fairlead.engine.bind_data import BindEncoder
from fairlead.engine.binds import Binds
from fairlead.engine.claim_gates import ClaimGates
from fairlead.engine.claim_looks import ClaimLooks
from fairlead.engine.consolidation.allowance import MoveAllowance
from fairlead.engine.consolidation.consolidation import Consolidation
from fairlead.engine.consolidation.planning import Planning
from fairlead.engine.counted import CountedResources
from fairlead.engine.device_rooms import DeviceRooms
from fairlead.engine.evictions import Evictions
from fairlead.engine.extended_resources import ExtendedResources
from fairlead.engine.extender_queries import ExtenderQueries
from fairlead.engine.extender_stage import ExtenderStage
from fairlead.engine.gang_extenders import GangExtenders
from fairlead.engine.gangs import Gangs
from fairlead.engine.held_gpus import HeldGpus, HeldKind
from fairlead.engine.in_flight import InFlight
from fairlead.engine.kept_records import KeptRecords
from fairlead.engine.plans import Plans
from fairlead.engine.pod_rooms import PodRooms
from fairlead.engine.queues import Queues
from fairlead.engine.rejections import Rejections
from fairlead.engine.requeuer import Requeuer
from fairlead.engine.run_times import RunTimes
from fairlead.engine.service_goals import ServiceGoals
from fairlead.engine.service_record import ServiceRecord
from fairlead.engine.start_forecasts import StartForecasts
from fairlead.engine.start_record import StartRecord
from fairlead.engine.start_windows import StartWindows
from fairlead.model.backfill import BackfillTerms
from fairlead.model.consolidation import ConsolidationTerms
from fairlead.model.gpu_tenants import TenantTerms
from fairlead.model.http_extenders import ExtenderTerms
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.pods import Pod
from fairlead.model.service_classes import ServiceClass
from fairlead.model.topology import Topology
from fairlead.placement.place import Placement
from fairlead.placement.profile import Profile
from fairlead.queue.order import QueueOrder
from fairlead.queue.queue import SchedulingQueue
from fairlead.queue.quota import QuotaPolicy
from fairlead.queue.retry_times import RetryTimes


@dataclass(frozen=True, slots=True)
class EngineTerms:
    """What the engine was made with; `Engine` says what each is for."""

    profiles: Mapping[str, Profile]
    extender_profile: Profile | None
    encode: BindEncoder
    order: QueueOrder | None
    quota: QuotaPolicy | None
    topology: Topology
    consolidation: ConsolidationTerms
    retries: RetryTimes
    backfill: BackfillTerms
    extenders: Sequence[ExtenderTerms]
    tenants: TenantTerms | None


@dataclass(slots=True, eq=False)
class EngineMemory:
    """What stays when the engine forgets what the API server showed."""

    #: How long units run.
    run_times: RunTimes
    #: What was moved so far, and what may be.
    moved: MoveAllowance
    #: Reservations are allowed, and there was no pod yet that needs one.
    reserves: bool
    #: Whether to record why each pod was placed on its node.
    keeps_records: bool = False
    #: What pods ask for, those of other schedulers included if they ask for GPUs.
    demand: Demand = field(default_factory=Demand)
    #: Pods that were decided on, and are not seen on their node yet.
    in_flight: InFlight = field(default_factory=InFlight)
    rejections: Rejections = field(default_factory=Rejections)
    #: GPU-seconds that were kept free.
    held_totals: dict[HeldKind, float] = field(default_factory=dict)
    #: How forecasts of starts did.
    start_record: StartRecord = field(default_factory=StartRecord)
    #: How service classes did.
    service_record: ServiceRecord = field(default_factory=ServiceRecord)


class Parts:
    def __init__(
        self, terms: EngineTerms, kept: EngineMemory, utc_s: Callable[[float], float]
    ) -> None:
        """`utc_s`: the time of day, in seconds since 1970, at a time of the engine."""
        self.kept = kept
        self.utc_s = utc_s
        self.in_flight = kept.in_flight
        self.run_times = kept.run_times
        self._make_placements(terms)
        self._make_policies(terms)
        self._make_units(terms)
        self._make_plans(terms)

    def _make_placements(self, terms: EngineTerms) -> None:
        self.cluster = Cluster()
        self.cluster.topology.configured = terms.topology
        if terms.tenants is not None:
            self.cluster.columns.devices.tenancy = GpuTenants(terms.tenants)
        self.queue = SchedulingQueue(terms.order, terms.retries)
        self.placements = {
            name: Placement(profile, self.cluster) for name, profile in terms.profiles.items()
        }
        profile = terms.extender_profile
        placement = Placement(profile, self.cluster) if profile else None
        self.extender_queries = ExtenderQueries(placement, self.cluster) if placement else None
        #: Devices that are looked at before units with claims are tried.
        self.claim_looks = ClaimLooks(self.cluster, self.placements, self.queue)

    def _make_policies(self, terms: EngineTerms) -> None:
        self.requeuer = Requeuer(
            self.cluster, self.queue, self.placements, self.in_flight.evicting, terms.quota
        )
        self.requeuer.claim_looks = self.claim_looks
        #: Pods that HTTP extenders are asked about; None if there are no extenders.
        self.extending = (
            ExtenderStage(self.cluster, self.queue, terms.extenders) if terms.extenders else None
        )
        self.requeuer.extended_class = self.extending.class_of if self.extending else None
        #: Queues of teams.
        self.queues = Queues(
            self.cluster,
            self.queue,
            self.requeuer,
            lambda: self.utc_s(0.0),
            self.run_times.expected_s,
        )
        #: Licences, watts and other things of which there are so many in the cluster.
        self.counted = CountedResources(
            self.cluster, self.queue, self.placements, self.requeuer, self.utc_s
        )

    def _make_units(self, terms: EngineTerms) -> None:
        self.evictions = Evictions(self.cluster, self.queue, self.in_flight, self.requeuer)
        self.binds = Binds(self.cluster, terms.encode)
        self.gangs = Gangs(
            self.cluster,
            self.queue,
            self.in_flight,
            self.placements,
            self.requeuer,
            self.binds,
            self.queues.admissions,
            self.utc_s,
        )
        self.gangs.keep_records(lambda: self.kept.keeps_records)
        if self.extending is not None:
            self.gangs.ask(GangExtenders(self.cluster, self.placements, self.extending))
        #: Pods that are not tried before their resource claims can be used.
        self.claim_gates = ClaimGates(self.cluster, self.queue, self.put)
        self.extended = ExtendedResources(self.cluster, self.queue, self.put)
        #: Which moves would let a waiting unit start.
        self.planning = Planning(
            self.cluster, self.queue, self.placements, self.requeuer, self.queues
        )
        self.consolidation = Consolidation(
            self.cluster,
            self.queue,
            self.in_flight,
            self.planning,
            terms.consolidation,
            self.kept.moved,
        )
        self.queues.know_gangs(self.gangs.spec_of)
        self.gangs.rooms.reclaim_for = self.queues.reclaim_for
        self.gangs.rooms.reclaim_state = self.queues.reclaim_state
        self.gangs.rooms.moves_first = self.consolidation.prefer
        #: What was kept before a restart.
        self.kept_records = KeptRecords(self.cluster, self.queue, self.gangs.rooms.held)
        self.pod_rooms = PodRooms(self.queue, self.requeuer, self.gangs.rooms)
        #: Pods that wait for devices of others.
        self.device_rooms = DeviceRooms(
            self.cluster, self.queue, self.requeuer, self.gangs.rooms, self.placements
        )

    def _make_plans(self, terms: EngineTerms) -> None:
        #: Planned starts.
        self.plans = Plans(
            self.cluster,
            self.queue,
            self.placements,
            self.requeuer,
            self.run_times,
            terms.backfill,
            terms.order,
            self.utc_s,
            self.queues,
        )
        self.gangs.leave_room(self.plans.attempts)
        #: GPUs that are kept free, and for which unit or reservation.
        self.held_gpus = HeldGpus(self.cluster, self.queue, self.plans, self.kept.held_totals)
        #: Units that do not start yet.
        self.start_windows = self.requeuer.start_windows = StartWindows(
            self.queue, self.cluster.nominations, self.run_times, self.utc_s
        )
        self.requeuer.goal_waits.latest_start_s = self.start_windows.latest_start_s
        self.start_forecasts = StartForecasts(
            self.queue, self.plans, self.run_times, self.holding_of, self.kept.start_record
        )
        #: By when units are to start.
        self.service_goals = ServiceGoals(
            self.queue,
            self.start_windows,
            self.plans,
            self.queues.names.of,
            self.run_times.expected_s,
            self.utc_s,
            self.kept.service_record,
        )
        self.queues.know_goals(self.service_goals.goal_of)

    def know_classes(self, classes: Iterable[ServiceClass], now: float) -> None:
        """The service classes. It is called once."""
        found = tuple(classes)
        self.service_goals.configure(found, now)
        terms = {each.name: each.gpus for each in found if each.gpus is not None}
        self.cluster.put_gpu_terms(terms, self.service_goals.class_name_of)

    def holding_of(self, uid: str) -> Holding | None:
        return self.cluster.holdings.get(uid)

    def put(self, pod: Pod, now: float, not_before_s: float = 0.0) -> None:
        """Into the queue, or as it is now."""
        put = self.gangs.gather if pod.gang else self.queue.put
        put(pod, now=now, not_before_s=not_before_s)
