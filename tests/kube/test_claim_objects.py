"""Slices, classes, claims and taint rules: what is made of their JSON."""

import copy
import json
from fractions import Fraction
from random import Random
from typing import Any

import msgspec
import pytest

from fairlead.kube.claims.changes import is_same
from fairlead.kube.claims.claims import decode_claim
from fairlead.kube.claims.classes import decode_device_class, decode_taint_rule
from fairlead.kube.claims.compute_domains import MOST_NODES, decode_compute_domain
from fairlead.kube.claims.patches import allocation_json
from fairlead.kube.claims.slices import decode_slice
from fairlead.model.claims import (
    ClaimUser,
    DeviceCondition,
    DeviceConstraint,
    DeviceId,
    DeviceNeed,
)
from fairlead.model.compute_domains import DomainNode
from fairlead.model.devices import (
    CapacityRange,
    CounterSet,
    DeviceCapacity,
    DeviceNodes,
    DeviceTaint,
    DeviceToleration,
    RequestPolicy,
    VersionText,
)
from fuzz.mutations import mutated

META = {"name": "x", "uid": "u", "resourceVersion": "7"}
GPU = {
    "name": "gpu-0",
    "attributes": {
        "type": {"string": "gpu"},
        "index": {"int": 0},
        "healthy": {"bool": False},
        "driverVersion": {"version": "580.95.5"},
        "alpha": {"ints": [1, 2]},
    },
    "capacity": {"memory": {"value": "81559Mi"}},
}
SLICE = {
    "metadata": META,
    "spec": {
        "driver": "gpu.nvidia.com",
        "nodeName": "node-a",
        "pool": {"name": "node-a", "generation": 3, "resourceSliceCount": 2},
        "devices": [GPU],
    },
}
RESULT = {
    "request": "gpu/small", "driver": "gpu.nvidia.com", "pool": "node-a", "device": "gpu-0",
    "adminAccess": True,
    "tolerations": [{"key": "k", "operator": "Exists", "tolerationSeconds": 9}],
    "bindingConditions": ["Ready"], "bindingFailureConditions": ["Broken"],
    "shareID": "0c3f0b1e-0000-4000-8000-000000000000", "consumedCapacity": {"memory": "40Gi"},
}  # fmt: skip
ALLOCATION = {
    "devices": {
        "results": [RESULT],
        "config": [
            {"source": "FromClass", "requests": ["gpu"],
             "opaque": {"driver": "gpu.nvidia.com", "parameters": {"a": [1, None]}}},
        ],
    },
    "nodeSelector": {"nodeSelectorTerms": [
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-a"]}],
         "matchExpressions": [{"key": "zone", "operator": "Exists"}]},
    ]},
    "allocationTimestamp": "2026-01-01T00:00:00Z",
}  # fmt: skip
CLAIM = {
    "metadata": {
        **META, "namespace": "n", "finalizers": ["example.com/keep"],
        "ownerReferences": [{"uid": "other"}, {"uid": "the-pod", "controller": True}],
        "annotations": {"resource.kubernetes.io/extended-resource-claim": "true"},
    },
    "spec": {"devices": {
        "requests": [
            {"name": "gpu", "firstAvailable": [
                {"name": "small", "deviceClassName": "c", "allocationMode": "ExactCount",
                 "count": 2, "selectors": [{"cel": {"expression": "true"}}],
                 "capacity": {"requests": {"memory": "500m"}}},
                {"name": "all", "deviceClassName": "c", "allocationMode": "All"},
            ]},
        ],
        "constraints": [{"requests": ["gpu"], "matchAttribute": "a/b"}],
        "config": [{"opaque": {"driver": "gpu.nvidia.com", "parameters": {"a": 1}}}],
    }},
    "status": {
        "allocation": ALLOCATION,
        "reservedFor": [{"resource": "pods", "name": "p", "uid": "pu"}],
        "devices": [{"driver": "gpu.nvidia.com", "pool": "node-a", "device": "gpu-0",
                     "conditions": [{"type": "Ready", "status": "True"}], "data": {"x": 1}}],
    },
}  # fmt: skip


HELD = DeviceId("gpu.nvidia.com", "node-a", RESULT["device"])


