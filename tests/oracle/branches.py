"""The branches of kube-scheduler's rules, by feature, and how to tell that a probe took one."""

from collections.abc import Callable, Mapping

from oracle.branches_asked import ARGUMENTS
from oracle.branches_beyond import FEATURES, IMAGES, PREEMPTION, SCORES, VOLUMES
from oracle.branches_claims import CLAIMS
from oracle.branches_nominated import NOMINATIONS
from oracle.branches_odd import ODD_IMAGES, ODD_PODS, ODD_SPREAD, ODD_STORAGE
from oracle.case import Object, labels_of, nominated
from oracle.seen import APART, NEAR, Seen, leaving
from oracle.some_nodes import GPU, UNSCHEDULABLE, WIDGET

Branches = Mapping[str, Callable[[Seen], object]]

_HARD = ("NoSchedule", "NoExecute")


def _taints(node: Object, *effects: str) -> list[Object]:
    return [t for t in node["spec"].get("taints", ()) if t["effect"] in effects]


def _statuses(seen: Seen) -> list[Object]:
    return [pod.get("status", {}) for pod in seen.bound]


def _phases(seen: Seen) -> set[str]:
    return {status.get("phase", "") for status in _statuses(seen)}


def _resized(seen: Seen, key: str) -> list[Object]:
    found = (c for status in _statuses(seen) for c in status.get("containerStatuses", ()))
    return [container for container in found if key in container]


def _resize_reasons(seen: Seen) -> set[str]:
    return {c["reason"] for status in _statuses(seen) for c in status.get("conditions", ())}


def _ports(seen: Seen) -> list[Object]:
    return [port for container in seen.containers() for port in container.get("ports", ())]


def _requests(seen: Seen) -> list[Object]:
    return [container["resources"].get("requests", {}) for container in seen.containers()]


