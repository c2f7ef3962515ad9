"""Pods with extended resources, given to kube-scheduler and Fairlead in worlds of their own."""

from dataclasses import dataclass, field
from typing import Any

from claim_scenes import gpus
from dra_objects import Object

GPU = "nvidia.com/gpu"
NIC = "example.com/nic"
IMPLICIT = "deviceclass.resource.kubernetes.io/gpu.example.com"


@dataclass(frozen=True)
class ExtendedScene:
    """What each node has, and what the containers of each pod ask for, one pod after the other."""

    #: Devices by node.
    nodes: dict[str, list[Object]]
    #: More of the spec of each pod; its containers have names from `container`.
    pods: list[Object]
    #: Which of the pods are bound: "y" or "n" for each.
    bound: str
    #: What device plugins offer, by node.
    offered: dict[str, dict[str, str]] = field(default_factory=dict)
    #: The resource of the class of all devices.
    resource: str | None = GPU
    #: Specs of more classes, by name.
    classes: dict[str, Object] = field(default_factory=dict)


def container(name: str, more: Object | None = None, **amounts: int) -> Object:
    """`gpu`, `nic` and `implicit` are counts of these resources."""
    names = {"gpu": GPU, "nic": NIC, "implicit": IMPLICIT}
    limits = {names[key]: str(count) for key, count in amounts.items()}
    resources = {"limits": limits, "requests": {"cpu": "1m"}}
    return {"name": name, "image": "x", "resources": resources, **(more or {})}


def one(**amounts: int) -> Object:
    return {"containers": [container("main", **amounts)]}


_SIDECAR = {"restartPolicy": "Always"}
_NICS: dict[str, Any] = {
    "nic.example.com": {
        "selectors": [{"cel": {"expression": "device.attributes['gpu.example.com'].index > 1"}}],
        "extendedResourceName": NIC,
    }
}
_WRONG: dict[str, Any] = {
    "nic.example.com": {
        "selectors": [{"cel": {"expression": "device.attributes['gpu.example.com'].none > 1"}}],
        "extendedResourceName": NIC,
    }
}

EXTENDED_SCENES: dict[str, ExtendedScene] = {
    "a plain GPU pod": ExtendedScene({"a": gpus(4)}, [one(gpu=2)], "y"),
    "until nothing is left": ExtendedScene(
        {"a": gpus(2), "b": gpus(1), "none": []}, [one(gpu=2), one(gpu=1), one(gpu=1)], "yyn"
    ),
    "too many": ExtendedScene({"a": gpus(2), "none": []}, [one(gpu=3)], "n"),
    "the name that every class has": ExtendedScene(
        {"a": gpus(2)}, [one(implicit=1), one(implicit=2)], "yn", resource=None
    ),
    "no class has the resource": ExtendedScene({"a": gpus(2)}, [one(gpu=1)], "n", resource=None),
    "a device plugin serves": ExtendedScene(
        {"a": [], "none": []}, [one(gpu=2), one(gpu=1)], "yn", offered={"a": {GPU: "2"}}
    ),
    "a device plugin that offers none": ExtendedScene(
        {"a": gpus(1)}, [one(gpu=1)], "y", offered={"a": {GPU: "0"}}
    ),
    "a device plugin beside devices": ExtendedScene(
        {"a": gpus(4), "b": gpus(2)},
        [one(gpu=2), one(gpu=1), one(gpu=1)],
        "yyn",
        offered={"a": {GPU: "1"}},
    ),
    "several containers": ExtendedScene(
        {"a": gpus(8)},
        [{"containers": [container("one", gpu=1), container("none"), container("two", gpu=2)]}],
        "y",
    ),
    "init containers and sidecars": ExtendedScene(
        {"a": gpus(8)},
        [
            {
                "initContainers": [
                    container("first", gpu=1),
                    container("beside", _SIDECAR, gpu=1),
                    container("large", gpu=5),
                    container("largest", gpu=6),
                ],
                "containers": [container("main", gpu=2), container("other", gpu=1)],
            }
        ],
        "y",
    ),
    "two resources": ExtendedScene(
        {"a": gpus(4)},
        [{"containers": [container("x", gpu=2, nic=1), container("y", nic=1)]}, one(nic=1)],
        "yn",
        classes=_NICS,
    ),
    "one of two resources by a device plugin": ExtendedScene(
        {"a": gpus(4)}, [one(gpu=2, nic=1)], "y", classes=_NICS, offered={"a": {GPU: "2"}}
    ),
    "a selector that fails": ExtendedScene({"a": gpus(1)}, [one(nic=1)], "n", classes=_WRONG),
    "more devices than a claim may have": ExtendedScene({"a": gpus(40)}, [one(gpu=33)], "n"),
}