def raw(body: Any) -> bytes:
    return json.dumps(body).encode()


def changed(body: dict[str, Any], value: Any, *path: str | int) -> bytes:
    whole = copy.deepcopy(body)
    place: Any = whole
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    return raw(whole)


# -- slices ------------------------------------------------------------------------------------


def test_a_slice_of_a_node() -> None:
    found = decode_slice(raw(SLICE))

    assert (found.driver, found.pool, found.generation, found.slice_count) == (
        "gpu.nvidia.com", "node-a", 3, 2,
    )  # fmt: skip
    assert found.nodes == DeviceNodes("node-a")
    (device,) = found.devices
    assert device.form.capacity == (("memory", DeviceCapacity(81559 << 20)),)
    assert dict(device.attributes) == {
        "type": "gpu", "index": 0, "healthy": False, "driverVersion": VersionText("580.95.5"),
        "alpha": None,
    }  # fmt: skip
    assert device.attributes == tuple(sorted(device.attributes, key=lambda pair: pair[0]))
    assert (found.key, found.uid, found.version, found.problem) == ("x", "u", "7", "")


def test_devices_that_share_capacity_and_counters() -> None:
    policy = {"default": "1Gi", "validRange": {"min": "1Gi", "max": "4Gi", "step": "1Gi"}}
    device = {
        "name": "part",
        "capacity": {"memory": {"value": "80Gi", "requestPolicy": policy},
                     "vfs": {"value": "1", "requestPolicy": {"validValues": ["1", "2"]}}},
        "consumesCounters": [{"counterSet": "s", "counters": {"b": {"value": "1"},
                                                             "a": {"value": "1500m"}}}],
        "allowMultipleAllocations": True, "bindsToNode": True, "bindingConditions": [],
        "taints": [{"key": "k", "value": "v", "effect": "NoExecute"}], "allNodes": True,
    }  # fmt: skip
    spec = {**SLICE["spec"], "devices": [device], "perDeviceNodeSelection": True}
    form = decode_slice(raw({**SLICE, "spec": spec})).devices[0].form

    gib = 1 << 30
    assert form.capacity == (
        (
            "memory",
            DeviceCapacity(80 * gib, RequestPolicy(gib, (), CapacityRange(gib, 4 * gib, gib))),
        ),
        ("vfs", DeviceCapacity(1, RequestPolicy(None, (1, 2)))),
    )
    assert form.consumes == (CounterSet("s", (("a", Fraction(3, 2)), ("b", 1))),)
    assert (form.shareable, form.binds_to_node, form.binding_conditions) == (True, True, ())
    assert form.binding_failure_conditions is None
    assert form.taints == (DeviceTaint("k", "v", "NoExecute"),)
    assert form.nodes == DeviceNodes(all_nodes=True)


def test_equal_devices_of_two_nodes_share_their_form() -> None:
    first, second = (decode_slice(changed(SLICE, node, "spec", "nodeName")) for node in "ab")

    assert first.devices[0].form is second.devices[0].form


def test_counter_sets() -> None:
    sets = [{"name": "s", "counters": {"m": {"value": "-1"}}}]
    spec = {**SLICE["spec"], "devices": None, "sharedCounters": sets}

    assert decode_slice(raw({**SLICE, "spec": spec})).counter_sets == (
        CounterSet("s", (("m", -1),)),
    )


@pytest.mark.parametrize(
    ("value", "path", "says"),
    [
        ("much", ("devices", 0, "capacity", "memory", "value"), "'much' is not a quantity"),
        ([{"no": "name"}], ("devices",), "the slice cannot be read: "),
        ([1], ("devices", 0, "nodeAllocatableResources"), "uses resources of the node"),
        (
            [{"counterSet": "s", "compatibilityGroups": ["a"]}],
            ("devices", 0, "consumesCounters"),
            "compatibilityGroups",
        ),
        (["prepare"], ("skipNodeOperations",), "skipNodeOperations"),
    ],
)
def test_a_slice_that_cannot_be_used_says_why_and_which_pool_it_is_of(
    value: Any, path: tuple[str | int, ...], says: str
) -> None:
    found = decode_slice(changed(SLICE, value, "spec", *path))

    assert says in found.problem
    assert (found.driver, found.pool, found.generation) == ("gpu.nvidia.com", "node-a", 3)
    assert found.nodes == DeviceNodes("node-a")


