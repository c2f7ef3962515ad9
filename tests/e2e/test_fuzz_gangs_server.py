"""Mutated objects of gangs that a real API server accepts: the scheduler goes on.

The definitions accept nearly everything, so what is written is what is read.
"""

import asyncio
import json
from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

import gang_crds
from fairlead.kube.gangs.registry import DIALECTS
from fairlead.sim.controlplane import ControlPlane
from fairleads import Pods
from fuzz.gangs import SPECS, drawn_object, drawn_pod
from fuzz.searching import cases, no_timeout
from test_faults import scheduling, until

pytestmark = [pytest.mark.server, pytest.mark.slow]

#: The API server has the native kind itself, where it is switched on.
INSTALLED = [each.name for each in DIALECTS if each.kind and not each.kind.is_built_in]
BATCHES, OBJECTS = 3, 100


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


def clean_up(plane: ControlPlane, pods: Pods) -> None:
    for dialect in INSTALLED:
        kind = gang_crds.kind_of(dialect)
        root = f"/apis/{kind.group}/{kind.versions[0]}"
        plane.api("DELETE", f"{root}/namespaces/{pods.namespace}/{kind.plural}")
    plane.api("DELETE", f"{pods.path}?gracePeriodSeconds=0")


async def try_batch(plane: ControlPlane, scheduler: Any, pods: Pods, seed: int) -> Counter[str]:
    rng, accepted, plain = Random(seed), Counter[str](), f"plain-{seed}"
    for number in range(OBJECTS):
        accepted[await asyncio.to_thread(send, plane, pods, rng, number)] += 1
    await asyncio.to_thread(pods.create, plain)
    await until(lambda: pods.node(plain))
    assert scheduler._containment.failures.counts == {}
    await asyncio.to_thread(clean_up, plane, pods)
    return accepted


@no_timeout
async def test_what_the_server_accepts_of_gangs_ends_nothing(
    control_plane: ControlPlane, create_nodes, namespace: str, definitions: None
) -> None:
    create_nodes(2, allocatable={"nvidia.com/gpu": "8"})
    pods, accepted = Pods(control_plane, namespace), Counter[str]()
    async with scheduling(control_plane) as (_, scheduler):
        for seed in cases(BATCHES):
            accepted += await try_batch(control_plane, scheduler, pods, seed)
    assert set(INSTALLED) <= accepted.keys() & SPECS.keys(), accepted
    assert accepted["pod"] >= accepted.total() / 5
    print(json.dumps(accepted))
