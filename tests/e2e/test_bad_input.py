"""Whatever pods and nodes say about scheduling: a clear reason, no crash, and nobody held up.

All of it passes the API server's own validation.
"""

from typing import Any

import pytest

from fairleads import Pods, Running

pytestmark = pytest.mark.server

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
HUGE = "9223372036854775807"
TOO_MANY_RULES = "the pod has 5000 placement rules; the limit is 128"
TOO_MANY_VALUES = "values and namespaces; the limit is 10000"


def lines(count: int) -> list[dict[str, Any]]:
    return [{"key": f"k{n}", "operator": "NotIn", "values": ["v"]} for n in range(count)]


def on_nodes(*terms: list[dict[str, Any]]) -> dict[str, Any]:
    found = [{"matchExpressions": each} for each in terms]
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": found}}}}


def apart(*terms: dict[str, Any]) -> dict[str, Any]:
    found = [{"topologyKey": "zone", "labelSelector": {}, **term} for term in terms]
    return {"affinity": {"podAntiAffinity": {REQUIRED: found}}}


def values(count: int, key: str = "app", operator: str = "In") -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": [f"v{n}" for n in range(count)]}


def claims(count: int) -> dict[str, Any]:
    mounted = [
        {"name": f"v{n}", "persistentVolumeClaim": {"claimName": f"c{n}"}} for n in range(count)
    ]
    return {"volumes": mounted}


def resources(**amounts: str) -> dict[str, Any]:
    return {"container": {"resources": {"limits": amounts, "requests": amounts}}}


SPREAD = {
    "maxSkew": 2**31 - 1, "topologyKey": "nowhere", "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": {},
}  # fmt: skip
NOBODY = {"labelSelector": {"matchLabels": {"a": "b"}}, "matchLabelKeys": ["absent"]}
WISH = {"weight": 100, "podAffinityTerm": {"topologyKey": "nowhere", **NOBODY}}

#: What is asked, and what is said of it; nothing where the pod is placed.
PODS: dict[str, tuple[dict[str, Any], str]] = {
    "lines": (on_nodes(lines(5000)), TOO_MANY_RULES),
    "terms": (on_nodes(*([line] for line in lines(5000))), TOO_MANY_RULES),
    "selector": ({"nodeSelector": {f"k{n}": "v" for n in range(5000)}}, TOO_MANY_RULES),
    "apart": (apart(*({"topologyKey": f"k{n}"} for n in range(5000))), TOO_MANY_RULES),
    "values": (apart({"labelSelector": {"matchExpressions": [values(50_000)]}}), TOO_MANY_VALUES),
    "nodes": (on_nodes([values(50_000, "zone", "NotIn")]), TOO_MANY_VALUES),
    "elsewhere": (apart({"namespaces": [f"n{n}" for n in range(50_000)]}), TOO_MANY_VALUES),
    "as-many-values-as-may-be": (
        apart({"labelSelector": {"matchExpressions": [values(9_000)]}}), "",
    ),
    "as-many-rules-as-may-be": (on_nodes(lines(128)), ""),
    "tolerant": ({"tolerations": [{"key": f"{n}", "operator": "Exists"} for n in range(9000)]}, ""),
    "ports": (
        {"container": {"ports": [{"containerPort": n, "hostPort": n} for n in range(1, 9000)]}}, "",
    ),
    "claims": (claims(5000), 'persistentvolumeclaim "c0" not found'),
    "crowd": ({"containers": [{"name": f"c{n}", "image": "x"} for n in range(1000)]}, ""),
    "made-up": (
        resources(**{f"example.com/r{n}": "1" for n in range(2000)}), "2000 kinds of resources",
    ),
    "memory": (resources(memory="1e30"), "Insufficient memory"),
    "cpu": (resources(cpu=HUGE), "Insufficient cpu"),
    "next-to-nothing": (resources(cpu="1e-9", memory="0.1m"), ""),
    "gpus": (resources(**{"nvidia.com/gpu": HUGE}), ""),
    "unequal": (
        on_nodes([{"key": "word", "operator": "Gt", "values": ["5"]}]),
        "node(s) didn't match Pod's node affinity/selector",
    ),
    "no-domain": (
        {"topologySpreadConstraints": [{**SPREAD, "matchLabelKeys": ["absent"]}]},
        "node(s) didn't match pod topology spread constraints (missing required label)",
    ),
    "wishful": ({"affinity": {"podAffinity": {PREFERRED: [WISH]}}}, ""),
    "unicode": ({"metadata": {"annotations": {"a": "\u202e\u0007é𝄞" * 1000}}}, ""),
}  # fmt: skip

NODES = {
    "endless": {"cpu": "1e9", "memory": "1Pi", "pods": "1e30", "nvidia.com/gpu": HUGE},
    "tiny": {"cpu": "1n", "memory": "0.1m"},
    "full": {"pods": "0"},
}


def test_pods_that_ask_beyond_reason_are_told_so_and_hold_up_nobody(
    create_nodes, pods: Pods, running: Running
) -> None:
    for name, allocatable in NODES.items():
        create_nodes([name], allocatable=allocatable, labels={"zone": name, "word": "seven"})
    for name, (spec, _) in PODS.items():
        pods.create(name, **spec)
        pods.create(f"{name}-bound", **{**spec, "nodeName": "full"})
        pods.create(f"{name}-fine")
        pods.wait_bound(f"{name}-fine")
    for name, (_, sentence) in PODS.items():
        if sentence:
            assert sentence in pods.wait_refused(name)["message"], name
        else:
            assert pods.wait_bound(name) != {name: "full"}
    assert running.get("/readyz") == (200, "ok")
