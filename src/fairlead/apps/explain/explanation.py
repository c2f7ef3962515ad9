"""Why a pod is where it is, or waits, as plain data: what `fairlead explain -o json` prints.

`ExplanationScope` is what the reader may see. Readers who may not list nodes get counts by reason.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, field, replace
from difflib import get_close_matches

from fairlead.apps.explain.claim_guards import guards_answer
from fairlead.apps.explain.claims import claims_answer
from fairlead.apps.explain.compute_domains import domains_answer
from fairlead.apps.explain.counted import counted_answer
from fairlead.apps.explain.device_evictions import devices_answer
from fairlead.apps.explain.gangs import gang_answer
from fairlead.apps.explain.goals import goals_answer
from fairlead.apps.explain.queues import queue_answer
from fairlead.apps.explain.scope import ALL, Answer, ExplanationScope
from fairlead.apps.explain.service import in_class
from fairlead.apps.explain.windows import in_window
from fairlead.apps.live.start_forecasts import (
    StartScope,
    held_answer,
    run_time_answer,
    start_answer,
)
from fairlead.cluster.cluster import Cluster
from fairlead.cluster.extended_classes import with_classes
from fairlead.cluster.picked import picked_gpus
from fairlead.engine.consolidation.planner import EXPLAINED
from fairlead.engine.consolidation.plans import ConsolidationPlan
from fairlead.engine.engine import Engine
from fairlead.engine.reasons import WAITING_FOR_BETTER_PLACE
from fairlead.kube.leadership.fence import EPOCH
from fairlead.model.consolidation import MoveLimits
from fairlead.model.errors import FilterFailed, PluginFault
from fairlead.model.gpus import WHOLE, GpuRequest, Grant
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.pods import Pod
from fairlead.placement.explain import Explanation, NodeAnswer, explain
from fairlead.placement.place import Placement
from fairlead.placement.verdicts import Placed, Refused
from fairlead.queue.units import Gang
from fairlead.telemetry.reporting import isolation_of, part_told

_GIB = 1024


def is_settled(pod: Pod) -> bool:
    """Whether no rule is asked about the pod."""
    return bool(pod.node or pod.finished or pod.gates or pod.problem or pod.deleting)


def settled(pod: Pod, picked: Sequence[str] = ()) -> Answer:
    """What became of a pod that no rule is asked about; `picked` are GPUs that a device plugin
    chose for it, where they are known.
    """
    if pod.finished:
        state, message = "finished", "the pod has finished; it needs no node"
    elif pod.node:
        state, message = "bound", f"the pod is bound to node {pod.node}{_given(pod, picked)}"
    elif pod.deleting:
        state, message = "deleting", "the pod is being deleted and is not scheduled"
    elif pod.gates:
        gates = ", ".join(pod.gates)
        state, message = "gated", f"the pod has scheduling gates: {gates}"
    else:
        state, message = "invalid", pod.problem
    return answer(pod, state, message) | (_assigned(pod, picked) if state == "bound" else {})


def _given(pod: Pod, picked: Sequence[str]) -> str:
    grant = pod.grant
    chosen = sum(not use.uuid for use in grant.uses) if grant else 0
    if picked:
        more = f", {', '.join(picked)}, which the device plugin of the node chose"
    else:
        more = f", {chosen} GPU(s) that the device plugin of the node chose" if chosen else ""
    return _isolated(grant) + more


def _assigned(pod: Pod, picked: Sequence[str]) -> Answer:
    """The decision as it was written with the bind: GPUs, how they were asked for, and by whom."""
    uses = pod.grant.uses if pod.grant else ()
    given = [{"gpu": use.uuid, "part": part_told(use)} for use in uses if use.uuid or not picked]
    given += [{"gpu": uuid, "part": "whole"} for uuid in picked]
    told: Answer = {"gpus": given, "dialect": pod.grant.dialect if pod.grant else ""}
    told |= {"isolation": isolation_of(pod.grant)}
    return told | {"epoch": pod.annotations.get(EPOCH, "")}


def explained(
    placement: Placement, cluster: Cluster, pod: Pod, shown: ExplanationScope = ALL
) -> Answer:
    """Why the pod waits, or where it would go, by the rules of its profile."""
    pod = with_classes(pod, cluster.claims.extended)
    try:
        found = explain(placement, cluster, pod, shown.most_nodes if shown.nodes else 0)
    except FilterFailed as error:
        return answer(pod, "failed", str(error)) | guards_answer(cluster, pod, nodes=shown.nodes)
    state, message = _said(found, shown)
    if state == "fits" and pod.condition[0] == WAITING_FOR_BETTER_PLACE:
        state, message = "held back", f"{pod.condition[1]}; {message}"
    told = answer(pod, state, message) | {"profile": placement.profile.name}
    if not shown.nodes:
        return told | {"reasons": _reasons(found)}
    told |= goals_answer(placement, cluster, pod)
    nodes = [_node(node, shown) for node in found.nodes]
    return told | {"nodes": nodes} | ({"nodesLeftOut": found.left_out} if found.left_out else {})


def unserved(name: str, served: Iterable[str]) -> str:
    """What to say about a pod whose schedulerName is none of these."""
    names = sorted(served)
    near = get_close_matches(name, names, n=1)
    meant = f"did you mean {near[0]!r}? " if near else ""
    return f"schedulerName {name!r} is not served; {meant}served: {', '.join(names) or 'none'}"


@dataclass(frozen=True, slots=True)
class Explainer:
    """Explains pods of a scheduler that runs, by the engine that decides about them."""

    engine: Engine
    pod_of: Callable[[str], Pod | None]
    #: By which moves are planned, and seconds since 1970.
    limits: MoveLimits = field(default_factory=MoveLimits)
    now_s: Callable[[], float] = time.time

    def __call__(self, key: str, shown: ExplanationScope) -> Answer | None:
        """None if there is no such pod."""
        pod = self.pod_of(key)
        if pod is None:
            return None
        if is_settled(pod):
            told = settled(pod, picked_gpus(self.engine.cluster, pod.node, pod.uid))
            told |= domains_answer(self.engine, pod, nodes=shown.nodes)
            return in_gang(self._in_queue(told, pod, shown), self.engine, pod, shown)
        placement = self.engine.placement(pod.scheduler)
        if placement is None:
            return answer(pod, "unserved", unserved(pod.scheduler, self.engine.schedulers))
        held = self.engine.cluster.holdings.get(pod.uid)
        if held is not None:
            where = f" to node {held.node}" if shown.nodes else ""
            return answer(pod, "binding", f"the pod is being bound{where}")
        try:
            with self.engine.with_kept_devices(pod.uid):
                told = explained(placement, self.engine.cluster, pod, shown)
                told = in_gang(self._in_queue(told, pod, shown), self.engine, pod, shown)
            told = in_window(told, self.engine, pod, self.now_s())
            told = in_class(told, self.engine, pod, self.now_s())
            told |= moves_answer(told, self.engine, pod, self.limits, self.now_s())
            told |= devices_answer(told, self.engine, pod, self._now(), pods=shown.pods)
            told |= domains_answer(self.engine, pod, nodes=shown.nodes)
            told |= claims_answer(self.engine.cluster, pod)
            return told | self._start(told, pod, shown)
        except PluginFault as error:  # this answer fails, and nothing else does
            return answer(pod, "failed", str(error))

    def _start(self, told: Answer, pod: Pod, shown: ExplanationScope) -> Answer:
        """The planned start, if one is planned: nothing is planned while the scheduler waits."""
        if told["state"] not in ("unschedulable", "held back"):
            return {}
        now = self._now()
        scope = StartScope(shown.nodes, shown.pods, plans=False)
        more = run_time_answer(self.engine, pod) | held_answer(self.engine, pod, scope=scope)
        return more | start_answer(self.engine, pod, now=now, scope=scope)

    def _now(self) -> float:
        return self.now_s() - self.engine.wall_offset_s

    def _in_queue(self, told: Answer, pod: Pod, shown: ExplanationScope) -> Answer:
        return in_queue(told, self.engine, pod, shown, self._now())


def in_queue(told: Answer, engine: Engine, pod: Pod, shown: ExplanationScope, now: float) -> Answer:
    """The answer about a pod with what its queue and its counted resources say."""
    counted = counted_answer(engine, pod, pods=shown.pods)
    if counted is not None:
        told = _held_back(told, counted) | {"counted": counted}
    found = None if pod.finished else queue_answer(engine, pod, now, pods=shown.pods)
    return told if found is None else _held_back(told, found) | {"queue": found}


def _held_back(told: Answer, found: Answer) -> Answer:
    if "reason" in found and told["state"] in ("fits", "unschedulable"):
        return told | {"state": "held back", "message": found["message"]}
    return told


def in_gang(told: Answer, engine: Engine, pod: Pod, shown: ExplanationScope) -> Answer:
    """The answer about a pod with what becomes of its gang, if it is a member of one."""
    found = engine.gang_outlook(pod)
    if found is None or pod.finished:
        return told
    more: Answer = {"gang": gang_answer(found, pod.namespace, nodes=shown.nodes, pods=shown.pods)}
    if told["state"] in ("fits", "unschedulable"):
        more |= {"state": found.state, "message": found.message}
    return told | more


def moves_answer(
    told: Answer, engine: Engine, pod: Pod, limits: MoveLimits, now_s: float
) -> Answer:  # fmt: skip
    """How many moves would let a refused unit start, if few are enough; else nothing."""
    entry = engine.queue.get(pod.uid)
    if told["state"] != "unschedulable" or entry is None:
        return {}
    found = engine.planning.plan(entry, limits, now_s, EXPLAINED)
    if not isinstance(found, ConsolidationPlan):
        return {}
    count, gang = len(found.moves), isinstance(entry.unit, Gang)
    name = (
        f"gang/{pod.gang.gang.rpartition('/')[2]} -n {pod.namespace}"
        if gang and pod.gang
        else pod.key
    )
    command = f"fairlead defrag --plan --for {name}"
    would = "1 move" if count == 1 else f"{count} moves"
    message = f"{would} of running pods would let it run: {command}"
    return {"consolidation": {"moves": count, "command": command, "message": message}}


def _said(found: Explanation, shown: ExplanationScope) -> tuple[str, str]:
    verdict = found.verdict
    if isinstance(verdict, Refused):
        if not shown.nodes:
            verdict = replace(verdict, eviction=None)
        return "unschedulable", verdict.message + _making_room(verdict, shown)
    where = f"; it would go to node {verdict.node}{_isolated(verdict.grant)}"
    return "fits", "the pod fits now" + (where if shown.nodes else "")


def _making_room(refused: Refused, shown: ExplanationScope) -> str:
    if refused.eviction is None:
        return ""
    victims = refused.eviction.victims
    names = ", ".join(victim.key for victim in victims)
    who = names if shown.pods else f"{len(victims)} pod(s) of lower priority"
    return f" It can run on node {refused.eviction.node} after the eviction of {who}."


def _reasons(found: Explanation) -> list[Answer]:
    if isinstance(found.verdict, Placed):
        return []
    return [{"reason": text, "nodes": count} for text, count in found.verdict.reasons]


def _node(node: NodeAnswer, shown: ExplanationScope) -> Answer:
    told = asdict(node)
    kept_for = told.pop("kept_for")
    if kept_for:
        others = ", ".join(kept_for) if shown.pods else f"{len(kept_for)} other pod(s)"
        told["detail"] = f"its room is reserved for {others}"
    return told


def answer(pod: Pod, state: str, message: str) -> Answer:
    return {
        "pod": pod.key,
        "uid": pod.uid,
        "scheduler": pod.scheduler,
        "state": state,
        "message": message,
        "requests": dict(pod.request.resources),
        "asks": asked(pod.request.gpu_request),
        "nodes": [],
    }


def gpus_told(grant: Grant | None) -> str:
    """Which GPUs, and how much of each, where they are known one by one."""
    uses = [use for use in grant.uses if use.uuid] if grant else []
    told = ", ".join(use.uuid if use.whole else f"{part_told(use)} of {use.uuid}" for use in uses)
    return f", {told}" if told else ""


def _isolated(grant: Grant | None) -> str:
    """The same, with what keeps a share apart from others."""
    told, isolation = gpus_told(grant), isolation_of(grant)
    return f"{told} ({isolation})" if told and isolation else told


def asked(ask: GpuRequest | None) -> str:
    """What annotations, or resources of a dialect, ask of GPUs; "" for whole ones of any kind."""
    if ask is None:
        return ""
    count = f"{ask.gpus} × " if ask.gpus > 1 else ""
    parts = [*_part(ask, count), *_kind(ask)]
    return ", ".join(parts)


def _part(ask: GpuRequest, count: str) -> list[str]:
    if ask.profile:
        return [f"{count}a {ask.profile} slice"]
    if ask.whole:
        return []
    share = [f"{ask.milli / WHOLE:g} of a GPU"] if ask.milli else []
    memory = [_memory(ask.memory_mib)] if ask.memory_mib else []
    return [count + " with ".join([*share, *memory])] if share or memory else []


def _memory(mib: int) -> str:
    size = f"{mib / _GIB:g} GiB" if mib % _GIB == 0 else f"{mib} MiB"
    return f"{size} of a GPU's memory"


def _kind(ask: GpuRequest) -> list[str]:
    words: Mapping[str, tuple[str, ...]] = {
        "of model": tuple(sorted(ask.models)),
        "like": ask.like,
        "not like": ask.unlike,
        "only": tuple(sorted(ask.only)),
        "never": tuple(sorted(ask.never)),
    }
    told = [f"{word} {' or '.join(names)}" for word, names in words.items() if names]
    told += [f"isolation {ask.isolation}"] if ask.isolation else []
    return [*told, "joined by NVLink"] if ask.linked else told
