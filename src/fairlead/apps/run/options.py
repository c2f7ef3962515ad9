"""What a scheduler is told before it starts, beside its profiles."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from fairlead.apps.config.extender_terms import ExtenderPlan
from fairlead.apps.config.run_plan import RunPlan
from fairlead.apps.decision_log.recording import DecisionLog
from fairlead.apps.live.learned import LearnedPlace
from fairlead.apps.run.verification import EVERY_S
from fairlead.kube.gangs.registry import ALL, GangDialects
from fairlead.kube.leadership.election import Terms
from fairlead.kube.queues.registry import ALL_QUEUES, QueueDialects
from fairlead.kube.reservations import ReservationPlan
from fairlead.model.backfill import NO_BACKFILL, BackfillTerms
from fairlead.model.behaviour import Behaviour
from fairlead.model.consolidation import NO_MOVES, ConsolidationTerms
from fairlead.model.gpu_tenants import TenantTerms
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.node_requests import RequestTerms
from fairlead.model.service_classes import ServiceClass
from fairlead.model.topology import NO_LEVELS, Topology
from fairlead.placement.profile import Profile

if TYPE_CHECKING:
    from fairlead.telemetry.figures.figure_sources import FigurePlan
    from fairlead.telemetry.figures.forecast_sources import ForecastPlan
    from fairlead.telemetry.figures.reading_sources import ReadingPlan
    from fairlead.telemetry.sources import SourcePlan


@dataclass(frozen=True, slots=True)
class SchedulerOptions:
    max_binds_in_flight: int = 64
    verify_every_s: float = EVERY_S
    #: It stands by until it is elected on these; None: it decides at once.
    terms: Terms | None = None
    #: The ConfigMap where it keeps what it learns; None: nowhere.
    learned_in: LearnedPlace | None = None
    #: Warn about each GPU pod that was bound without variables.
    expects_variables: bool = False
    #: Of the pods about which another scheduler asks.
    extender_profile: Profile | None = None
    #: Shares are also assigned on nodes with NVIDIA's device plugin.
    reservations: ReservationPlan | None = None
    #: What GPUs do; a standby asks, too: it decides by that from the first pod on.
    sources: "Sequence[SourcePlan]" = ()
    #: What nodes cost, draw and emit.
    figures: "Sequence[FigurePlan]" = ()
    #: What else the configuration names.
    readings: "Sequence[ReadingPlan]" = ()
    #: Which hours are cheap, or have little carbon.
    forecasts: "Sequence[ForecastPlan]" = ()
    #: What is asked over HTTP about pods.
    extenders: Sequence[ExtenderPlan] = ()
    #: How long units may wait.
    service_classes: tuple[ServiceClass, ...] = ()
    #: Pods of different tenants share no GPU.
    tenants: TenantTerms | None = None
    #: Which pods belong together; not where another scheduler decides.
    gang_dialects: GangDialects = ALL
    #: How nodes are requested for gangs that lack them.
    node_requests: RequestTerms | None = None
    #: What teams may use; not where another scheduler decides, either.
    queue_dialects: QueueDialects = ALL_QUEUES
    #: The levels that rules of gangs name.
    topology: Topology = NO_LEVELS
    #: Whether pods are moved so that others start.
    consolidation: ConsolidationTerms = NO_MOVES
    #: Whether starts of waiting pods are planned.
    backfill: BackfillTerms = NO_BACKFILL
    #: Where all that is decided is recorded.
    decisions: DecisionLog | None = None
    #: Is told what the API server is before anything else is asked of it.
    on_server: Callable[[Behaviour], None] = lambda _: None


def planned_options(prepared: RunPlan) -> SchedulerOptions:
    """What a configuration says."""
    return SchedulerOptions(
        max_binds_in_flight=prepared.max_binds_in_flight,
        sources=prepared.sources,
        figures=prepared.figures,
        readings=prepared.readings,
        forecasts=prepared.forecasts,
        extenders=prepared.extenders,
        service_classes=prepared.service_classes,
        tenants=prepared.tenants,
        gang_dialects=prepared.gang_dialects,
        node_requests=prepared.node_requests,
        queue_dialects=prepared.queue_dialects,
        topology=prepared.topology,
        consolidation=prepared.consolidation,
        backfill=prepared.backfill,
        on_server=prepared.meet,
    )
