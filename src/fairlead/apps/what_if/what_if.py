"""Reads the live cluster once, and looks ahead with and without changes. Nothing is written."""

import time
from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from pathlib import Path

import msgspec

from fairlead.apps.config.profiles import built_in
from fairlead.apps.config.run_plan import RunOptions, RunPlan, plan
from fairlead.apps.live.claim_templates import (
    missing_templates,
    read_templates,
    with_made_claims,
)
from fairlead.apps.live.live_engine import read_cluster
from fairlead.apps.what_if.changes import Changes, changed_events
from fairlead.apps.what_if.outlook import (
    ClusterOutlook,
    Horizon,
    UnitChange,
    compared,
    look_ahead,
    unit_name,
)
from fairlead.apps.what_if.taken_names import with_free_names
from fairlead.apps.what_if.workload import ManifestDefaults, ManifestPods, read_workload
from fairlead.engine.events import Event, PodSeen
from fairlead.kube.access.kubeconfig import load_access
from fairlead.kube.http.client import Client
from fairlead.model.backfill import BackfillMode
from fairlead.model.behaviour import Behaviour
from fairlead.model.claims import ResourceClaim
from fairlead.model.errors import ConfigError
from fairlead.model.lazy_dataclass import dataclass

_PRIORITY_CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"


@dataclass(frozen=True, slots=True)
class WhatIfOptions:
    run: RunOptions
    manifest: Path | None = None
    changes: Changes = field(default_factory=Changes)
    #: A built-in profile for all pods, and a mode of backfill; empty: as they are.
    profile: str = ""
    backfill: str = ""
    namespace: str = ""
    horizon: Horizon = field(default_factory=Horizon)


@dataclass(frozen=True, slots=True)
class WhatIfAnswer:
    units: list[UnitChange]
    before: ClusterOutlook
    after: ClusterOutlook
    #: Names of the units of the manifest.
    asked: tuple[str, ...]
    left_out: tuple[str, ...]
    #: The time of day, in seconds since 1970.
    now_s: float
    took_s: float
    nodes: int
    #: Why what the scheduler has learned about run times is not known; empty: it is.
    not_learned: str = ""
    #: HTTP extenders that a scheduler would ask about pods that wait, and that were not asked.
    not_asked: tuple[str, ...] = ()

    @property
    def starts(self) -> bool:
        """All units of the manifest start."""
        found = (self.after.units.get(name) for name in self.asked)
        return all(unit is not None and unit.start_s is not None for unit in found)


async def what_if(options: WhatIfOptions) -> WhatIfAnswer:
    access = load_access(options.run.kubeconfig, options.run.context)
    namespace = options.namespace or access.namespace or "default"
    planned = plan(options.run)
    client = Client(access)
    try:
        reading = await read_cluster(client, planned)
        asked = await _workload(options, client, namespace, reading.behaviour, planned)
        work = with_free_names(asked, reading.events)
        templates = await read_templates(client, unknown_templates(work))
    finally:
        await client.close()
    work = with_templates(work, templates, reading.events)
    answer = answered(options, planned, reading.events, work, namespace)
    return replace(answer, not_learned=reading.not_learned)


def unknown_templates(work: ManifestPods) -> set[str]:
    """Templates of claims that its pods name and that it does not have."""
    return missing_templates(work.pods).keys() - work.templates.keys()


def with_templates(
    work: ManifestPods, there: Mapping[str, ResourceClaim], events: Iterable[Event]
) -> ManifestPods:
    """With a claim for each template that a pod names: of the manifest, or of the cluster.

    Raises ConfigError for one that neither has.
    """
    known = {**there, **work.templates}
    for key, pod in missing_templates(work.pods).items():
        if key not in known:
            raise ConfigError(
                f"{pod.key}: there is no ResourceClaimTemplate {key}, or you may not read it; "
                "add it to the file"
            )
    return replace(work, events=tuple(with_made_claims(work.events, known, events)))


def answered(
    options: WhatIfOptions,
    planned: RunPlan,
    events: list[Event],
    work: ManifestPods,
    namespace: str,
) -> WhatIfAnswer:
    """The answer for a cluster that these events show."""
    began, wall_s = time.perf_counter(), time.time()
    _refuse_unserved(work, planned)
    changed = [*changed_events(events, options.changes, namespace), *work.events]
    before = look_ahead(events, planned, options.horizon, wall_s)
    after = look_ahead(changed, _changed_plan(planned, options), options.horizon, wall_s)
    return WhatIfAnswer(
        compared(before, after),
        before,
        after,
        tuple(dict.fromkeys(unit_name(pod) for pod in work.pods)),
        work.left_out,
        wall_s,
        time.perf_counter() - began,
        sum(type(event).__name__ == "NodeSeen" for event in changed),
        not_asked=_not_asked(planned, changed),
    )


def _not_asked(planned: RunPlan, events: Iterable[Event]) -> tuple[str, ...]:
    """What an extender says about the future is not known."""
    seen = (event.pod for event in events if isinstance(event, PodSeen))
    waiting = [pod for pod in seen if not pod.node and pod.scheduler in planned.profiles]
    terms = (each.terms for each in planned.extenders)
    return tuple(each.name for each in terms if any(map(each.concerns, waiting)))


async def _workload(
    options: WhatIfOptions, client: Client, namespace: str, behaviour: Behaviour, planned: RunPlan
) -> ManifestPods:
    if options.manifest is None:
        return ManifestPods(())
    priorities = await _priorities(client)
    defaults = ManifestDefaults(namespace, priorities, behaviour, planned.gang_dialects)
    return read_workload(options.manifest, defaults)


class _Meta(msgspec.Struct):
    name: str = ""


class _PriorityClass(msgspec.Struct, rename="camel"):
    value: int = 0
    global_default: bool = False
    metadata: _Meta = msgspec.field(default_factory=_Meta)


class _PriorityClasses(msgspec.Struct):
    items: list[_PriorityClass] = msgspec.field(default_factory=list)


async def _priorities(client: Client) -> Mapping[str, int]:
    reply = await client.request("GET", _PRIORITY_CLASSES)
    if reply.status != 200:
        raise ConfigError(f"the API server refused to list PriorityClasses: {reply.message}")
    found = msgspec.json.decode(reply.body, type=_PriorityClasses).items
    named = {each.metadata.name: each.value for each in found}
    default = max((each.value for each in found if each.global_default), default=0)
    return {**named, "": default}


def _refuse_unserved(work: ManifestPods, planned: RunPlan) -> None:
    for pod in work.pods:
        if pod.scheduler not in planned.profiles:
            names = ", ".join(sorted(planned.profiles))
            raise ConfigError(
                f"{pod.key}: schedulerName is {pod.scheduler or 'default-scheduler'!r}, and this "
                f"scheduler serves {names}; correct it, or give --scheduler-name or --config"
            )
        if pod.problem:
            raise ConfigError(f"{pod.key}: {pod.problem}")


def _changed_plan(planned: RunPlan, options: WhatIfOptions) -> RunPlan:
    if options.profile:
        profile = built_in(options.profile)
        planned = replace(planned, profiles=dict.fromkeys(planned.profiles, profile))
    if options.backfill:
        try:
            mode = BackfillMode(options.backfill)
        except ValueError:
            modes = ", ".join(each.value for each in BackfillMode)
            raise ConfigError(f"--backfill takes {modes}, not {options.backfill!r}") from None
        planned = replace(planned, backfill=replace(planned.backfill, mode=mode))
    return planned
