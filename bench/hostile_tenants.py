"""Namespaces of tenants that share no GPU, which are relabelled again and again."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

from fairlead.apps.config.profiles import built_in
from fairlead.engine.engine import Engine
from fairlead.engine.events import InventorySeen, NamespaceSeen, PodSeen
from fairlead.kube.codec import decode_pod
from fairlead.model.gpu_tenants import TenantTerms
from fairlead.model.gpus import FAIRLEAD, Gpu, GpuUse, Grant, Inventory
from hostile_cluster import MAPPING, PROFILE, SCHEDULER, Made, Shape, Size, a_pod, encoded, seen
from pods import Body

_LABEL = "example.com/tenant"


def tenants(size: Size) -> Iterator[Made]:
    """One namespace has a share of a GPU of each node, and many wait, when its label changes."""
    yield partial(NamespaceSeen, "team-0", {_LABEL: "first"})
    shares = decode_pod(encoded(_share("there")))
    for number in range(size.nodes):
        name = size.node(number)
        gpus = tuple(Gpu(f"GPU-{name}-{at}", at, "NVIDIA H100", 81920) for at in range(8))
        listed = Inventory(gpus, dialects=frozenset({FAIRLEAD}))
        yield partial(InventorySeen, name, "bench", listed)
        for at in range(8):
            uid = f"s{number}-{at}"
            use = GpuUse(f"GPU-{name}-{at}", whole=False, milli=100)
            pod = replace(shares, name=uid, uid=uid, node=name, grant=Grant((use,), FAIRLEAD))
            yield partial(PodSeen, pod)
    for number in range(size.many // 10):
        yield seen(_share(f"w{number}", f"team-{1 + number % 10}", f"0.{100 + number}"))
    for number in range(3):
        yield partial(NamespaceSeen, "team-0", {_LABEL: f"t{number}"})
    yield partial(NamespaceSeen, "team-0", None)


def _share(name: str, namespace: str = "team-0", share: str = "0.1") -> Body:
    body = a_pod(name, cpu="1m", namespace=namespace)
    body["spec"]["schedulerName"] = MAPPING
    body["metadata"]["annotations"] = {"fairlead.dev/gpu-share": share}
    return body


def tenants_engine() -> Engine:
    profiles = {SCHEDULER: built_in(PROFILE), MAPPING: built_in("gpu-scheduler")}
    return Engine(profiles, tenants=TenantTerms(_LABEL))


TENANT_SHAPES: dict[str, Shape] = {"tenants relabelled": tenants}
TENANT_ENGINES: dict[str, Callable[[], Engine]] = {"tenants relabelled": tenants_engine}
