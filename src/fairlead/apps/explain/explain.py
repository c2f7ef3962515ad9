"""`fairlead explain`: why a pod is not placed, from the live cluster, node by node."""

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, TextIO

from fairlead.apps.config.run_plan import RunOptions, plan
from fairlead.apps.explain.claim_guards import guard_lines
from fairlead.apps.explain.claims import asked_claim_lines, claims_answer
from fairlead.apps.explain.compute_domains import domain_lines, domains_answer
from fairlead.apps.explain.counted import counted_lines
from fairlead.apps.explain.device_evictions import devices_answer
from fairlead.apps.explain.explanation import (
    explained,
    in_gang,
    in_queue,
    is_settled,
    moves_answer,
    settled,
    unserved,
)
from fairlead.apps.explain.gangs import gang_lines
from fairlead.apps.explain.goals import goal_lines
from fairlead.apps.explain.queues import queue_lines
from fairlead.apps.explain.scope import ALL, Answer, ExplanationScope
from fairlead.apps.explain.service import in_class
from fairlead.apps.explain.targets import Target, pod_of
from fairlead.apps.explain.windows import in_window
from fairlead.apps.live import live_cluster
from fairlead.apps.live.figures_once import put_figures_once
from fairlead.apps.live.live_engine import live_engine
from fairlead.apps.live.read_source_once import take_once
from fairlead.apps.live.running_scheduler import kubectl_options, running_scheduler
from fairlead.apps.live.start_forecasts import run_time_answer, start_answer
from fairlead.apps.run.forecast_feed import put_forecasts_once
from fairlead.engine.engine import Engine
from fairlead.engine.events import PricesComputed, ReadingsTaken
from fairlead.kube.access.kubeconfig import load_access
from fairlead.kube.codec import decode_node, decode_pod
from fairlead.kube.http.client import Client
from fairlead.kube.http.paths import node_path, pod_path
from fairlead.kube.http.reply import UNREADABLE
from fairlead.model.behaviour import Behaviour
from fairlead.model.errors import ConfigError, FairleadError
from fairlead.model.pods import Pod
from fairlead.model.quantities import shown
from fairlead.placement.place import Placement
from fairlead.placement.prices import compute
from fairlead.telemetry.sources import SourcePlan, make

#: Of a bound pod: how many nodes are shown beside its own.
_BEST = ExplanationScope(most_nodes=10)
#: What is also shown of a bound pod, if it is known.
_OF_BOUND = ("profile", "nodes", "nodesLeftOut", "computeDomains")


class NotExplained(FairleadError):
    """There is nothing to explain; the text says why."""


async def explain_pod(options: RunOptions, target: Target, scheduler: str = "") -> Answer:
    """The explanation as plain data: what `-o json` prints.

    `scheduler` is a running one to ask. One that the kubeconfig names is asked where the user may
    not list what is needed to find it out here.
    """
    access = load_access(options.kubeconfig, options.context)
    namespace = target.namespace or access.namespace or "default"
    client = Client(access)
    try:
        name = await pod_of(client, target, namespace)
        if scheduler:
            return await _ask(options, client, scheduler, namespace, name)
        return await _find_out(options, client, namespace, name)
    except live_cluster.Forbidden as error:
        if access.scheduler:
            return await _ask(options, client, access.scheduler, namespace, name)
        raise NotExplained(
            f"{error}; query the running scheduler: --scheduler NAMESPACE/SERVICE, such as "
            "fairlead-system/fairlead, or the URL of a forwarded port"
        ) from error
    finally:
        await client.close()


async def _ask(
    options: RunOptions, client: Client, where: str, namespace: str, name: str
) -> Answer:
    """A scheduler explains pods that the user may get; by node with the right to list nodes."""
    kubectl = kubectl_options(options.kubeconfig, options.context)
    async with running_scheduler(where, client.access.credentials, kubectl) as scheduler:
        body = await scheduler.get("/explain", {"namespace": namespace, "name": name})
    found: Answer = json.loads(body)
    return found


