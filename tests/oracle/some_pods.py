"""Pods drawn by lot: those that are there already, and the probes."""

from collections.abc import Collection, Mapping, Sequence

from oracle.case import NAMESPACES, Object
from oracle.draws import POD_WORDS, Draw, some_labels
from oracle.some_nodes import CALM, GPU, HUGE, IMAGES, WIDGET
from oracle.some_rules import (
    PREFERRED,
    REQUIRED,
    is_soft,
    node_selector,
    pod_affinity,
    preferred_node_affinity,
    required_node_affinity,
    spread,
    tolerations,
)

_PRIORITIES = (-5, 0, 0, 10, 100, 1000)
_PROBES_PRIORITIES = (-5, 0, 50, 100, 1000, 2000)
_CPU = ("0", "100m", "500m", "1", "2", "0.0005")
_MEMORY = ("0", "64Mi", "512Mi", "1Gi", "2G")
#: What a probe may be about, and how often.
_SUBJECTS = {"room": 5, "node": 4, "tolerations": 4, "ports": 2}
_SUBJECTS_OF = {
    "affinity": {"near": 3, "apart": 3},
    "spread": {"spread": 6},
    "features": {"restarts": 1.5},
}


# -- pods that are there already -----------------------------------------------------------------


def bound_pods(draw: Draw, nodes: Sequence[str], features: Collection[str]) -> list[Object]:
    if not nodes:
        return []
    count = draw.randint(0, draw.one((4, 12, 25)))
    pods = [_bound(draw, f"there-{number}", nodes, features) for number in range(count)]
    _part_ports(pods)
    return pods


def _part_ports(pods: Sequence[Object]) -> None:
    """No node has a host port twice: kube-scheduler forgets both when one of the two goes."""
    taken: set[tuple[str, int]] = set()
    for pod in pods:
        spec = pod["spec"]
        for container in (*spec["containers"], *spec.get("initContainers", ())):
            for port in container.get("ports", ()):
                place = spec["nodeName"], port["hostPort"]
                if place in taken:
                    del port["hostPort"]
                taken.add(place)


def _bound(draw: Draw, name: str, nodes: Sequence[str], features: Collection[str]) -> Object:
    pod = any_pod(draw, name)
    # Some pods are left from a node that is gone.
    pod["spec"]["nodeName"] = "gone" if draw.chance(0.02) else draw.one(nodes)
    if "affinity" in features and draw.chance(0.25):
        kind = draw.one(("podAntiAffinity", "podAntiAffinity", "podAffinity"))
        rule = pod_affinity(draw, features, anti=kind == "podAntiAffinity")
        pod["spec"]["affinity"] = {kind: rule}
    if draw.chance(0.15):
        pod["spec"]["containers"][0]["ports"] = host_ports(draw)
    if draw.chance(0.08):
        pod["metadata"]["deletionTimestamp"] = "soon"
    if "preemption" in features:
        pod["spec"]["priority"] = draw.one(_PRIORITIES)
        if CALM not in features and draw.chance(0.5):  # there has to be something to gain
            grow(draw, pod["spec"])
    _ask_for_the_pod(draw, pod["spec"])
    pod["status"] = _status(draw, pod)
    return pod


def _status(draw: Draw, pod: Object) -> Object:
    """What a kubelet would say, where that matters."""
    start = f"2026-01-0{draw.randint(1, 9)}T0{draw.randint(0, 9)}:{draw.randint(10, 59)}:00Z"
    status: Object = {"phase": "Running", "startTime": start}
    if draw.chance(0.05):
        status["phase"] = draw.one(("Succeeded", "Failed"))
    if draw.chance(0.15):
        status["containerStatuses"] = [
            _container_status(draw, container) for container in pod["spec"]["containers"]
        ]
        if draw.chance(0.3):
            status["conditions"] = [_pending_resize(draw)]
    return status


def _container_status(draw: Draw, container: Object) -> Object:
    """After an in-place resize the kubelet reports what it gave, and what it set aside."""
    status: Object = {
        "name": container["name"],
        "image": container["image"],
        "imageID": "",
        "ready": True,
        "restartCount": 0,
    }
    if draw.chance(0.85):
        status["resources"] = {"requests": {"cpu": draw.one(("1", "3"))}}
    if draw.chance(0.6):
        status["allocatedResources"] = {"cpu": draw.one(("1500m", "200m")), "memory": "3Gi"}
    return status


def _pending_resize(draw: Draw) -> Object:
    reason = draw.one(("Infeasible", "Deferred"))
    return {"type": "PodResizePending", "status": "True", "reason": reason}


# -- probes --------------------------------------------------------------------------------------


def subjects(draw: Draw, features: Collection[str]) -> dict[str, float]:
    """How often probes of a case ask about what; in half of the cases mostly about one thing."""
    weights: dict[str, float] = dict(_SUBJECTS)
    for feature, more in _SUBJECTS_OF.items():
        weights |= more if feature in features else {}
    if draw.chance(0.5):
        weights[draw.weighted(weights)] *= 10
    return weights


def probe(
    draw: Draw,
    name: str,
    nodes: Sequence[str],
    features: Collection[str],
    weights: Mapping[str, float],
    most: int,
) -> Object:
    """A pod that asks, about one to `most` subjects."""
    pod = any_pod(draw, name)
    spec = pod["spec"]
    for subject in dict.fromkeys(draw.weighted(weights) for _ in range(draw.randint(1, most))):
        _ask(draw, subject, spec, nodes, features)
    _ask_for_the_pod(draw, spec)
    if "preemption" in features:
        spec["priority"] = draw.one(_PROBES_PRIORITIES)
        if draw.chance(0.1):
            spec["preemptionPolicy"] = "Never"
    return pod