@pytest.mark.parametrize("spec", [None, [], {"pool": 1}, {"driver": 3}])
def test_a_slice_without_a_readable_pool_has_a_problem(spec: Any) -> None:
    assert decode_slice(changed(SLICE, spec, "spec")).problem


# -- classes and rules -------------------------------------------------------------------------


def test_a_class() -> None:
    config = [{"opaque": {"driver": "d", "parameters": {"a": 1}}}]
    spec = {
        "selectors": [{"cel": {"expression": "x"}}, {}], "config": config,
        "extendedResourceName": "nvidia.com/gpu",
    }  # fmt: skip
    found = decode_device_class(raw({"metadata": META, "spec": spec}))

    assert found.selectors == ("x", None)
    assert json.loads(found.configs[0].parameters) == {"a": 1}
    assert found.extended_resource == "nvidia.com/gpu"
    assert decode_device_class(changed({"metadata": META}, {"selectors": 1}, "spec")).problem


def test_a_taint_rule() -> None:
    taint = {"key": "k", "effect": "NoSchedule"}
    named = {"taint": taint, "deviceSelector": {"driver": "d", "pool": "p"}}
    found = decode_taint_rule(raw({"metadata": META, "spec": named}))
    assert (found.driver, found.pool, found.device, found.has_selector) == ("d", "p", None, True)
    assert found.taint == DeviceTaint("k", "", "NoSchedule")

    assert not decode_taint_rule(raw({"metadata": META, "spec": {"taint": taint}})).has_selector
    assert decode_taint_rule(raw({"metadata": META, "spec": {}})).problem


# -- claims ------------------------------------------------------------------------------------


def test_what_a_claim_asks_for() -> None:
    found = decode_claim(raw(CLAIM))

    (request,) = found.requests
    small, everything = request.first_available
    assert small == DeviceNeed(
        "c", ("true",), count=2, capacity=(("memory", Fraction(1, 2)),), name="small"
    )
    assert (everything.mode, everything.count) == ("All", 0)
    assert found.constraints == (DeviceConstraint(("gpu",), "a/b"),)
    assert (found.owner, found.for_extended_resources) == ("the-pod", True)
    assert (found.key, found.finalizers, found.problem) == ("n/x", ("example.com/keep",), "")


def test_what_a_claim_has() -> None:
    found = decode_claim(raw(CLAIM))

    assert found.allocation is not None
    (device,) = found.allocation.devices
    assert device.tolerations == (DeviceToleration("k", "Exists", seconds=9),)
    assert found.reserved_for == (ClaimUser("pu", "p"),)
    assert found.reports[0].conditions == (DeviceCondition("Ready", "True"),)


def test_an_allocation_is_written_as_it_is_read() -> None:
    allocation = decode_claim(raw(CLAIM)).allocation

    assert allocation is not None
    assert json.loads(msgspec.json.encode(allocation_json(allocation))) == ALLOCATION


def test_allocations_are_the_same_whatever_their_shares_are_called() -> None:
    path = ("status", "allocation", "devices", "results", 0)
    other = decode_claim(changed(CLAIM, "other", *path, "shareID")).allocation
    third = decode_claim(changed(CLAIM, "gpu-1", *path, "device")).allocation
    found = decode_claim(raw(CLAIM)).allocation

    assert is_same(found, other)
    assert not is_same(found, third)
    assert not is_same(None, None)