async def _find_out(options: RunOptions, client: Client, namespace: str, name: str) -> Answer:
    behaviour = await live_cluster.ask_behaviour(client)
    body = await _get_pod(client, namespace, name)
    pod = decode_pod(body, behaviour)
    if not is_settled(pod):
        return await _by_the_rules(options, client, behaviour, pod)
    told = settled(pod, await _picked(client, pod) if pod.node else ())
    if told["state"] != "bound":
        return told
    try:
        pending = _pending(body, behaviour)
        again = await _by_the_rules(options, client, behaviour, pending, _BEST, pod.node)
    except (NotExplained, live_cluster.NotListed, ConfigError):
        return told  # where it is can be shown all the same
    return told | {key: again[key] for key in _OF_BOUND if key in again}


async def _picked(client: Client, pod: Pod) -> Sequence[str]:
    """GPUs that a device plugin chose, if its node says so and the user may read the node."""
    reply = await client.request("GET", node_path(pod.node))
    try:
        inventory = decode_node(reply.body).inventory if reply.status == 200 else None
    except UNREADABLE:
        return ()
    return (inventory.picked or {}).get(pod.uid, ()) if inventory else ()


def _pending(body: bytes, behaviour: Behaviour) -> Pod:
    """A bound pod as it was before it was bound."""
    pod = json.loads(body)
    pod["spec"].pop("nodeName")
    pod.pop("status", None)
    return decode_pod(json.dumps(pod).encode(), behaviour)


async def _by_the_rules(
    options: RunOptions,
    client: Client,
    behaviour: Behaviour,
    pod: Pod,
    shown: ExplanationScope = ALL,
    node: str = "",
) -> Answer:
    """By the rules of the configuration, on all that the API server lists but the pod itself.

    `node`: where the pod is already.
    """
    planned = plan(options)
    planned.meet(behaviour)
    profile = planned.profiles.get(pod.scheduler)
    if profile is None:
        why = unserved(pod.scheduler, planned.profiles)
        raise NotExplained(
            f"{pod.key}: {why}; correct its schedulerName, or give --scheduler-name or the "
            "--config of its scheduler"
        )
    engine = await live_engine(client, planned, behaviour, [profile])
    engine.cluster.remove(pod.uid)
    prices = compute(engine.basis())
    if prices is not None:
        engine.handle(PricesComputed(prices), now=0.0)
    silent = await _measure(engine, planned.sources)
    silent += await put_figures_once(engine, planned)
    silent += await put_forecasts_once(planned.forecasts, client, engine)
    told = explained(Placement(profile, engine.cluster), engine.cluster, pod, shown)
    told = in_gang(in_queue(told, engine, pod, shown, now=0.0), engine, pod, shown)
    told = in_window(told, engine, pod, time.time())
    told = in_class(told, engine, pod, time.time())
    told |= moves_answer(told, engine, pod, planned.consolidation.limits, time.time())
    told |= devices_answer(told, engine, pod, 0.0, pods=shown.pods)
    told |= domains_answer(engine, replace(pod, node=node), nodes=shown.nodes)
    told |= claims_answer(engine.cluster, pod)
    if told["state"] in ("unschedulable", "held back"):
        told |= run_time_answer(engine, pod) | start_answer(engine, pod, now=0.0)
    return told | ({"telemetry": silent} if silent else {})


async def _measure(engine: Engine, plans: Sequence[SourcePlan]) -> list[str]:
    """Puts readings of the GPUs into the cluster; returns what sources could not read, and why."""
    problems: list[str] = []
    for each in plans:
        readings, problem = await take_once(make(each), engine.cluster)
        engine.handle(ReadingsTaken(tuple(readings)), now=time.monotonic())
        problems += [problem] if problem else []
    return problems


async def _get_pod(client: Client, namespace: str, name: str) -> bytes:
    reply = await client.request("GET", pod_path(namespace, name))
    if reply.status == 404:
        raise NotExplained(f"pod {namespace}/{name} not found; check the namespace and the name")
    if reply.status != 200:
        raise NotExplained(f"the API server refused to return the pod: {reply.message}")
    return reply.body


