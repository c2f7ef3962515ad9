"""What a cluster notices of a webhook that is away, or that serves other names."""

from typing import Any

from fairlead.sim.controlplane import ControlPlane
from fairleads import eventually
from test_webhook import CUDA
from webhooks import configured, environment, free_port, pod, webhook


def test_its_absence_is_noticed_by_our_pods_alone(control_plane: ControlPlane) -> None:
    with configured(control_plane, free_port(), "alone"):
        control_plane.api("POST", "/api/v1/namespaces", {"metadata": {"name": "alone"}})
        path = "/api/v1/namespaces/alone/pods?dryRun=All"

        def ours_is_refused() -> bool:
            status, answer = control_plane.api("POST", path, pod("ours"))
            return status == 500 and "inject.fairlead.dev" in answer["message"]

        eventually(ours_is_refused, what="our pods fail closed")
        status, answer = control_plane.api("POST", path, pod("o", scheduler="default-scheduler"))
        assert status == 201, answer
    control_plane.delete_namespace("alone")


def test_it_serves_the_names_that_it_is_told(control_plane: ControlPlane) -> None:
    control_plane.api("POST", "/api/v1/namespaces", {"metadata": {"name": "named"}})
    port = free_port()
    path = "/api/v1/namespaces/named/pods?dryRun=All"
    with (
        configured(control_plane, port, "named"),
        webhook(control_plane, port, env={"SCHEDULER_NAME": "toyscheduler"}),
    ):

        def environments() -> list[Any]:
            bodies = [pod("a"), pod("b", scheduler="toyscheduler")]
            answers = [control_plane.api("POST", path, body) for body in bodies]
            return [environment(found) if status == 201 else status for status, found in answers]

        eventually(lambda: environments() == [[[]], [[CUDA]]], what="one name is served")
    control_plane.delete_namespace("named")