NODE: Branches = {
    "verdict: placed": lambda s: s.placed,
    "verdict: refused": lambda s: not s.placed,
    "verdict: no nodes at all": lambda s: not s.nodes,
    "cordon: refused": lambda s: s.says("were unschedulable"),
    "cordon: tolerated": lambda s: s.placed and s.node["spec"].get("unschedulable"),
    "taint: refused": lambda s: s.says("untolerated taint"),
    "taint: tolerated": lambda s: s.placed and _taints(s.node, *_HARD),
    "taint: soft ones do not refuse": lambda s: s.placed and _taints(s.node, "PreferNoSchedule"),
    "toleration: of every taint": lambda s: {"operator": "Exists"} in s.spec.get("tolerations", ()),
    "toleration: of one effect": lambda s: any(
        "effect" in t for t in s.spec.get("tolerations", ())
    ),
    "toleration: of a value": lambda s: any(t.get("value") for t in s.spec.get("tolerations", ())),
    "toleration: of a cordon": lambda s: any(
        t.get("key") == UNSCHEDULABLE for t in s.spec.get("tolerations", ())
    ),
    "node selector: refused": lambda s: (
        "nodeSelector" in s.spec and s.says("node affinity/selector")
    ),
    "node selector: met": lambda s: "nodeSelector" in s.spec and s.placed,
    "node affinity: refused": lambda s: s.node_terms() and s.says("node affinity/selector"),
    "node affinity: met": lambda s: s.node_terms() and s.placed,
    "node affinity: In": lambda s: s.node_lines("In"),
    "node affinity: NotIn": lambda s: s.node_lines("NotIn"),
    "node affinity: Exists": lambda s: s.node_lines("Exists"),
    "node affinity: DoesNotExist": lambda s: s.node_lines("DoesNotExist"),
    "node affinity: Gt": lambda s: s.node_lines("Gt"),
    "node affinity: Lt": lambda s: s.node_lines("Lt"),
    "node affinity: a comparison with a word": lambda s: (
        (s.node_lines("Gt") or s.node_lines("Lt"))
        and any(labels_of(node).get("rank") == "high" for node in s.nodes)
    ),
    "node affinity: a field": lambda s: s.node_lines("NotIn", "matchFields"),
    "node affinity: several terms": lambda s: len(s.node_terms()) > 1,
    "node affinity: an empty term": lambda s: {} in s.node_terms(),
    "ports: refused": lambda s: s.says("free ports"),
    "ports: free": lambda s: s.placed and _ports(s),
    "ports: of an address": lambda s: any("hostIP" in port for port in _ports(s)),
    "ports: UDP": lambda s: any(port.get("protocol") == "UDP" for port in _ports(s)),
    "ports: of a sidecar": lambda s: any("ports" in c for c in s.spec.get("initContainers", ())),
    "fit: cpu": lambda s: s.says("Insufficient cpu"),
    "fit: memory": lambda s: s.says("Insufficient memory"),
    "fit: ephemeral storage": lambda s: s.says("Insufficient ephemeral-storage"),
    "fit: GPUs": lambda s: s.says(f"Insufficient {GPU}"),
    "fit: another extended resource": lambda s: s.says(f"Insufficient {WIDGET}"),
    "fit: huge pages": lambda s: s.says("Insufficient hugepages-2Mi"),
    "fit: too many pods": lambda s: s.says("Too many pods"),
    "fit: several short at once": lambda s: s.theirs.message.count("Insufficient") > 1,
    "fit: evicting could help": lambda s: (
        s.says("Insufficient") and s.says("No preemption victims")
    ),
    "fit: evicting could not help": lambda s: s.says("Insufficient") and s.says("is not helpful"),
    "fit: an amount of zero": lambda s: any("0" in found.values() for found in _requests(s)),
    "fit: less than a thousandth": lambda s: any(r.get("cpu") == "0.0005" for r in _requests(s)),
    "fit: init container": lambda s: any(
        "restartPolicy" not in c for c in s.spec.get("initContainers", ())
    ),
    "fit: sidecar": lambda s: any("restartPolicy" in c for c in s.spec.get("initContainers", ())),
    "fit: for the pod as a whole": lambda s: "resources" in s.spec,
    "fit: overhead": lambda s: "overhead" in s.spec,
    "usage: overhead": lambda s: any("overhead" in pod["spec"] for pod in s.bound),
    "usage: none of a gated pod": lambda s: any(
        pod["spec"].get("schedulingGates") and not nominated(pod) for pod in s.case.of_kind("Pod")
    ),
    "usage: a finished pod": lambda s: _phases(s) & {"Succeeded", "Failed"},
    "usage: a pod that leaves": lambda s: any(leaving(pod) for pod in s.bound),
    "usage: a pod of a node that is gone": lambda s: any(
        pod["spec"]["nodeName"] == "gone" for pod in s.bound
    ),
    "usage: of a pod as a whole": lambda s: any("resources" in pod["spec"] for pod in s.bound),
    "usage: resized": lambda s: _resized(s, "resources"),
    "usage: allocated": lambda s: _resized(s, "allocatedResources"),
    "usage: a resize that is infeasible": lambda s: "Infeasible" in _resize_reasons(s),
    "usage: a resize that is deferred": lambda s: "Deferred" in _resize_reasons(s),
}

NAMES: Branches = {
    "node names: of some nodes only": lambda s: s.says("didn't satisfy plugin(s) [NodeAffinity]"),
    "node names: met": lambda s: s.placed and s.node_lines("In", "matchFields"),
}


def _matches_itself(seen: Seen) -> bool:
    """Placed although nobody is there to be near to."""
    near = seen.decoded.request.required_affinity
    return bool(near) and seen.placed and not seen.meant(near)


def _has(key: str) -> Callable[[Seen], object]:
    return lambda s: any(key in term for term in s.terms(NEAR, APART))


def _keyless(seen: Seen) -> bool:
    keys = {term["topologyKey"] for term in seen.terms(NEAR, APART)}
    return any(key not in labels_of(node) for key in keys for node in seen.nodes)


