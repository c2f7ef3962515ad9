"""Objects that pass validation and cost as much as they can, each against a full cluster.

Every shape gives events one after the other. An event is made when it is asked for, from JSON where
a user writes JSON, so that reading it is part of its turn.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from fairlead.engine.engine import Engine
from fairlead.engine.events import BudgetSeen, NamespaceSeen, PodSeen, SelectorSeen
from fairlead.kube.budgets import decode_budget
from fairlead.kube.codec import decode_pod
from fairlead.model.selectors import LabelSelector, Requirement
from hostile_alternatives import ALTERNATIVE_ENGINES, ALTERNATIVE_SHAPES
from hostile_claim_objects import CLAIM_OBJECT_SHAPES
from hostile_claim_plans import PLAN_ENGINES, PLAN_SHAPES
from hostile_claims import CLAIM_SHAPES
from hostile_cluster import (
    APPS,
    GANG,
    MAPPING,
    TEAMS,
    Made,
    Shape,
    Size,
    a_full_cluster,
    a_node,
    a_pod,
    encoded,
    gone,
    node_seen,
    seen,
)
from hostile_evictions import EVICTION_ENGINES, EVICTION_SHAPES
from hostile_gangs import GANG_ENGINES, GANG_SHAPES
from hostile_objects import ENGINES, OBJECT_SHAPES
from hostile_reading import READING_SHAPES
from hostile_sources import SOURCE_ENGINES, SOURCE_SHAPES
from hostile_tenants import TENANT_ENGINES, TENANT_SHAPES
from hostile_topology import TOPOLOGY_SHAPES
from hostile_units import UNIT_ENGINES, UNIT_SHAPES
from hostile_volumes import VOLUME_SHAPES
from hostile_waiting import WAITING_SHAPES
from pods import HOST, ZONE, Body

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"

# -- terms -----------------------------------------------------------------------------------


def everywhere() -> Body:
    return {"namespaceSelector": {}}


def _term(number: int, key: str = ZONE, **more: Any) -> Body:
    """Means a part of the pods that are there, another for every number."""
    values = [f"app-{(number + step) % APPS}" for step in range(3)]
    line = {"key": "app", "operator": "In", "values": values}
    return {"topologyKey": key, "labelSelector": {"matchExpressions": [line]}, **more}


def _broad(number: int, key: str = ZONE, **more: Any) -> Body:
    """Means every pod, in other words for every number."""
    line = {"key": "pod", "operator": "NotIn", "values": [f"none-{number}"]}
    return {"topologyKey": key, "labelSelector": {"matchExpressions": [line]}, **more}


def _affinity(kind: str, terms: list[Body]) -> Body:
    return {"affinity": {kind: {_REQUIRED: terms}}}


def _preferring(kind: str, terms: list[Body]) -> Body:
    weighted = [{"weight": 1 + at % 100, "podAffinityTerm": term} for at, term in enumerate(terms)]
    return {"affinity": {kind: {_PREFERRED: weighted}}}


def one_anti_affinity_term(size: Size) -> Iterator[Made]:
    terms = [_term(0, **everywhere())]
    yield seen(a_pod("h", priority=10, **_affinity("podAntiAffinity", terms)))


def anti_affinity(size: Size, make: Callable[..., Body] = _term, key: str = ZONE) -> Iterator[Made]:
    terms = [make(number, key, **everywhere()) for number in range(size.rules // 2)]
    yield seen(a_pod("h", priority=10, **_affinity("podAntiAffinity", terms)))


def anti_affinity_of_few(size: Size) -> Iterator[Made]:
    """Evicting helps on each node, as the pods in question are on one node a zone."""
    terms = [
        {"topologyKey": HOST, "labelSelector": {"matchLabels": {"pod": f"pod-{number}"}},
         "namespaces": [f"team-{number % TEAMS}"]}
        for number in range(size.rules // 2)
    ]  # fmt: skip
    yield seen(a_pod("h", gpus=8, priority=10, **_affinity("podAntiAffinity", terms)))


def affinity(size: Size) -> Iterator[Made]:
    terms = [_broad(number, **everywhere()) for number in range(size.rules // 2)]
    yield seen(a_pod("h", gpus=8, priority=10, **_affinity("podAffinity", terms)))


def preferred(size: Size, kind: str = "podAffinity") -> Iterator[Made]:
    terms = [_broad(number, **everywhere()) for number in range(size.rules // 2)]
    yield seen(a_pod("h", **_preferring(kind, terms)))
    yield seen(a_pod("i", gpus=8, priority=10, **_preferring(kind, terms)))


def many_values(size: Size) -> Iterator[Made]:
    values = [f"app-{number}" for number in range(size.each - 10)]
    line = {"key": "app", "operator": "In", "values": values}
    term = {"topologyKey": ZONE, "labelSelector": {"matchExpressions": [line]}, **everywhere()}
    yield seen(a_pod("h", priority=10, **_affinity("podAntiAffinity", [term])))


def many_namespaces(size: Size) -> Iterator[Made]:
    names = [f"team-{number}" for number in range(size.each - 10)]
    term = _term(0) | {"namespaces": names}
    yield seen(a_pod("h", priority=10, **_affinity("podAntiAffinity", [term])))


def node_affinity(size: Size) -> Iterator[Made]:
    names = [size.node(number * 7) for number in range(size.each // 100)]
    terms = [
        {"matchExpressions": [{"key": HOST, "operator": "In", "values": names}]}
        for _ in range(size.rules // 2)
    ]
    rule = {"nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": terms}}}
    yield seen(a_pod("h", gpus=8, priority=10, affinity=rule))


def node_affinity_of_many_values(size: Size) -> Iterator[Made]:
    names = [size.node(number) for number in range(min(size.each - 10, size.nodes))]
    terms = [{"matchExpressions": [{"key": HOST, "operator": "In", "values": names}]}]
    rule = {"nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": terms}}}
    yield seen(a_pod("h", gpus=8, priority=10, affinity=rule))


def node_affinity_by_number(size: Size) -> Iterator[Made]:
    line = {"operator": "Gt", "values": ["5"]}
    keys = [HOST, *(f"made-up-{number}" for number in range(size.rules - 2))]
    terms = [{"matchExpressions": [{"key": key, **line} for key in keys]}]
    rule = {"nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": terms}}}
    yield seen(a_pod("h", gpus=8, priority=10, affinity=rule))


def spreading(size: Size, when: str = "DoNotSchedule", key: str = ZONE) -> Iterator[Made]:
    """One rule for each key and effect is all that validation lets pass: the nodes have more."""
    rules = []
    for number in range(size.rules // 2):
        topology = key if not number else f"example.com/rack-{number}"
        selector = {"matchExpressions": [{"key": "tier", "operator": "Exists"}]}
        rules.append({"topologyKey": topology, "maxSkew": 1, "whenUnsatisfiable": when,
                      "labelSelector": selector})  # fmt: skip
    for number in range(size.nodes):
        racks = {f"example.com/rack-{at}": f"r{number % 10}" for at in range(size.rules // 2)}
        yield node_seen(a_node(size, number, labels=racks))
    labels = {"app": "hostile", "tier": "web"}
    yield seen(a_pod("h", priority=10, labels=labels, topologySpreadConstraints=rules))
    yield seen(a_pod("i", gpus=8, priority=10, labels=labels, topologySpreadConstraints=rules))


def tolerations(size: Size) -> Iterator[Made]:
    for number in range(size.nodes):
        taints = [{"key": f"k{number}-{at}", "effect": "NoSchedule"} for at in range(3)]
        yield node_seen(a_node(size, number, spec={"taints": taints}))
    tolerated = [{"key": f"s{number}", "operator": "Exists"} for number in range(size.each // 2)]
    yield seen(a_pod("h", priority=10, tolerations=tolerated))


def host_ports(size: Size) -> Iterator[Made]:
    ports = [{"containerPort": 1 + port, "hostPort": 1 + port} for port in range(size.each // 2)]
    body = a_pod("h", priority=10)
    body["spec"]["containers"][0]["ports"] = ports
    raw = encoded(body)
    for number in range(size.many // 20):
        pod = decode_pod(raw)
        there = replace(pod, name=f"p{number}", uid=f"p{number}", node=size.node(number))
        yield partial(PodSeen, there)
    yield seen(body)


def many_resources(size: Size) -> Iterator[Made]:
    body = a_pod("h", priority=10)
    amounts = {f"example.com/r{number}": "1" for number in range(size.each // 2)}
    body["spec"]["containers"][0]["resources"] = {"requests": amounts, "limits": amounts}
    yield seen(body)


def many_containers(size: Size) -> Iterator[Made]:
    body = a_pod("h", priority=10)
    one = body["spec"]["containers"][0]
    body["spec"]["containers"] = [
        one | {"name": f"c{number}", "image": f"image-{number}"} for number in range(size.each // 2)
    ]
    yield seen(body)


def many_label_keys(size: Size) -> Iterator[Made]:
    """Each term asks about another label, and thousands of pods have all of them."""
    keys = [f"key-{number}" for number in range(size.rules // 2)]
    kind = decode_pod(encoded(a_pod("labelled", cpu="1m")))
    for number in range(size.many // 2):
        labels = {key: f"{key}-{number}" for key in keys}
        uid = f"labelled-{number}"
        there = replace(kind, name=uid, uid=uid, node=size.node(number), labels=labels)
        yield partial(PodSeen, there)
    terms = [
        {"topologyKey": ZONE, **everywhere(),
         "labelSelector": {"matchExpressions": [{"key": key, "operator": "Exists"}]}}
        for key in keys
    ]  # fmt: skip
    yield seen(a_pod("h", gpus=8, priority=10, **_affinity("podAntiAffinity", terms)))


def many_node_labels(size: Size) -> Iterator[Made]:
    """Nodes have as many labels as discovery of features gives them, and a pod asks about all."""
    keys = [f"feature.example.com/f-{number}" for number in range(size.rules - 2)]
    for number in range(size.nodes):
        features = dict.fromkeys(keys, f"v{number % 7}")
        yield node_seen(a_node(size, number, labels=features))
    lines = [{"key": key, "operator": "Exists"} for key in keys]
    terms = {"nodeSelectorTerms": [{"matchExpressions": lines}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    yield seen(a_pod("h", gpus=8, priority=10, affinity=affinity))


# -- making room -----------------------------------------------------------------------------


def preemption(size: Size) -> Iterator[Made]:
    """Everybody on a node has to go."""
    yield seen(a_pod("h", gpus=8, cpu="60", priority=10))


def budgets(size: Size, *, large: bool = False) -> Iterator[Made]:
    """Every pod is protected by all those of its namespace."""
    many, values = (20, 10 * size.each) if large else (size.many // 4, size.each // 10)
    line = {"key": "tier", "operator": "In", "values": ["web", *(f"v{n}" for n in range(values))]}
    for number in range(many):
        body = {
            "metadata": {"name": f"b{number}", "namespace": f"team-{number % TEAMS}"},
            "spec": {"selector": {"matchExpressions": [line]}},
            "status": {"disruptionsAllowed": 0},
        }
        raw = encoded(body)
        yield lambda raw=raw: BudgetSeen(decode_budget(raw))
    yield seen(a_pod("h", gpus=8, cpu="60", priority=10))


def preemption_on_one_node(size: Size) -> Iterator[Made]:
    """Anybody may write a node's name into a pod: thousands are on one node."""
    kind = decode_pod(encoded(a_pod("on-one", cpu="1m")))
    for number in range(size.each):
        uid = f"one-{number}"
        pod = replace(kind, name=uid, uid=uid, node=size.node(0), labels={"tier": "web"})
        yield partial(PodSeen, pod)
    selector = {"nodeSelector": {HOST: size.node(0)}}
    yield seen(a_pod("h", gpus=8, priority=10, **selector))
    yield seen(
        a_pod(
            "i", gpus=1, priority=10, **selector, **_affinity("podAntiAffinity", [_broad(0, HOST)])
        )
    )


