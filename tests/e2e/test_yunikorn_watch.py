"""Queues of YuniKorn from its ConfigMap, on a real API server."""

from collections.abc import Iterator

import pytest

from fairlead.kube.queues.registry import QueueDialects
from fairlead.kube.queues.yunikorn import YunikornQueues
from fairlead.model.queues import GPUS
from fairlead.sim.controlplane import ControlPlane, service_account
from queue_watching import watching
from scene import wait_for

pytestmark = pytest.mark.server

PLACE = ("default", "yunikorn-configs")
DIALECTS = QueueDialects([YunikornQueues(PLACE)])
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
RESEARCH = "yunikorn/root.research"


def config(gpus: int) -> str:
    return f"""
partitions:
  - name: default
    queues:
      - name: root
        queues: [{{name: research, resources: {{max: {{nvidia.com/gpu: {gpus}}}}}}}]
"""


def put(plane: ControlPlane, text: str) -> None:
    body = {"metadata": {"name": PLACE[1]}, "data": {"queues.yaml": text}}
    status, said = plane.api("PUT", f"{CONFIG_MAPS}/{PLACE[1]}", body)
    if status == 404:
        status, said = plane.api("POST", CONFIG_MAPS, body)
    assert status in (200, 201), said


@pytest.fixture
def plane(control_plane: ControlPlane) -> Iterator[ControlPlane]:
    yield control_plane
    control_plane.api("DELETE", f"{CONFIG_MAPS}/{PLACE[1]}")


async def test_queues_follow_the_config_map(plane: ControlPlane) -> None:
    async with watching(plane, dialects=DIALECTS) as (watches, known):
        await wait_for(lambda: watches.is_synced and "yunikorn" in known.kinds)
        assert known.kinds["yunikorn"].is_served  # pods that name its queues wait
        assert known.kinds["yunikorn"].problem == (
            "the queue of the pod is not known: the ConfigMap default/yunikorn-configs with the "
            "queues of YuniKorn does not exist"
        )
        put(plane, config(4))
        await wait_for(lambda: RESEARCH in known.queues and not known.kinds["yunikorn"].problem)
        assert known.queues[RESEARCH].limit == ((GPUS, 4000),)
        put(plane, "partitions: [")
        await wait_for(lambda: "is no YAML" in known.kinds["yunikorn"].problem)
        assert known.queues[RESEARCH].limit == ((GPUS, 4000),)  # what was read last applies
        put(plane, config(6))
        await wait_for(lambda: known.queues[RESEARCH].limit == ((GPUS, 6000),))
        known.queues.clear()
        async for _ in watches.retell():
            pass
        assert set(known.queues) == {"yunikorn/root", RESEARCH}
        plane.api("DELETE", f"{CONFIG_MAPS}/{PLACE[1]}")
        await wait_for(lambda: not known.queues)


async def test_a_right_that_is_missing_is_named(plane: ControlPlane) -> None:
    identity = service_account("default", "yunikorn-reader")
    put(plane, config(4))
    async with watching(plane, identity, dialects=DIALECTS) as (watches, known):
        sentence = "may not watch the ConfigMap default/yunikorn-configs"
        await wait_for(
            lambda: "yunikorn" in known.kinds and sentence in known.kinds["yunikorn"].problem
        )
        await wait_for(lambda: watches.is_synced)
        assert not known.queues


async def test_the_right_to_one_config_map_is_enough(plane: ControlPlane) -> None:
    """As the chart grants it."""
    identity = service_account("default", "yunikorn-watcher")
    rule = {
        "apiGroups": [""],
        "resources": ["configmaps"],
        "resourceNames": [PLACE[1]],
        "verbs": ["get", "list", "watch"],
    }
    group = "rbac.authorization.k8s.io"
    folder = f"/apis/{group}/v1/namespaces/default"
    named = {"metadata": {"name": "yunikorn-watcher"}}
    subject = {"kind": "ServiceAccount", "namespace": "default", "name": "yunikorn-watcher"}
    role = {"apiGroup": group, "kind": "Role", "name": "yunikorn-watcher"}
    assert plane.api("POST", f"{folder}/roles", {**named, "rules": [rule]})[0] == 201
    binding = {**named, "roleRef": role, "subjects": [subject]}
    assert plane.api("POST", f"{folder}/rolebindings", binding)[0] == 201
    put(plane, config(4))
    async with watching(plane, identity, dialects=DIALECTS) as (_, known):
        await wait_for(lambda: RESEARCH in known.queues)