def _ask(
    draw: Draw, subject: str, spec: Object, nodes: Sequence[str], features: Collection[str]
) -> None:
    affinity = spec.setdefault("affinity", {})
    match subject:
        case "room":
            grow(draw, spec)
        case "node":
            _ask_nodes(draw, spec, nodes, features)
        case "tolerations":
            spec["tolerations"] = tolerations(draw)
        case "ports":
            spec["containers"][0]["ports"] = host_ports(draw)
        case "near":
            affinity["podAffinity"] = pod_affinity(draw, features, anti=False)
        case "apart":
            affinity["podAntiAffinity"] = pod_affinity(draw, features, anti=True)
        case "spread":
            spec["topologySpreadConstraints"] = spread(draw, features)
            if draw.chance(0.2):  # it may matter which nodes are counted
                _ask_nodes(draw, spec, nodes, features)
        case "restarts":
            _restart_all(draw.one(spec["containers"]))


def _ask_nodes(draw: Draw, spec: Object, nodes: Sequence[str], features: Collection[str]) -> None:
    if draw.chance(0.3):
        spec["nodeSelector"] = node_selector(draw)
        return
    found: Object = {}
    soft = is_soft(draw, features)
    if not soft or draw.chance(0.3):
        found[REQUIRED] = required_node_affinity(draw, nodes, features)
    if soft:
        found[PREFERRED] = preferred_node_affinity(draw, nodes)
    spec["affinity"]["nodeAffinity"] = found


def grow(draw: Draw, spec: Object) -> None:
    """Asks for much of something."""
    container = draw.one(spec["containers"])
    name = draw.one(("cpu", "memory", "ephemeral-storage", GPU, GPU, WIDGET, HUGE))
    amount = {
        "cpu": draw.one(("1", "3", "7500m", "64")),
        "memory": draw.one(("3Gi", "12Gi", "1Ti")),
        "ephemeral-storage": draw.one(("20Gi", "1Ti")),
        GPU: draw.one(("1", "2", "4", "16")),
        WIDGET: draw.one(("1", "3", "9")),
        HUGE: draw.one(("32Mi", "128Mi")),
    }[name]
    resources = container["resources"]
    resources["requests"][name] = amount
    if name in (GPU, WIDGET, HUGE):
        resources["limits"] = {**resources.get("limits", {}), name: amount}
    if name == HUGE and "cpu" not in resources["requests"]:
        resources["requests"]["cpu"] = "100m"  # huge pages alone are not allowed


def _restart_all(container: Object) -> None:
    """Only nodes that declare so can restart the whole pod when one container exits."""
    rule = {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [42]}}
    container |= {"restartPolicy": "Never", "restartPolicyRules": [rule]}


def _ask_for_the_pod(draw: Draw, spec: Object) -> None:
    """Now and then, CPU for the pod as a whole, which may not be less than its containers'."""
    if not draw.chance(0.08):
        return
    spec["resources"] = {"requests": {"cpu": draw.one(("2", "4"))}}
    for container in (*spec["containers"], *spec.get("initContainers", ())):
        if "cpu" in container["resources"]["requests"]:
            container["resources"]["requests"]["cpu"] = "100m"


# -- any pod -------------------------------------------------------------------------------------


def any_pod(draw: Draw, name: str) -> Object:
    spec: Object = {
        "schedulerName": "default-scheduler",
        "containers": [_container(draw, f"c{n}") for n in range(draw.weighted({1: 4, 2: 1}))],
    }
    if draw.chance(0.2):
        spec["initContainers"] = [_init(draw, f"i{n}") for n in range(draw.randint(1, 3))]
    labels = some_labels(draw, POD_WORDS, 0.7)
    metadata = {"name": name, "namespace": _namespace(draw), "labels": labels}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _namespace(draw: Draw) -> str:
    return draw.weighted(dict(zip(NAMESPACES, (4, 2, 1), strict=True)))


def _container(draw: Draw, name: str) -> Object:
    requests: Object = {}
    if draw.chance(0.6):
        requests["cpu"] = draw.one(_CPU)
    if draw.chance(0.5):
        requests["memory"] = draw.one(_MEMORY)
    resources: Object = {"requests": requests}
    if draw.chance(0.25):
        count = str(draw.one((0, 1, 1, 2)))
        resources["limits"] = {GPU: count}
        requests[GPU] = count
    return {"name": name, "image": draw.one(list(IMAGES)), "resources": resources}


def _init(draw: Draw, name: str) -> Object:
    container = _container(draw, name)
    if draw.chance(0.5):
        container["restartPolicy"] = "Always"
        if draw.chance(0.2):
            container["ports"] = host_ports(draw)
    return container


def host_ports(draw: Draw) -> list[Object]:
    ports = draw.some((80, 443, 8080), 1, 2)
    return [_host_port(draw, port) for port in ports]


def _host_port(draw: Draw, port: int) -> Object:
    found: Object = {"containerPort": port, "hostPort": port}
    if draw.chance(0.3):
        found["protocol"] = draw.one(("UDP", "TCP"))
    if draw.chance(0.4):
        found["hostIP"] = draw.one(("127.0.0.1", "10.0.0.1", "0.0.0.0", "::"))
    return found