def show(answer: Answer, output: str, out: TextIO) -> None:
    if output == "json":
        out.write(json.dumps(answer, indent=2) + "\n")
        return
    # Written as it is: a terminal may fold it, a pipe gets whole lines, and brackets stay.
    out.write(f"{answer['pod']}: {answer['message']}\n")
    asked = [f"{shown(name, n)} {name}" for name, n in answer["requests"].items()]
    asked += [answer["asks"]] if answer.get("asks") else []
    if asked:
        out.write(f"requests: {', '.join(asked)}\n")
    if answer.get("claims"):
        out.writelines(line + "\n" for line in asked_claim_lines(answer["claims"]))
    if answer.get("selectors"):
        out.writelines(line + "\n" for line in guard_lines(answer["selectors"]))
    if answer.get("counted"):
        out.writelines(line + "\n" for line in counted_lines(answer["counted"]))
    if answer.get("queue"):
        out.writelines(line + "\n" for line in queue_lines(answer["queue"]))
    if answer.get("gang"):
        out.writelines(line + "\n" for line in gang_lines(answer["gang"]))
    if answer.get("computeDomains"):
        out.writelines(line + "\n" for line in domain_lines(answer["computeDomains"]))
    if answer.get("goals"):
        out.writelines(line + "\n" for line in goal_lines(answer["goals"]))
    if answer.get("consolidation"):
        out.write(f"{answer['consolidation']['message']}\n")
    for key in ("devices", "runTime", "window", "serviceClass", "start", "keptFree"):
        if answer.get(key):
            out.write(f"{answer[key]['message']}\n")
    out.writelines(line + "\n" for line in _decision(answer))
    out.writelines(f"no readings from {problem}\n" for problem in answer.get("telemetry", ()))
    out.writelines(line + "\n" for line in (*_columns(answer["nodes"]), *_counts(answer)))


def _decision(answer: Answer) -> Iterator[str]:
    """Of a bound pod: what was written with its bind."""
    if answer.get("epoch"):
        yield f"placed by: {answer['epoch'].partition('/')[2]}"
    if answer["state"] == "bound" and answer["nodes"]:
        yield "the best nodes if the pod were pending now:"
    elif answer.get("gang") and answer["nodes"]:
        yield "nodes for this pod alone:"


def _counts(answer: Answer) -> Iterator[str]:
    """Where nodes are not shown by name, and where not all are shown."""
    counts = answer.get("reasons", ())
    if counts:
        yield "NODES  REASON"
    yield from (f"{each['nodes']:5}  {each['reason']}" for each in counts)
    if answer.get("nodesLeftOut"):
        yield f"and {answer['nodesLeftOut']} other nodes"


def _columns(nodes: list[dict[str, Any]]) -> list[str]:
    answers = (row for node in nodes for row in (_row(node), *_gpu_rows(node)))
    rows = [("NODE", "RESULT", "REASON"), *answers]
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    if not nodes:
        return []
    return [f"{name:{widths[0]}}  {answer:{widths[1]}}  {why}" for name, answer, why in rows]


def _row(node: dict[str, Any]) -> tuple[str, str, str]:
    if node["rule"]:
        because = node["detail"] or "; ".join(node["reasons"])
        return node["node"], f"refused by {node['rule']}", because
    return node["node"], "fits", f"score {node['score']:.1f}"


def _gpu_rows(node: dict[str, Any]) -> list[tuple[str, str, str]]:
    """GPU by GPU, unless all have the same to say: then it has been said."""
    told = [_gpu_told(gpu) for gpu in node["gpus"]]
    if len(set(told)) < 2 and all(gpu["reading_age_s"] is None for gpu in node["gpus"]):
        return []
    uuids = (gpu["uuid"] for gpu in node["gpus"])
    return [("", "", f"{uuid}: {text}") for uuid, text in zip(uuids, told, strict=True)]


def _gpu_told(gpu: dict[str, Any]) -> str:
    """What it lacks, what it is doing, and how long ago that was measured."""
    told = [gpu["missing"] or "free"]
    if gpu["utilisation"] is not None:
        told.append(f"{gpu['utilisation']:.0%} busy")
    if gpu["memory_used_mib"] is not None:
        told.append(f"{gpu['memory_used_mib']:.0f} MiB in use")
    if len(told) > 1:
        told.append(f"{gpu['reading_age_s']:.0f} s ago")
    return ", ".join(told)
