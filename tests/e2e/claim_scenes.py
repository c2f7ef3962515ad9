"""Devices and claims, as both kube-scheduler and Fairlead get them: in a world of their own each.

In texts and names `{world}` is "theirs" or "ours"; devices and nodes of the two are alike.
"""

from dataclasses import dataclass, field
from typing import Any

from dra_objects import DRIVER, Object, claim_spec, device, exactly

GIB = "1Gi"
CLASS = "gpu.example.com"
QN = f"{DRIVER}/"


@dataclass(frozen=True)
class ClaimScene:
    """What each node publishes, the classes, and what the pods claim, one after the other."""

    #: Devices by node; each is one slice, whose spec may be given instead.
    nodes: dict[str, list[Object] | list[dict[str, Any]]]
    #: The specs of the claims of each pod.
    pods: list[list[Object]]
    #: Which of the pods are bound: "y" or "n" for each.
    bound: str
    #: Expressions of classes beside the one of all devices.
    classes: dict[str, Object] = field(default_factory=dict)
    #: Slices as they are, for all that is not one slice for one node.
    slices: list[Object] = field(default_factory=list)
    #: All pods use the claims of the first one.
    shared: bool = False
    namespace_labels: dict[str, str] = field(default_factory=dict)


def gpus(count: int, **attributes: Any) -> list[Object]:
    return [
        device(f"gpu-{number}", attributes={"index": {"int": number}, **attributes})
        for number in range(count)
    ]


def one(**more: Any) -> Object:
    return claim_spec(exactly(CLASS, **more))


def cel(expression: str) -> list[Object]:
    return [{"cel": {"expression": expression}}]


def rooted(*roots: str) -> list[Object]:
    """Devices with these PCIe roots, in order."""
    name = "resource.kubernetes.io/pcieRoot"
    return [
        device(f"gpu-{number}", attributes={name: {"string": root}})
        for number, root in enumerate(roots)
    ]


def slice_of(node: str, devices: list[Object] | None, index: int = 0, **more: Any) -> Object:
    """A slice of the pool of a node."""
    pool = {"name": f"{{world}}-{node}", "generation": 1, "resourceSliceCount": 1}
    return {"nodeName": f"{{world}}-{node}", "pool": pool, "devices": devices,
            "index": index, **more}  # fmt: skip


def counted(name: str, amount: str, **more: Any) -> Object:
    """A device that consumes memory of the counter set of its GPU."""
    counters = {"memory": {"value": amount}}
    return device(name, consumesCounters=[{"counterSet": "set", "counters": counters}], **more)


_TWO_SLICES = {"name": "{world}-a", "generation": 1, "resourceSliceCount": 2}
_SHARED_MEMORY = {"value": "80Gi", "requestPolicy": {"default": GIB, "validRange": {
    "min": GIB, "step": GIB}}}  # fmt: skip
_EVERYWHERE = {"name": "{world}-net", "generation": 1, "resourceSliceCount": 1}
_HERE = {"nodeSelectorTerms": [{"matchExpressions": [
    {"key": "world", "operator": "In", "values": ["{world}"]}]}]}  # fmt: skip
_OPAQUE = {"driver": DRIVER, "parameters": {"kind": "GpuConfig", "a": [1, None]}}

