"""`fairlead audit`: which bound pods are on nodes that the rules of today would refuse."""

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TextIO

from fairlead.apps.config.run_plan import RunOptions, RunPlan, plan
from fairlead.apps.live import live_cluster
from fairlead.apps.live.figures_once import put_figures_once
from fairlead.apps.live.live_engine import live_engine
from fairlead.cluster.cluster import Cluster
from fairlead.cluster.nodes import Nodes
from fairlead.engine.engine import Engine
from fairlead.kube.access.kubeconfig import load_access
from fairlead.kube.http.client import Client
from fairlead.model.errors import FairleadError
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.pods import Pod
from fairlead.plugins.rules import NodeRules


@dataclass(frozen=True, slots=True)
class Breach:
    pod: str
    node: str
    scheduler: str
    #: What the rule says of the node.
    why: str


async def breaches(options: RunOptions) -> list[Breach]:
    """Of the cluster as it is now, by the rules of the configuration."""
    planned = plan(options)
    rules = _rules(planned)
    client = Client(load_access(options.kubeconfig, options.context))
    try:
        behaviour = await live_cluster.ask_behaviour(client)
        planned.meet(behaviour)
        engine = await live_engine(client, planned, behaviour, ())
    finally:
        await client.close()
    for problem in await put_figures_once(engine, planned):
        sys.stderr.write(f"not known: {problem}\n")
    found = [
        *broken(engine.cluster, rules),
        *shared_by_tenants(engine.cluster),
        *shared_by_classes(engine),
    ]
    return sorted(found, key=lambda each: (each.pod, each.why))


def _rules(planned: RunPlan) -> NodeRules:
    for profile in planned.profiles.values():
        for rule in profile.filters:
            if isinstance(rule, NodeRules) and rule.rules:
                return rule
    kept_apart = any(each.gpus and each.gpus.is_alone for each in planned.service_classes)
    if planned.tenants is not None or kept_apart:
        return NodeRules()
    raise FairleadError(
        "the configuration has no rules, no tenants and no service classes without neighbours; "
        "pass it with --config"
    )


def shared_by_tenants(cluster: Cluster) -> Iterator[Breach]:
    """Pods that share a GPU with pods of another tenant."""
    tenancy = cluster.columns.devices.tenancy
    if tenancy is None:
        return
    for (node, gpu), pods in _pods_of_gpus(cluster, slices=tenancy.terms.slices).items():
        tenants = sorted({tenancy.of(pod.namespace) or "(none)" for pod in pods})
        if len(tenants) > 1:
            why = f"GPU {gpu} has pods of the tenants {', '.join(tenants)}"
            for pod in pods:
                yield Breach(pod.key, node, pod.scheduler, why)


def shared_by_classes(engine: Engine) -> Iterator[Breach]:
    """Pods that share a GPU with those of a service class that has no neighbours."""
    goals = engine.service_goals
    alone = {each.name for each in goals.classes.values() if each.gpus and each.gpus.is_alone}
    if not alone:
        return
    for (node, gpu), pods in _pods_of_gpus(engine.cluster, slices=False).items():
        classes = {goals.class_name_of(pod) for pod in pods}
        if len(classes) > 1 and classes & alone:
            words = ", ".join(sorted(each or "(none)" for each in classes))
            why = f"GPU {gpu} has pods of the service classes {words}"
            for pod in pods:
                yield Breach(pod.key, node, pod.scheduler, why)


def _pods_of_gpus(cluster: Cluster, *, slices: bool) -> dict[tuple[str, str], list[Pod]]:
    """The pods on each GPU, by node and uuid; MIG slices count if `slices`."""
    found: dict[tuple[str, str], list[Pod]] = {}
    for held in cluster.holdings.values():
        for use in held.grant.uses if held.grant else ():
            if use.uuid and (slices or not use.slices):
                found.setdefault((held.node, use.uuid), []).append(held.pod)
    return found


def broken(cluster: Cluster, rules: NodeRules) -> Iterator[Breach]:
    """Pods of all schedulers, since a rule is about namespaces."""
    for held in cluster.holdings.values():
        row = cluster.row_of.get(held.node)
        if row is None:
            continue
        request = cluster.request_of(held.pod, rules.pod_keys)
        if rules.concerns(request):
            node = Nodes(cluster.columns, slice(row, row + 1))
            for text in rules.broken(request, node):
                why = text.removeprefix("node(s) didn't match ")
                yield Breach(held.pod.key, held.node, held.pod.scheduler, why)


def show(found: Sequence[Breach], output: str, out: TextIO) -> None:
    if output == "json":
        out.write(json.dumps([asdict(each) for each in found], indent=2) + "\n")
        return
    out.writelines(f"{each.pod} on {each.node} ({each.scheduler}): {each.why}\n" for each in found)
    out.write(f"{len(found)} bound pods break a rule\n")
