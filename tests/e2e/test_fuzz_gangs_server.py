"""Mutated objects of gangs that a real API server accepts: the scheduler goes on.

The definitions accept nearly everything, so what is written is what is read.
"""

import asyncio
import json
import os
from collections import Counter
from collections.abc import Iterator
from random import Random

import pytest

import gang_crds
from fairlead.kube.gangs.registry import DIALECTS
from fairlead.sim.controlplane import ControlPlane
from fairleads import Pods
from fuzz.gangs import SPECS, drawn_object, drawn_pod
from test_faults import scheduling, until

pytestmark = pytest.mark.server

_SEED = int(os.environ.get("FUZZ_SEED") or 1)
#: The API server has the native kind itself, where it is switched on.
INSTALLED = [each.name for each in DIALECTS if each.kind and not each.kind.is_built_in]
OBJECTS = 300


@pytest.fixture
def definitions(control_plane: ControlPlane) -> Iterator[None]:
    for dialect in INSTALLED:
        gang_crds.install(control_plane, dialect)
    yield
    for dialect in INSTALLED:
        gang_crds.uninstall(control_plane, dialect)


def send(plane: ControlPlane, pods: Pods, rng: Random, number: int) -> str:
    """What was accepted: a dialect, or "pod"."""
    if rng.random() < 0.5:
        status, _ = plane.api("POST", pods.path, drawn_pod(rng, number))
        return "pod" if status == 201 else ""
    dialect, obj = drawn_object(rng)
    if dialect not in INSTALLED:
        return ""
    kind = gang_crds.kind_of(dialect)
    version = kind.versions[0]
    folder = f"/apis/{kind.group}/{version}/namespaces/{pods.namespace}/{kind.plural}"
    body = {**obj, "apiVersion": f"{kind.group}/{version}", "kind": kind.kind}
    path = f"{folder}/{obj['metadata']['name']}"
    if plane.api("POST", folder, body)[0] == 201:
        return dialect
    patch = {"spec": body.get("spec")}
    merge = "application/merge-patch+json"
    return dialect if plane.api("PATCH", path, patch, content_type=merge)[0] == 200 else ""


async def test_what_the_server_accepts_of_gangs_ends_nothing(
    control_plane: ControlPlane, create_nodes, namespace: str, definitions: None
) -> None:
    create_nodes(2, allocatable={"nvidia.com/gpu": "8"})
    pods, rng, accepted = Pods(control_plane, namespace), Random(_SEED), Counter[str]()
    async with scheduling(control_plane) as (_, scheduler):
        for number in range(OBJECTS):
            accepted[await asyncio.to_thread(send, control_plane, pods, rng, number)] += 1
        await asyncio.to_thread(pods.create, "plain")
        await until(lambda: pods.node("plain"))
        assert scheduler._containment.failures.counts == {}
    assert set(INSTALLED) <= accepted.keys() & SPECS.keys(), accepted
    assert accepted["pod"] >= OBJECTS / 5
    print(json.dumps(accepted))
