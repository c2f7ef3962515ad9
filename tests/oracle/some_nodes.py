"""Nodes and namespaces drawn by lot."""

from collections.abc import Collection

from oracle.case import NAMESPACES, Object, copied
from oracle.draws import HOST, NAMESPACE_WORDS, RACK, REGION, ZONE, Draw, some_labels

GPU = "nvidia.com/gpu"
WIDGET = "example.com/widget"
HUGE = "hugepages-2Mi"
TAINT_KEYS = ("dedicated", "gpu", "maintenance")
TAINT_VALUES = ("x", "y", "")
EFFECTS = ("NoSchedule", "NoExecute", "PreferNoSchedule")
UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
IMAGES = {"registry/web": 900, "registry/db:v2": 400, "registry/tool:1": 30, "registry/tiny": 2}
#: What a kubelet may declare and kube-scheduler looks at, and one that it does not look at.
NODE_FEATURES = ("RestartAllContainersOnContainerExits", "InPlacePodLevelResourcesVerticalScaling")
#: Said beside the features: nodes have room and equal amounts, so that wishes decide.
CALM = "calm"


def namespaces(draw: Draw) -> list[Object]:
    return [
        {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": name, "labels": some_labels(draw, NAMESPACE_WORDS, 0.6)},
        }
        for name in NAMESPACES
    ]


def nodes(draw: Draw, features: Collection[str]) -> list[Object]:
    if CALM in features:
        found = [_node(draw, f"n{n}", 0.0, 0.0, features) for n in range(draw.randint(3, 12))]
        return [_calmed(draw, node) for node in found]
    most = draw.weighted({1: 1, 3: 3, 6: 4, 12: 3})
    count = 0 if draw.chance(0.03) else draw.randint(1, most)
    tainted, cordoned = draw.one((0.0, 0.1, 0.4)), draw.one((0.0, 0.0, 0.15))
    found = [_node(draw, f"n{number}", tainted, cordoned, features) for number in range(count)]
    if found and draw.chance(0.12):
        return [_renamed(found[0], node["metadata"]["name"]) for node in found]
    return found


def _calmed(draw: Draw, node: Object) -> Object:
    amounts = {"cpu": "32", "memory": "64Gi", "pods": "110", "ephemeral-storage": "1Ti", GPU: "16"}
    node["status"] |= {"allocatable": amounts, "capacity": amounts}
    if draw.chance(0.3):
        node["spec"]["taints"] = [
            {"key": key, "effect": "PreferNoSchedule"} for key in draw.some(TAINT_KEYS, 1, 2)
        ]
    return node


def _renamed(node: Object, name: str) -> Object:
    labels = {**node["metadata"]["labels"], HOST: name}
    return {**copied(node), "metadata": {"name": name, "labels": labels}}


def _node(
    draw: Draw, name: str, tainted: float, cordoned: float, features: Collection[str]
) -> Object:
    amounts = _amounts(draw)
    status: Object = {"allocatable": amounts, "capacity": amounts}
    if "images" in features:
        status["images"] = _images(draw)
    if "features" in features and draw.chance(0.6):
        status["declaredFeatures"] = sorted(draw.some(NODE_FEATURES, 1, 2))
    spec: Object = {}
    if draw.chance(tainted):
        spec["taints"] = _taints(draw)
    if draw.chance(cordoned):
        spec["unschedulable"] = True
        # The node lifecycle controller adds the taint a moment after the cordon.
        if draw.chance(0.5):
            mark = {"key": UNSCHEDULABLE, "effect": "NoSchedule"}
            spec["taints"] = [*spec.get("taints", []), mark]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": _labels(draw, name)},
        "spec": spec,
        "status": status,
    }


def _labels(draw: Draw, name: str) -> dict[str, str]:
    zone = draw.randint(1, 3)
    labels = {HOST: name} if draw.chance(0.95) else {}
    if draw.chance(0.85):
        labels[ZONE] = f"z{zone}"
    if draw.chance(0.7):
        labels[REGION] = "r1" if zone < 3 else "r2"
    if draw.chance(0.6):
        labels[RACK] = draw.one(("a", "b"))
    if draw.chance(0.6):
        labels["disk"] = draw.one(("ssd", "hdd"))
    if draw.chance(0.6):
        labels["rank"] = draw.weighted({"1": 3, "3": 3, "7": 3, "07": 1, "high": 2})
    return labels


def _amounts(draw: Draw) -> dict[str, str]:
    amounts = {
        "cpu": draw.one(("2", "8", "16", "32", "3500m")),
        "memory": draw.one(("2Gi", "16Gi", "64Gi", "8000000Ki")),
        "pods": draw.weighted({"110": 14, "4": 2, "1": 1, "0": 1}),
        "ephemeral-storage": draw.one(("10Gi", "100Gi")),
    }
    if draw.chance(0.5):
        amounts[GPU] = str(draw.one((0, 1, 4, 8, 16)))
    if draw.chance(0.2):
        amounts[WIDGET] = str(draw.randint(1, 3))
    if draw.chance(0.15):
        amounts[HUGE] = "64Mi"
    return amounts


def _taints(draw: Draw) -> list[Object]:
    wanted = {
        (draw.one(TAINT_KEYS), draw.one(EFFECTS)): draw.one(TAINT_VALUES)
        for _ in range(draw.randint(1, 3))
    }
    return [
        {"key": key, "effect": effect, **({"value": value} if value else {})}
        for (key, effect), value in wanted.items()
    ]


def _images(draw: Draw) -> list[Object]:
    return [
        {"names": [name if ":" in name else f"{name}:latest"], "sizeBytes": mib * 2**20}
        for name, mib in IMAGES.items()
        if draw.chance(0.5)
    ]