SCENES: dict[str, ClaimScene] = {
    "one device each, in order": ClaimScene(
        bound="yyn", nodes={"a": gpus(2)}, pods=[[one()], [one()], [one()]]
    ),
    "three of one, then none left for two": ClaimScene(
        bound="yn", nodes={"a": gpus(4)}, pods=[[one(count=3)], [one(count=2)]]
    ),
    "two claims of one pod": ClaimScene(
        bound="y", nodes={"a": gpus(3)}, pods=[[one(), one(count=2)]]
    ),
    "a selector": ClaimScene(
        bound="y",
        nodes={"a": gpus(3)},
        pods=[[one(selectors=cel(f"device.attributes['{DRIVER}'].index == 2"))]],
    ),
    "a selector that one of two nodes satisfies": ClaimScene(
        bound="y",
        nodes={"a": gpus(1, model={"string": "small"}), "b": gpus(1, model={"string": "large"})},
        pods=[[one(selectors=cel(f"device.attributes['{DRIVER}'].model == 'large'"))]],
    ),
    "a selector that is an error": ClaimScene(
        bound="n",
        nodes={"a": gpus(2)},
        pods=[[one(selectors=cel(f"device.attributes['{DRIVER}'].nothing == 1"))]],
    ),
    "a quantity in a selector": ClaimScene(
        bound="y",
        nodes={
            "a": [
                device("gpu-0", capacity={"memory": {"value": "40Gi"}}),
                device("gpu-1", capacity={"memory": {"value": "80Gi"}}),
            ]
        },
        pods=[
            [
                one(
                    selectors=cel(
                        f"device.capacity['{DRIVER}'].memory.compareTo(quantity('80Gi')) >= 0"
                    )
                )
            ]
        ],
    ),
    "a class that is not there": ClaimScene(
        bound="n", nodes={"a": gpus(1)}, pods=[[claim_spec(exactly("missing.example.com"))]]
    ),
    "a class with a selector of its own": ClaimScene(
        bound="y",
        nodes={"a": gpus(3)},
        pods=[[claim_spec(exactly("odd.example.com"))]],
        classes={"odd.example.com": {"selectors": cel(f"device.attributes['{DRIVER}'].index > 0")}},
    ),
    "all devices": ClaimScene(
        bound="yn", nodes={"a": gpus(3)}, pods=[[one(count=None, allocationMode="All")], [one()]]
    ),
    "all devices of a pool that is not whole": ClaimScene(
        bound="n",
        nodes={"a": []},
        pods=[[one(count=None, allocationMode="All")]],
        slices=[slice_of("a", gpus(2), pool=_TWO_SLICES)],
    ),
    "a pool that is not whole": ClaimScene(
        bound="n",
        nodes={"a": []},
        pods=[[one()]],
        slices=[slice_of("a", gpus(2), pool=_TWO_SLICES)],
    ),
    "a device that is there twice": ClaimScene(
        bound="n",
        nodes={"a": []},
        pods=[[one()]],
        slices=[
            slice_of("a", gpus(1), 0, pool=_TWO_SLICES),
            slice_of("a", gpus(1), 1, pool=_TWO_SLICES),
        ],
    ),
    "the first that is available": ClaimScene(
        bound="yn",
        nodes={"a": gpus(2)},
        pods=[
            [
                claim_spec(
                    {
                        "name": "gpu",
                        "firstAvailable": [
                            {"name": "big", "deviceClassName": CLASS, "count": 3},
                            {"name": "small", "deviceClassName": CLASS, "count": 2},
                        ],
                    }
                )
            ],
            [one()],
        ],
    ),
    "two requests that must match": ClaimScene(
        bound="yn",
        nodes={"a": rooted("r0", "r1", "r1", "r0")},
        pods=[
            [
                claim_spec(
                    exactly(CLASS, 2),
                    exactly(CLASS, name="other"),
                    constraints=[
                        {"requests": ["gpu"], "matchAttribute": "resource.kubernetes.io/pcieRoot"}
                    ],
                )
            ],
            [
                claim_spec(
                    exactly(CLASS, 2),
                    constraints=[{"matchAttribute": "resource.kubernetes.io/pcieRoot"}],
                )
            ],
        ],
    ),
    "requests that must differ": ClaimScene(
        bound="y",
        nodes={"a": rooted("r0", "r0", "r1", "r2")},
        pods=[
            [
                claim_spec(
                    exactly(CLASS, name="x"),
                    exactly(CLASS, name="y"),
                    constraints=[{"distinctAttribute": "resource.kubernetes.io/pcieRoot"}],
                )
            ]
        ],
    ),
    "partitions of a device": ClaimScene(
        bound="yyn",
        nodes={"a": []},
        pods=[
            [one(selectors=cel("device.attributes['gpu.example.com'].part == true"))],
            [one()],
            [one(selectors=cel("device.attributes['gpu.example.com'].part == true"))],
        ],
        slices=[
            slice_of(
                "a",
                None,
                0,
                pool=_TWO_SLICES,
                sharedCounters=[{"name": "set", "counters": {"memory": {"value": "80Gi"}}}],
            ),
            slice_of(
                "a",
                [
                    counted("whole", "80Gi", attributes={"part": {"bool": False}}),
                    counted("half-0", "40Gi", attributes={"part": {"bool": True}}),
                    counted("half-1", "40Gi", attributes={"part": {"bool": True}}),
                ],
                1,
                pool=_TWO_SLICES,
            ),
        ],
    ),
    "capacity that is shared": ClaimScene(
        bound="yyyn",
        nodes={
            "a": [
                device("gpu-0", allowMultipleAllocations=True, capacity={"memory": _SHARED_MEMORY}),
                device("gpu-1", allowMultipleAllocations=True, capacity={"memory": _SHARED_MEMORY}),
            ]
        },
        pods=[
            [one(capacity={"requests": {"memory": "30Gi"}})],
            [one(capacity={"requests": {"memory": "50Gi"}})],
            [one(capacity={"requests": {"memory": "1500Mi"}})],
            [one(capacity={"requests": {"memory": "79Gi"}})],
        ],
    ),
    "taints and tolerations": ClaimScene(
        bound="yn",
        nodes={
            "a": [
                device("gpu-0", taints=[{"key": "broken", "effect": "NoSchedule"}]),
                device("gpu-1", taints=[{"key": "odd", "effect": "NoExecute"}]),
            ]
        },
        pods=[[one(tolerations=[{"key": "odd", "operator": "Exists"}])], [one()]],
    ),
    "administrators see devices in use": ClaimScene(
        bound="yyn",
        nodes={"a": gpus(1)},
        pods=[[one()], [one(adminAccess=True)], [one()]],
        namespace_labels={"resource.kubernetes.io/admin-access": "true"},
    ),
    "configuration of class and claim": ClaimScene(
        bound="y",
        nodes={"a": gpus(2)},
        pods=[
            [
                claim_spec(
                    exactly("configured.example.com"),
                    exactly(CLASS, name="other"),
                    config=[{"requests": ["gpu"], "opaque": _OPAQUE}, {"opaque": _OPAQUE}],
                )
            ]
        ],
        classes={"configured.example.com": {"config": [{"opaque": _OPAQUE}]}},
    ),
    "devices for all nodes": ClaimScene(
        bound="yn",
        nodes={"a": []},
        pods=[[one()], [one()]],
        slices=[slice_of("a", gpus(1), nodeName=None, pool=_EVERYWHERE, nodeSelector=_HERE)],
    ),
    "each device says where it can be used": ClaimScene(
        bound="y",
        nodes={"a": [], "b": []},
        pods=[[one(selectors=cel("device.attributes['gpu.example.com'].far == true"))]],
        slices=[
            slice_of(
                "a",
                [
                    device("near", nodeName="{world}-a", attributes={"far": {"bool": False}}),
                    device("far", nodeName="{world}-b", attributes={"far": {"bool": True}}),
                ],
                nodeName=None,
                perDeviceNodeSelection=True,
                pool=_EVERYWHERE,
            )
        ],
    ),
    "a claim that pods share": ClaimScene(
        bound="yyy", nodes={"a": gpus(2)}, pods=[[one()], [], []], shared=True
    ),
}
