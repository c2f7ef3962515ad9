"""The webhook on a real API server: what it puts into pods, what it refuses, and its absence."""

from collections.abc import Iterator
from typing import Any

import pytest

from fairlead.sim.controlplane import ControlPlane
from fairleads import eventually
from manifests import warnings_of
from webhooks import Webhook, configured, environment, free_port, pod, webhook

LATER = {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.annotations['fairlead.dev/gpus']"}}
CUDA = {"name": "CUDA_VISIBLE_DEVICES", "valueFrom": LATER}
TRIED = "/api/v1/namespaces/default/pods?dryRun=All"


def tried(plane: ControlPlane, body: dict[str, Any]) -> dict[str, Any]:
    status, answer = plane.api("POST", TRIED, body)
    assert status == 201, answer
    return answer


def asks(plane: ControlPlane) -> None:
    """Returns when the API server asks the webhook and trusts it."""

    def asked() -> bool:
        status, answer = plane.api("POST", TRIED, pod("asked"))
        return status == 201 and environment(answer) == [[CUDA]]

    eventually(asked, what="the API server asks the webhook")


CLASSES = """
goals:
  classes: [{name: chat, wait: 2m, gpus: {quiet: 40%}}]
"""


@pytest.fixture(scope="module")
def asked(real_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Webhook]:
    """A webhook that the shared API server asks."""
    port, config = free_port(), tmp_path_factory.mktemp("webhook") / "fairlead.yaml"
    config.write_text(CLASSES)
    with (
        configured(real_plane, port),
        webhook(real_plane, port, "--config", str(config), loads=True) as running,
    ):
        asks(real_plane)
        yield running


def test_every_container_gets_the_variable(asked: Webhook, control_plane: ControlPlane) -> None:
    init = [
        {"name": "first", "image": "x"},
        {"name": "side", "image": "x", "restartPolicy": "Always"},
    ]

    got = tried(control_plane, pod("all", initContainers=init))

    assert environment(got) == [[CUDA], [CUDA], [CUDA]]


def test_what_the_author_wrote_is_replaced(asked: Webhook, control_plane: ControlPlane) -> None:
    env = [{"name": "A", "value": "1"}, {"name": CUDA["name"], "value": "0,1,2,3"}]

    got = tried(control_plane, pod("bold", env=env))

    assert environment(got) == [[env[0], CUDA]]


def test_a_pod_without_a_name_yet_gets_it_too(asked: Webhook, control_plane: ControlPlane) -> None:
    assert environment(tried(control_plane, pod())) == [[CUDA]]


def test_nonsense_is_refused_with_the_schedulers_sentence(
    asked: Webhook, control_plane: ControlPlane
) -> None:
    body = pod("half", annotations={"fairlead.dev/gpu-share": "half"})

    status, answer = control_plane.api("POST", TRIED, body)

    assert status == 422, answer
    assert (
        "fairlead.dev/gpu-share is 'half'; write a share of one GPU such as 0.5"
        in (answer["message"])
    )


def test_a_misspelt_annotation_is_warned_of_with_the_nearest_key(
    asked: Webhook, control_plane: ControlPlane
) -> None:
    body = pod("odd", annotations={"fairlead.dev/gpu-shares": "0.5", "gpu-schedulingmap": "0=n:0"})

    told = warnings_of(control_plane, "default", body)

    for key, near in (
        ("fairlead.dev/gpu-shares", "fairlead.dev/gpu-share"),
        ("gpu-schedulingmap", "gpu-scheduling-map"),
    ):
        assert f"annotation {key} is unknown and has no effect; did you mean {near}?" in told


def test_the_author_of_a_pod_hears_of_its_service_class(
    asked: Webhook, control_plane: ControlPlane
) -> None:
    named = {"fairlead.dev/service-class": "chat"}
    promised = warnings_of(control_plane, "default", pod("c", annotations=named))
    assert (
        "service class chat: 95 % of its units are to start within 2m, on GPUs that are less than "
        "40% busy"
    ) in promised
    late = named | {"fairlead.dev/deadline": "61m", "fairlead.dev/run-time": "1h"}
    told = warnings_of(control_plane, "default", pod("l", annotations=late))
    assert "promises one within 2m; choose a class" in told
    unknown = {"fairlead.dev/service-class": "none"}
    told = warnings_of(control_plane, "default", pod("u", annotations=unknown))
    assert "there is no such class; there are: chat" in told


def test_an_assignment_cannot_be_brought_along(asked: Webhook, control_plane: ControlPlane) -> None:
    body = pod("forged", annotations={"fairlead.dev/gpus": "0"}, nodeName="somewhere")

    status, answer = control_plane.api("POST", TRIED, body)

    assert status == 422, answer
    assert "fairlead.dev/gpus is set by the scheduler" in answer["message"]


def test_pods_of_others_never_come_here(asked: Webhook, control_plane: ControlPlane) -> None:
    env = [{"name": CUDA["name"], "value": "0"}]
    before = asked.get("/metrics")[1]

    got = tried(control_plane, pod("other", scheduler="default-scheduler", env=env))

    assert environment(got) == [env]
    after = asked.get("/metrics")[1]
    assert _answers(before) == _answers(after)


def _answers(metrics: str) -> list[str]:
    return [line for line in metrics.splitlines() if line.startswith("fairlead_webhook_answers")]


def test_it_is_healthy_and_tells_when_its_certificate_ends(asked: Webhook) -> None:
    assert asked.get("/healthz") == (200, "ok")
    assert asked.get("/readyz") == (200, "ok")
    assert "fairlead_webhook_certificate_expiry_timestamp_seconds 1." in asked.get("/metrics")[1]
