"""A profile that only counts GPUs refuses pods that need GPUs assigned, and says so."""

import json
from typing import Any

import pytest

from builders import SCHEDULER, a_node, decide, see
from fairlead.apps.config import config
from fairlead.engine.engine import Engine
from fairlead.engine.events import NodeSeen
from fairlead.engine.instructions import AnnounceFailure, Bind
from fairlead.kube.codec import decode_pod
from fairlead.model.gpus import Gpu, Inventory
from fairlead.model.pods import Pod
from fairlead.plugins.registry import Registry

NIGHT_SHIFT = "filters: [NodeResourcesFit, NodeTrusted]"
NO_MAPS = "filters: {disabled: [SchedulingMap]}"
KUBE = "profile: default-scheduler"


def an_engine(profile: str) -> Engine:
    text = f"profiles:\n  - schedulerName: {SCHEDULER}\n    {profile}\n"
    engine = Engine(config.build_profiles(config.parse(text).profiles, Registry()))
    gpus = tuple(Gpu(f"GPU-{n}", n, "H100", 80_000) for n in range(8))
    inventory = Inventory(gpus, dialects=frozenset({"fairlead", "kai"}))
    resources = {"aliyun.com/gpu-mem": 640}
    engine.handle(NodeSeen(a_node("n1", inventory=inventory, resources=resources)), now=0.0)
    return engine


def a_pod(annotations: dict[str, str] | None = None, **limits: str) -> Pod:
    meta: Any = {"name": "p-0", "namespace": "ns", "uid": "u", "annotations": annotations or {}}
    resources = {"limits": {key.replace("__", "/"): amount for key, amount in limits.items()}}
    container = {"name": "main", "resources": resources}
    spec = {"schedulerName": SCHEDULER, "containers": [container]}
    return decode_pod(json.dumps({"metadata": meta, "spec": spec}).encode())


def message(engine: Engine, pod: Pod) -> str:
    see(engine, pod)
    (made,) = decide(engine)
    assert isinstance(made, AnnounceFailure)
    return made.message


@pytest.mark.parametrize("profile", [NIGHT_SHIFT, KUBE, "filters: {disabled: [GpuFit]}"])
@pytest.mark.parametrize(
    ("annotations", "way"),
    [
        ({"fairlead.dev/gpu-share": "0.9"}, "fairlead"),
        ({"fairlead.dev/gpu-memory": "16Gi"}, "fairlead"),
        ({"gpu-fraction": "0.5"}, "kai"),
    ],
)
def test_a_part_of_a_gpu_is_refused(profile: str, annotations: dict[str, str], way: str) -> None:
    assert message(an_engine(profile), a_pod(annotations)).startswith(
        "0/1 nodes are available: the profile of the pod's scheduler does not assign GPUs that are "
        f"requested in the dialect {way}; enable the filter GpuFit there, or choose another "
    )


@pytest.mark.parametrize("profile", [NIGHT_SHIFT, KUBE, NO_MAPS])
def test_a_map_is_refused(profile: str) -> None:
    told = message(an_engine(profile), a_pod({"gpu-scheduling-map": "0=n1:3"}))
    assert "does not follow its scheduling map; enable the filter SchedulingMap there" in told


@pytest.mark.parametrize("profile", [NIGHT_SHIFT, KUBE])
@pytest.mark.parametrize("limits", [{}, {"cpu": "1"}, {"nvidia.com__gpu": "2"}])
def test_other_pods_go_on(profile: str, limits: dict[str, str]) -> None:
    engine = an_engine(profile)
    see(engine, a_pod(**limits))
    (made,) = decide(engine)
    assert isinstance(made, Bind)


def test_shares_go_on_where_only_maps_are_disabled() -> None:
    engine = an_engine(NO_MAPS)
    see(engine, a_pod({"fairlead.dev/gpu-share": "0.9"}))
    (made,) = decide(engine)
    assert isinstance(made, Bind)
    assert made.grant is not None