def preemption_with_ports(size: Size) -> Iterator[Made]:
    body = a_pod("port", cpu="1m")
    body["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 80}]
    kind = decode_pod(encoded(body))
    for number in range(size.nodes):
        uid, priority = f"port-{number}", 20 if number % 2 else 0
        yield partial(
            PodSeen, replace(kind, name=uid, uid=uid, node=size.node(number), priority=priority)
        )
    body["spec"]["priority"] = 10
    body["metadata"]["name"] = body["metadata"]["uid"] = "h"
    yield seen(body)


def nominated(size: Size) -> Iterator[Made]:
    """Pods say of themselves that they are nominated, one for each node."""
    for number in range(min(size.many, size.nodes)):
        body = a_pod(f"n{number}", gpus=9, priority=10)
        body["status"] = {"nominatedNodeName": size.node(number)}
        yield seen(body)
    terms = [_term(0, HOST)]
    yield seen(a_pod("h", cpu="1", **_affinity("podAntiAffinity", terms)))


# -- waiting ---------------------------------------------------------------------------------


def waiting(size: Size) -> Iterator[Made]:
    """Many pods wait, each with another request; then one pod ends."""
    for number in range(size.many):
        yield seen(a_pod(f"w{number}", cpu=f"{65_000 + number}m"))
    yield gone(size, 1)


def waiting_with_priority(size: Size) -> Iterator[Made]:
    for number in range(size.many):
        yield seen(a_pod(f"w{number}", cpu=f"{65_000 + number}m", priority=1 + number))
    yield gone(size, 1)
    yield node_seen(a_node(size, 2, labels={"new": "label"}))


def waiting_apart(size: Size) -> Iterator[Made]:
    for number in range(size.many // 10):
        terms = [_term(number, **everywhere())]
        yield seen(a_pod(f"w{number}", **_affinity("podAntiAffinity", terms)))
    yield gone(size, 1)


def worst_together(size: Size) -> Iterator[Made]:
    """Many of the worst pods wait, no two alike; then a pod ends, and a node changes."""
    for number in range(size.many // 20):
        terms = [_broad(64 * number + at, **everywhere()) for at in range(size.rules // 2)]
        rules = _affinity("podAntiAffinity", terms)
        yield seen(a_pod(f"w{number}", gpus=1 + number % 8, priority=1 + number, **rules))
    yield gone(size, 1)
    yield node_seen(a_node(size, 2, labels={"new": "label"}))


# -- scheduling maps -------------------------------------------------------------------------


def _mapped(size: Size, name: str, lines: int, **more: Any) -> Made:
    """Each line names a node and GPUs; the pod says which line is its own."""
    said = "\n".join(f"{at}={size.node(at)}:{at % 8},GPU-{at}" for at in range(lines))
    body = a_pod(name, priority=10, **more)
    body["spec"]["schedulerName"] = MAPPING
    body["metadata"]["annotations"] = {"gpu-scheduling-map": said}
    return seen(body)


def scheduling_maps(size: Size) -> Iterator[Made]:
    """Maps as long as annotations may be, each another one: of an index, and of no index."""
    lines = 4 * size.each // 10
    for number in range(size.many // 20):
        yield _mapped(size, f"m{number}-{number}", lines - number)
    yield _mapped(size, "none", lines)
    yield gone(size, 1)


def scheduling_maps_of_replicas(size: Size) -> Iterator[Made]:
    """Pods of one owner get the first free line, one after the other."""
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "r"}
    said = "\n".join(f"{at}={size.node(at)}:0" for at in range(4 * size.each // 10))
    for number in range(size.many // 20):
        body = a_pod(f"r-{number}", priority=10, labels={"pod-template-hash": "h"})
        body["spec"]["schedulerName"] = MAPPING
        body["metadata"]["ownerReferences"] = [owner | {"controller": True}]
        body["metadata"]["annotations"] = {"gpu-scheduling-map": said}
        yield seen(body)
    yield gone(size, 1)


# -- those who are there ---------------------------------------------------------------------


def minded_by_many(size: Size, kind: str = "podAntiAffinity") -> Iterator[Made]:
    """Pods that are there have terms about everybody, each in other words."""
    for number in range(size.many // 10):
        terms = [_broad(number * 64 + at, HOST, **everywhere()) for at in range(64)]
        pod = decode_pod(encoded(a_pod(f"m{number}", **_affinity(kind, terms))))
        yield partial(PodSeen, replace(pod, node=size.node(number)))
    yield seen(a_pod("h", gpus=8, priority=10))
    yield seen(a_pod("i"))


def liked_by_many(size: Size) -> Iterator[Made]:
    for number in range(size.many // 10):
        terms = [_broad(number * 64 + at, ZONE, **everywhere()) for at in range(64)]
        pod = decode_pod(encoded(a_pod(f"m{number}", **_preferring("podAffinity", terms))))
        yield partial(PodSeen, replace(pod, node=size.node(number)))
    yield seen(a_pod("h"))
    yield seen(a_pod("i", labels={"app": "other"}))


# -- nodes and namespaces --------------------------------------------------------------------


def node_with_labels(size: Size) -> Iterator[Made]:
    yield node_seen(
        a_node(size, 1, labels={f"l{number}": "x" * 63 for number in range(2 * size.each)})
    )
    yield seen(a_pod("h"))


def node_with_taints(size: Size) -> Iterator[Made]:
    taints = [{"key": f"t{number}", "effect": "NoSchedule"} for number in range(2 * size.each)]
    yield node_seen(a_node(size, 1, spec={"taints": taints}))
    tolerated = [{"key": f"t{number}", "operator": "Exists"} for number in range(size.each)]
    yield seen(a_pod("h", tolerations=tolerated))


def node_with_resources(size: Size) -> Iterator[Made]:
    resources = {f"example.com/r{number}": "1" for number in range(size.each)}
    yield node_seen(a_node(size, 1, resources=resources))
    yield seen(a_pod("h", gpus=8, priority=10))


def node_with_images(size: Size) -> Iterator[Made]:
    images = [{"names": [f"image-{number}"], "sizeBytes": 1} for number in range(2 * size.each)]
    yield seen(a_pod("before"))
    yield node_seen(a_node(size, 1, images=images))
    yield seen(a_pod("h"))


def namespace_with_labels(size: Size) -> Iterator[Made]:
    """All counts that ask about namespaces are void when one changes."""
    yield from affinity(size)
    labels = {f"l{number}": "x" for number in range(size.each)}
    yield lambda: NamespaceSeen("team-0", labels)
    yield seen(a_pod("j"))


def services(size: Size) -> Iterator[Made]:
    line = Requirement("app", "In", ("hostile",))
    for number in range(size.many):
        selector = LabelSelector((line, Requirement(f"k{number}", "DoesNotExist")))
        yield partial(SelectorSeen, "Service", "team-0", f"s{number}", selector)
    yield seen(a_pod("h"))


def gang(size: Size, topology: str = "", last: int = 0) -> Iterator[Made]:
    """Each of its pods asks for something else; the last one may ask for more GPUs."""
    pods = size.each // 10
    annotations = {GANG: "g", f"{GANG}-min": str(pods)}
    annotations |= {f"{GANG}-topology": topology} if topology else {}
    for number in range(pods):
        gpus = last if number == pods - 1 else 0
        pod = a_pod(f"h-{number}", cpu=f"{100 + number}m", gpus=gpus)
        pod["metadata"]["annotations"] = annotations
        yield seen(pod)
    yield node_seen(a_node(size, 1, labels={"changed": "yes"}))


SHAPES: dict[str, Shape] = {
    "one anti-affinity term": one_anti_affinity_term,
    "anti-affinity by zone": anti_affinity,
    "anti-affinity by zone, all pods": partial(anti_affinity, make=_broad),
    "anti-affinity by node": partial(anti_affinity, key=HOST),
    "anti-affinity to few": anti_affinity_of_few,
    "affinity": affinity,
    "preferred affinity": preferred,
    "preferred anti-affinity": partial(preferred, kind="podAntiAffinity"),
    "selector of many values": many_values,
    "term of many namespaces": many_namespaces,
    "node affinity": node_affinity,
    "node affinity, many values": node_affinity_of_many_values,
    "node affinity, many keys": node_affinity_by_number,
    "spreading": spreading,
    "preferred spreading": partial(spreading, when="ScheduleAnyway"),
    "spreading by node": partial(spreading, key=HOST),
    "tolerations": tolerations,
    "host ports": host_ports,
    "many resources": many_resources,
    "many containers": many_containers,
    "many label keys": many_label_keys,
    "many node labels": many_node_labels,
    "preemption": preemption,
    "preemption, many budgets": budgets,
    "preemption, large budgets": partial(budgets, large=True),
    "preemption on one node": preemption_on_one_node,
    "preemption with ports": preemption_with_ports,
    "nominated pods": nominated,
    "waiting": waiting,
    "waiting, with priorities": waiting_with_priority,
    "waiting, with terms": waiting_apart,
    "many of the worst pods": worst_together,
    "scheduling maps": scheduling_maps,
    "scheduling maps of replicas": scheduling_maps_of_replicas,
    "minded by many": minded_by_many,
    "needed by many": partial(minded_by_many, kind="podAffinity"),
    "liked by many": liked_by_many,
    "node with labels": node_with_labels,
    "node with taints": node_with_taints,
    "node with resources": node_with_resources,
    "node with images": node_with_images,
    "namespace with labels": namespace_with_labels,
    "services": services,
    "gang of different pods": gang,
    "gang of different pods, refused": partial(gang, last=9),
    "gang of different pods, by zone": partial(gang, topology=f"preferred: {ZONE}"),
    "gang of different pods, one zone": partial(gang, topology=f"required: {ZONE}", last=9),
    **WAITING_SHAPES,
    **VOLUME_SHAPES,
    **CLAIM_SHAPES,
    **CLAIM_OBJECT_SHAPES,
    **ALTERNATIVE_SHAPES,
    **OBJECT_SHAPES,
    **GANG_SHAPES,
    **PLAN_SHAPES,
    **EVICTION_SHAPES,
    **SOURCE_SHAPES,
    **TENANT_SHAPES,
    **READING_SHAPES,
    **UNIT_SHAPES,
    **TOPOLOGY_SHAPES,
}


SHAPE_ENGINES = {
    **ENGINES,
    **GANG_ENGINES,
    **ALTERNATIVE_ENGINES,
    **PLAN_ENGINES,
    **EVICTION_ENGINES,
    **SOURCE_ENGINES,
    **TENANT_ENGINES,
    **UNIT_ENGINES,
}


def a_cluster_for(name: str, size: Size) -> Engine:
    """The full cluster that a shape is shown to."""
    make = SHAPE_ENGINES.get(name)
    return a_full_cluster(size, make() if make else None)
