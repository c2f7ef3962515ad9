"""`fairlead run`: from a plan to a scheduler at work, and to a clean end."""

import logging
from dataclasses import replace

import structlog

from fairlead import __version__
from fairlead.apps.collection import GarbageCollection, spare_the_collector
from fairlead.apps.config.run_plan import RunOptions, RunPlan, plan
from fairlead.apps.decision_log.frames import LogHeader
from fairlead.apps.decision_log.recording import DecisionLog, described
from fairlead.apps.explain.scope import Answer, ExplanationScope
from fairlead.apps.fast_loop import run_in_fast_loop, until_signalled
from fairlead.apps.live.learned import LearnedPlace
from fairlead.apps.queues.reader import QueueReader
from fairlead.apps.run.options import planned_options
from fairlead.apps.run.scheduler import Scheduler
from fairlead.apps.serving import connections, health
from fairlead.apps.serving.access import access as access_to
from fairlead.apps.serving.details import Details, Explain
from fairlead.kube.access.kubeconfig import load_access
from fairlead.kube.access.reviews import Reviews
from fairlead.kube.http.client import Client
from fairlead.kube.leadership.presence import Presence
from fairlead.model.consolidation import MoveLimits
from fairlead.telemetry.metrics import Metrics

log = structlog.get_logger(__name__)


def run(options: RunOptions) -> None:
    """Schedules until SIGINT or SIGTERM, then stops cleanly."""
    prepared = plan(options)
    for note in prepared.notes:
        log.info("configuration note", key=note.key, note=note.text)
    for warning in prepared.warnings:
        log.warning("configuration warning", key=warning.key, warning=warning.text)
    spare_the_collector()
    run_in_fast_loop(lambda: _run(options, prepared))


async def _run(options: RunOptions, prepared: RunPlan) -> None:
    access = load_access(options.kubeconfig, options.context)
    terms = prepared.electing.terms(access)
    client = Client(access, user_agent=f"fairlead/{__version__}")
    metrics = Metrics()
    told = replace(
        planned_options(prepared),
        terms=terms,
        learned_in=LearnedPlace(terms.namespace, terms.name) if terms else None,
        expects_variables=options.expects_variables,
        reservations=options.reservations.plan(access),
        decisions=open_decision_log(options, prepared, elects=terms is not None),
    )
    scheduler = Scheduler(client, prepared.profiles, told, metrics=metrics)
    seen_by = access_to(prepared.address, prepared.authenticate, Reviews(client))
    app = health.make_app(
        metrics.registry,
        scheduler.unready_because,
        lambda: scheduler.standing,
        Details(
            seen_by,
            scheduler.usage,
            _explainer(scheduler, prepared.consolidation.limits),
            scheduler.unready_because,
            QueueReader(scheduler.engine),
        ),
    )
    try:
        served = await connections.serve(app, prepared.address, prepared.port)
        log.info(
            "started",
            version=__version__,
            server=access.server,
            schedulers=sorted(prepared.profiles),
            lease=f"{terms.namespace}/{terms.name}" if terms else "none",
            health=f"http://{prepared.address}:{served.number}",
        )
        try:
            alone = Presence(client, prepared.profiles) if terms is None else None
            working = alone.during(scheduler.run) if alone else scheduler.run()
            collection = GarbageCollection(
                lambda: not scheduler.unready_because(), scheduler.is_quiet
            )
            await until_signalled(collection.during(working))
        finally:
            await served.cleanup()
    finally:
        await client.close()
    log.info("stopped")


def _explainer(scheduler: Scheduler, limits: MoveLimits) -> Explain:
    def explain(key: str, shown: ExplanationScope) -> Answer | None:
        from fairlead.apps.explain.explanation import Explainer  # most programs never need it

        return Explainer(scheduler.engine, scheduler.pod, limits)(key, shown)

    return explain


def _have_goals(prepared: RunPlan) -> bool:
    """Then the decision log says what they counted."""
    return any(profile.goals for profile in prepared.profiles.values())


def open_decision_log(
    options: RunOptions, prepared: RunPlan, *, elects: bool
) -> DecisionLog | None:
    """None where nothing is recorded."""
    if prepared.decision_log is None:
        return None
    header = LogHeader(
        version=__version__,
        config=options.config.read_text() if options.config else "",
        scheduler_name=options.scheduler_name,
        profile=options.profile,
        profiles={name: described(profile) for name, profile in prepared.profiles.items()},
        reserves=bool(options.reservations.image),
        elects=elects,
        keeps_records=log.is_enabled_for(logging.DEBUG) or _have_goals(prepared),
    )
    return DecisionLog(prepared.decision_log, header)
