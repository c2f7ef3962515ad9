"""Claims, volumes and capacities that cost as much as they can."""

from collections.abc import Callable, Iterator
from functools import partial

from fairlead.engine.events import StorageSeen
from fairlead.kube.storage_codec import (
    decode_capacity,
    decode_class,
    decode_csi_driver,
    decode_volume,
    decode_volume_claim,
)
from hostile_cluster import Made, Shape, Size, a_pod, encoded, seen
from pods import HOST, Body

#: As many as a pod may have that are not bound yet.
_CLAIMS = 32
_CLASS = {"metadata": {"name": "slow"}, "provisioner": "kubernetes.io/no-provisioner",
          "volumeBindingMode": "WaitForFirstConsumer"}  # fmt: skip


def _told(decode: Callable[[bytes], object], body: Body) -> Made:
    raw = encoded(body)
    return lambda: StorageSeen(decode(raw))


def _claimed(size: Size, make_claim: Callable[[Size, int], Body]) -> Iterator[Made]:
    """The claims, and pods that use them."""
    for number in range(_CLAIMS):
        yield _told(decode_volume_claim, make_claim(size, number))
    mounts = [
        {"name": f"v{number}", "persistentVolumeClaim": {"claimName": f"c{number}"}}
        for number in range(_CLAIMS)
    ]
    yield seen(a_pod("h", gpus=1, priority=10, volumes=mounts))
    yield seen(a_pod("i", gpus=8, priority=10, volumes=mounts[: _CLAIMS // 2]))


def _a_claim(_size: Size, number: int, **more: object) -> Body:
    return {
        "metadata": {"name": f"c{number}", "namespace": "team-0", "uid": f"c{number}"},
        "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "slow",
                 "resources": {"requests": {"storage": f"{1024 + number}Mi"}}, **more},
        "status": {"phase": "Pending"},
    }  # fmt: skip


def _a_choosy_claim(size: Size, number: int) -> Body:
    """Its selector compares every line before it says no."""
    lines = [
        {"key": f"k{at}", "operator": "NotIn", "values": [f"c{number}"]}
        for at in range(size.each // 10)
    ]
    lines.append({"key": "app", "operator": "In", "values": [f"none-{number}"]})
    return _a_claim(size, number, selector={"matchExpressions": lines})


def _a_volume(number: int, terms: list[Body]) -> Body:
    return {
        "metadata": {"name": f"v{number}", "uid": f"v{number}", "labels": {"app": "a"}},
        "spec": {"capacity": {"storage": "2Gi"}, "accessModes": ["ReadWriteOnce"],
                 "storageClassName": "slow", "local": {"path": "/x"},
                 "nodeAffinity": {"required": {"nodeSelectorTerms": terms}}},
        "status": {"phase": "Available"},
    }  # fmt: skip


def _line(key: str, *values: str) -> Body:
    return {"key": key, "operator": "In", "values": list(values)}


def volumes(size: Size, ways: int = 16) -> Iterator[Made]:
    """Each volume is reached in several ways, each by two lines of many values."""
    yield _told(decode_class, _CLASS)
    for number in range(size.many):
        terms = []
        for way in range(ways):
            near = [size.node(number + way + at) for at in range(50)]
            terms.append({"matchExpressions": [_line(HOST, *near), _line(HOST, *near[1:])]})
        yield _told(decode_volume, _a_volume(number, terms))
    yield from _claimed(size, _a_claim)


def volumes_by_other_labels(size: Size) -> Iterator[Made]:
    """Each volume is reached by a label that no other volume names."""
    yield _told(decode_class, _CLASS)
    for number in range(size.many):
        lines = [_line(f"example.com/rack-{number}", "a"), _line(HOST, size.node(number))]
        yield _told(decode_volume, _a_volume(number, [{"matchExpressions": lines}]))
    yield from _claimed(size, _a_claim)


def local_volumes(size: Size, make_claim: Callable[[Size, int], Body] = _a_claim) -> Iterator[Made]:
    yield _told(decode_class, _CLASS)
    for number in range(size.many):
        lines = [_line(HOST, size.node(number))]
        yield _told(decode_volume, _a_volume(number, [{"matchExpressions": lines}]))
    yield from _claimed(size, make_claim)


def capacities(size: Size) -> Iterator[Made]:
    """A driver publishes for each node how much it can provision there."""
    yield _told(decode_class, _CLASS | {"provisioner": "csi.example.com"})
    driver = {"metadata": {"name": "csi.example.com"}, "spec": {"storageCapacity": True}}
    yield _told(decode_csi_driver, driver)
    for number in range(size.nodes):
        body = {
            "metadata": {"name": f"c{number}", "namespace": "csi", "uid": f"c{number}"},
            "storageClassName": "slow",
            "capacity": "1Gi",
            "nodeTopology": {"matchLabels": {HOST: size.node(number)}},
        }
        yield _told(decode_capacity, body)
    yield from _claimed(size, _a_claim)


VOLUME_SHAPES: dict[str, Shape] = {
    "volumes": volumes,
    "volumes by other labels": volumes_by_other_labels,
    "local volumes": local_volumes,
    "claims with selectors": partial(local_volumes, make_claim=_a_choosy_claim),
    "storage capacities": capacities,
}