AFFINITY: Branches = {
    "affinity: refused": lambda s: s.says("match pod affinity rules"),
    "affinity: met": lambda s: s.placed and s.meant(s.decoded.request.required_affinity),
    "affinity: self match exception": _matches_itself,
    "affinity: several terms": lambda s: len(s.terms(NEAR)) > 1,
    "affinity: a pod that leaves counts": lambda s: any(
        leaving(pod) for pod in s.meant(s.decoded.request.required_affinity)
    ),
    "anti-affinity: refused": lambda s: s.says("match pod anti-affinity rules"),
    "anti-affinity: met": lambda s: s.placed and s.terms(APART),
    "anti-affinity: several terms": lambda s: len(s.terms(APART)) > 1,
    "anti-affinity of others: refused": lambda s: s.says("existing pods anti-affinity rules"),
    "anti-affinity of others: by namespaceSelector": lambda s: (
        s.says("existing pods anti-affinity rules")
        and any("namespaceSelector" in t for pod in s.bound for t in s.terms(APART, of=pod))
    ),
    "pod term: namespaces": _has("namespaces"),
    "pod term: namespaceSelector": _has("namespaceSelector"),
    "pod term: every namespace": lambda s: any(
        term.get("namespaceSelector") == {} for term in s.terms(NEAR, APART)
    ),
    "pod term: matchLabelKeys": _has("matchLabelKeys"),
    "pod term: mismatchLabelKeys": _has("mismatchLabelKeys"),
    "pod term: without a selector": lambda s: any(
        "labelSelector" not in term for term in s.terms(NEAR, APART)
    ),
    "pod term: with an empty selector": lambda s: any(
        term.get("labelSelector") == {} for term in s.terms(NEAR, APART)
    ),
    "pod term: a node without the key": _keyless,
}

SPREAD: Branches = {
    "spread: refused": lambda s: s.says("topology spread constraints"),
    "spread: missing label": lambda s: s.says("(missing required label)"),
    "spread: met": lambda s: s.placed and s.spread(),
    "spread: two rules": lambda s: len(s.spread()) > 1,
    "spread: minDomains unmet": lambda s: any(
        rule.get("minDomains", 0) > len(s.domains(rule["topologyKey"])) for rule in s.spread()
    ),
    "spread: minDomains met": lambda s: any(
        1 < rule.get("minDomains", 0) <= len(s.domains(rule["topologyKey"])) for rule in s.spread()
    ),
    "spread: affinity ignored": lambda s: (
        s.node_terms() and any(r.get("nodeAffinityPolicy") == "Ignore" for r in s.spread())
    ),
    "spread: affinity honoured": lambda s: (
        s.node_terms() and any(r.get("nodeAffinityPolicy") != "Ignore" for r in s.spread())
    ),
    "spread: taints honoured": lambda s: (
        any(_taints(node, *_HARD) for node in s.nodes)
        and any(r.get("nodeTaintsPolicy") == "Honor" for r in s.spread())
    ),
    "spread: without a selector": lambda s: any("labelSelector" not in r for r in s.spread()),
    "spread: with an empty selector": lambda s: any(
        r.get("labelSelector") == {} for r in s.spread()
    ),
    "spread: matchLabelKeys": lambda s: any("matchLabelKeys" in r for r in s.spread()),
    "spread: a pod that leaves does not count": lambda s: any(
        leaving(pod) for pod in s.meant_by_spread()
    ),
}


BRANCHES: Mapping[str, Branches] = {
    "node": {**NODE, **ODD_PODS},
    "names": NAMES,
    "affinity": AFFINITY,
    "spread": {**SPREAD, **ODD_SPREAD},
    "scores": SCORES,
    "images": {**IMAGES, **ODD_IMAGES},
    "features": FEATURES,
    "volumes": {**VOLUMES, **ODD_STORAGE},
    "preemption": PREEMPTION,
    "nominations": NOMINATIONS,
    "arguments": ARGUMENTS,
    "claims": CLAIMS,
}
