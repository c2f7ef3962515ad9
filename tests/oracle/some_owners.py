"""Services and the controllers that own pods: by default, pods of one are spread."""

from oracle.case import NAMESPACES, Object
from oracle.draws import POD_WORDS, Draw

_GROUPS = {"ReplicaSet": "apps/v1", "StatefulSet": "apps/v1", "ReplicationController": "v1"}


def owners(draw: Draw) -> list[Object]:
    """Services and controllers; pods are not created from them, since no controller runs."""
    services = [_service(draw, f"service-{n}") for n in range(draw.randint(0, 2))]
    kinds = draw.some(list(_GROUPS), 0, 3)
    return [*services, *(_controller(draw, kind) for kind in kinds)]


def adopt(draw: Draw, pod: Object, controllers: list[Object]) -> None:
    """Lets one of the controllers of its namespace own the pod, if there is one."""
    own = pod["metadata"]["namespace"]
    near = [c for c in controllers if c["kind"] in _GROUPS and c["metadata"]["namespace"] == own]
    if not near:
        return
    owner = draw.one(near)
    pod["metadata"]["ownerReferences"] = [
        {
            "apiVersion": owner["apiVersion"],
            "kind": owner["kind"],
            "name": owner["metadata"]["name"],
            "uid": "00000000-0000-0000-0000-000000000001",
            "controller": True,
        }
    ]


def _service(draw: Draw, name: str) -> Object:
    spec = {"selector": _labels(draw), "ports": [{"port": 80}]}
    return _object(draw, "v1", "Service", name, spec)


def _controller(draw: Draw, kind: str) -> Object:
    labels = _labels(draw)
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "main", "image": "x"}]},
    }
    selector: Object = labels if kind == "ReplicationController" else {"matchLabels": labels}
    spec: Object = {"replicas": 1, "selector": selector, "template": template}
    if kind == "StatefulSet":
        spec["serviceName"] = "any"
    return _object(draw, _GROUPS[kind], kind, f"{kind.lower()}-0", spec)


def _labels(draw: Draw) -> dict[str, str]:
    return {key: draw.one(POD_WORDS[key]) for key in draw.some(("app", "tier"), 1, 2)}


def _object(draw: Draw, version: str, kind: str, name: str, spec: Object) -> Object:
    namespace = draw.one(NAMESPACES[:2])
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}