@pytest.mark.parametrize(
    ("value", "path", "says"),
    [
        (3, ("spec", "devices"), "the claim cannot be read"),
        ([{"name": 1}], ("spec", "devices", "requests"), "the claim cannot be read"),
        (
            {"memory": "x"},
            ("spec", "devices", "requests", 0, "firstAvailable", 0, "capacity", "requests"),
            "'x' is not a quantity",
        ),
        (
            [{"name": "a", "expression": "x"}],
            ("spec", "devices", "requests", 0, "firstAvailable", 0, "derivedAttributes"),
            "derivedAttributes",
        ),
        (1, ("status", "reservedFor"), "the status of the claim cannot be read"),
        (
            {"memory": "x"},
            ("status", "allocation", "devices", "results", 0, "consumedCapacity"),
            "the allocation of the claim cannot be read",
        ),
    ],
)
def test_a_claim_that_cannot_be_honoured_says_why(
    value: Any, path: tuple[str | int, ...], says: str
) -> None:
    found = decode_claim(changed(CLAIM, value, *path))

    assert says in found.problem
    assert found.allocation is not None, "its devices are held all the same"
    assert [device.key for device in found.allocation.devices] == [HELD]


def test_a_status_that_cannot_be_read_and_has_no_allocation_holds_nothing() -> None:
    found = decode_claim(changed(CLAIM, {"reservedFor": 1}, "status"))

    assert "the status of the claim cannot be read" in found.problem
    assert found.allocation is None


DOMAIN = {
    "metadata": {**META, "namespace": "n"},
    "spec": {"numNodes": 2, "channel": {"resourceClaimTemplate": {"name": "t"},
                                        "allocationMode": "Single"}},
    "status": {"status": "NotReady", "nodes": [
        {"name": "a", "ipAddress": "10.0.0.1", "cliqueID": "c.1", "index": 0, "status": "Ready"},
        {"name": "b", "ipAddress": "10.0.0.2", "cliqueID": "c.1", "index": 1}]},
}  # fmt: skip


def test_a_compute_domain() -> None:
    found = decode_compute_domain(raw(DOMAIN))
    assert (found.key, found.num_nodes, found.template, found.is_ready) == ("n/x", 2, "t", False)
    assert found.nodes == (DomainNode("a", "c.1", is_ready=True), DomainNode("b", "c.1"))
    ready = decode_compute_domain(raw({**DOMAIN, "status": {"status": "Ready"}}))
    assert ready.is_ready
    assert not ready.nodes


@pytest.mark.parametrize("spec", [{"numNodes": "two"}, {"channel": []}, [], 5])
def test_a_compute_domain_that_makes_no_sense_has_a_problem(spec: Any) -> None:
    found = decode_compute_domain(raw({"metadata": META, "spec": spec}))
    assert found.problem
    assert found.num_nodes == 0


def test_numbers_of_a_compute_domain_are_bounded() -> None:
    """The decision log cannot write numbers of more than 64 bits, and many nodes fill memory."""
    status = {"nodes": [{"name": str(at)} for at in range(MOST_NODES + 5)]}
    body = {"metadata": META, "spec": {"numNodes": 1 << 70}, "status": status}
    found = decode_compute_domain(raw(body))
    assert found.num_nodes < 1 << 62
    assert len(found.nodes) == MOST_NODES


@pytest.mark.parametrize("seed", range(40))
def test_changed_objects_are_read_or_have_a_problem(seed: int) -> None:
    rule = {"metadata": META, "spec": {"taint": {"key": "k", "effect": "NoSchedule"},
                                       "deviceSelector": {"driver": "d", "pool": "p"}}}  # fmt: skip
    rng = Random(seed)
    for decode, whole in (
        (decode_slice, SLICE), (decode_claim, CLAIM), (decode_taint_rule, rule),
        (decode_compute_domain, DOMAIN),
    ):  # fmt: skip
        for _ in range(20):
            body = {**mutated(rng, copy.deepcopy(whole)), "metadata": META}
            decode(raw(body))  # raises nothing


def test_a_node_selector_of_too_many_lines_is_a_problem() -> None:
    """The devices are held all the same."""
    lines = [{"key": f"k{number}", "operator": "Exists"} for number in range(1025)]
    body = copy.deepcopy(CLAIM)
    selector = {"nodeSelectorTerms": [{"matchExpressions": lines}]}
    body["status"]["allocation"]["nodeSelector"] = selector
    claim = decode_claim(json.dumps(body).encode())
    assert "more than 1024 lines" in claim.problem
    assert claim.allocation is not None
    assert claim.allocation.devices

    del lines[-1]
    assert not decode_claim(json.dumps(body).encode()).problem
