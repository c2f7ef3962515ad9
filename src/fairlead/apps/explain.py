"""`fairlead explain`: why a pod is not placed, from the live cluster, node by node."""

import json
import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, TextIO

from fairlead.apps import live_cluster
from fairlead.apps.asking_once import take_once
from fairlead.apps.run import Options, plan
from fairlead.engine.engine import Engine
from fairlead.engine.events import PricesComputed, ReadingsTaken
from fairlead.kube.access.kubeconfig import load_access
from fairlead.kube.codec import decode_pod
from fairlead.kube.http.client import Client
from fairlead.kube.http.paths import pod_path
from fairlead.model.behaviour import Behaviour
from fairlead.model.errors import FairleadError
from fairlead.model.gpus import WHOLE, Grant
from fairlead.model.pods import Pod, Side
from fairlead.model.quantities import shown
from fairlead.placement.explain import Explanation, explain
from fairlead.placement.place import Placement
from fairlead.placement.prices import compute
from fairlead.placement.verdicts import Placed, Refused
from fairlead.telemetry.sources import SourcePlan, make


class NotExplained(FairleadError):
    """There is nothing to explain; the text says why."""


async def explain_pod(options: Options, namespace: str, name: str) -> dict[str, Any]:
    """The explanation as plain data: what `-o json` prints."""
    access = load_access(options.kubeconfig, options.context)
    client = Client(access)
    try:
        behaviour = await live_cluster.ask_behaviour(client)
        pod = await _get_pod(client, behaviour, namespace or access.namespace or "default", name)
        planned = plan(options)
        planned.meet(behaviour)
        profiles = planned.profiles
        profile = profiles.get(pod.scheduler)
        if profile is None:
            raise NotExplained(
                f"{pod.key} is for scheduler {pod.scheduler!r}, and this configuration serves "
                f"{', '.join(sorted(profiles))}; name it with --scheduler-name"
            )
        engine = Engine(profiles)
        kin = bool(profile.sides & Side.KIN)
        async for event in live_cluster.events(client, behaviour, kin=kin):
            engine.handle(event, now=0.0)
        if pod.node or pod.finished or pod.gates or pod.problem or pod.deleting:
            return _settled(pod)
        prices = compute(engine.basis())
        if prices is not None:
            engine.handle(PricesComputed(prices), now=0.0)
        silent = await _measure(engine, planned.sources)
        placement = Placement(profile, engine.cluster)
        told = _told(pod, profile.name, explain(placement, engine.cluster, pod))
        return told | ({"telemetry": silent} if silent else {})
    finally:
        await client.close()


async def _measure(engine: Engine, plans: Sequence[SourcePlan]) -> list[str]:
    """Has the cluster know what its cards are doing; what sources could not tell, and why."""
    problems: list[str] = []
    for each in plans:
        readings, problem = await take_once(make(each), engine.cluster)
        engine.handle(ReadingsTaken(tuple(readings)), now=time.monotonic())
        problems += [problem] if problem else []
    return problems


async def _get_pod(client: Client, behaviour: Behaviour, namespace: str, name: str) -> Pod:
    reply = await client.request("GET", pod_path(namespace, name))
    if reply.status == 404:
        raise NotExplained(f"there is no pod {namespace}/{name}; check the namespace and the name")
    if reply.status != 200:
        raise NotExplained(f"the API server refused to show the pod: {reply.message}")
    return decode_pod(reply.body, behaviour)


def _settled(pod: Pod) -> dict[str, Any]:
    """Pods that no rule is asked about."""
    if pod.finished:
        state, message = "finished", "the pod has finished; it needs no node any more"
    elif pod.node:
        state, message = "bound", f"the pod is bound to node {pod.node}"
    elif pod.deleting:
        state, message = "deleting", "the pod is being deleted and will not be scheduled"
    elif pod.gates:
        gates = ", ".join(pod.gates)
        state, message = "gated", f"the pod waits for its scheduling gates to be removed: {gates}"
    else:
        state, message = "invalid", pod.problem
    return _answer(pod, state, message)


def _told(pod: Pod, profile: str, found: Explanation) -> dict[str, Any]:
    if isinstance(found.verdict, Placed):
        node, cards = found.verdict.node, cards_told(found.verdict.grant)
        state, message = "fits", f"the pod fits now; it would go to node {node}{cards}"
    else:
        state, message = "unschedulable", found.verdict.message + _making_room(found.verdict)
    nodes = [asdict(node) for node in found.nodes]
    return _answer(pod, state, message) | {"profile": profile, "nodes": nodes}


def cards_told(grant: Grant | None) -> str:
    """Which cards, and how much of each, where they are known one by one."""
    uses = [use for use in grant.uses if use.uuid] if grant else []
    told = ", ".join(
        use.uuid if use.whole else f"{use.milli / WHOLE:g} of {use.uuid}" for use in uses
    )
    return f", {told}" if told else ""


def _making_room(refused: Refused) -> str:
    if refused.eviction is None:
        return ""
    names = ", ".join(victim.key for victim in refused.eviction.victims)
    return f" It can have node {refused.eviction.node} when {names} made room."


def _answer(pod: Pod, state: str, message: str) -> dict[str, Any]:
    return {
        "pod": pod.key,
        "uid": pod.uid,
        "scheduler": pod.scheduler,
        "state": state,
        "message": message,
        "requests": dict(pod.request.resources),
        "nodes": [],
    }


def show(answer: dict[str, Any], output: str, out: TextIO) -> None:
    if output == "json":
        out.write(json.dumps(answer, indent=2) + "\n")
        return
    # Written as it is: a terminal may fold it, a pipe gets whole lines, and brackets stay.
    out.write(f"{answer['pod']}: {answer['message']}\n")
    asked = ", ".join(f"{shown(name, n)} {name}" for name, n in answer["requests"].items())
    if asked:
        out.write(f"asks for: {asked}\n")
    out.writelines(f"no readings from {problem}\n" for problem in answer.get("telemetry", ()))
    out.writelines(line + "\n" for line in _columns(answer["nodes"]))


def _columns(nodes: list[dict[str, Any]]) -> list[str]:
    answers = (row for node in nodes for row in (_row(node), *_card_rows(node)))
    rows = [("NODE", "ANSWER", "BECAUSE"), *answers]
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    if not nodes:
        return []
    return [f"{name:{widths[0]}}  {answer:{widths[1]}}  {why}" for name, answer, why in rows]


def _row(node: dict[str, Any]) -> tuple[str, str, str]:
    if node["rule"]:
        because = node["detail"] or "; ".join(node["reasons"])
        return node["node"], f"refused by {node['rule']}", because
    return node["node"], "fits", f"score {node['score']:.1f}"


def _card_rows(node: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Card by card, unless all have the same to say: then it has been said."""
    told = [_card_told(card) for card in node["cards"]]
    if len(set(told)) < 2 and all(card["reading_age_s"] is None for card in node["cards"]):
        return []
    uuids = (card["uuid"] for card in node["cards"])
    return [("", "", f"{uuid}: {text}") for uuid, text in zip(uuids, told, strict=True)]


def _card_told(card: dict[str, Any]) -> str:
    """What it lacks, what it is doing, and how long ago somebody saw that."""
    told = [card["missing"] or "free"]
    if card["utilisation"] is not None:
        told.append(f"{card['utilisation']:.0%} busy")
    if card["memory_used_mib"] is not None:
        told.append(f"{card['memory_used_mib']:.0f} MiB in use")
    if len(told) > 1:
        told.append(f"{card['reading_age_s']:.0f} s ago")
    return ", ".join(told)
