"""Queues on a real API server, for benchmarks."""

from fairlead.sim.controlplane import ControlPlane, ControlPlaneError, served, service_account
from fairlead.sim.workload.objects import queue_definition

_QUEUES = "/apis/fairlead.dev/v1alpha1/queues"


def create_queues(plane: ControlPlane, count: int) -> None:
    """`queue-0` and so on beneath one parent, with guarantees; and the right to read them."""
    if not count:
        return
    plane.api("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", queue_definition())
    served.until(lambda: _are_served(plane), "queues are served")
    _let_read_queues(plane)
    specs = {"queues": {}, **{f"queue-{n}": {"parent": "queues"} for n in range(count)}}
    for name, spec in specs.items():
        body = {
            "apiVersion": "fairlead.dev/v1alpha1", "kind": "Queue",
            "metadata": {"name": name}, "spec": spec,
        }  # fmt: skip
        status, said = plane.api("POST", _QUEUES, body)
        assert status in (201, 409), said


def remove_queues(plane: ControlPlane, count: int) -> None:
    if count:
        status, said = plane.api("DELETE", _QUEUES)
        assert status == 200, said


def _are_served(plane: ControlPlane) -> bool:
    try:
        return plane.api("GET", _QUEUES)[0] == 200
    except ControlPlaneError:  # a group that is not served answers in plain text
        return False


def _let_read_queues(plane: ControlPlane) -> None:
    subject = {"kind": "ServiceAccount", "namespace": "kube-system", "name": "bench-scheduler"}
    group = "rbac.authorization.k8s.io"
    rules = [
        {"apiGroups": ["fairlead.dev"], "resources": ["queues"], "verbs": ["get", "list", "watch"]},
        {"apiGroups": ["fairlead.dev"], "resources": ["queues/status"], "verbs": ["patch"]},
    ]
    role = {"apiGroup": group, "kind": "ClusterRole", "name": "bench:queues"}
    named = {"metadata": {"name": "bench:queues"}}
    path = f"/apis/{group}/v1/clusterrole"
    binding = {"roleRef": role, "subjects": [subject]}
    for where, body in (("s", {"rules": rules}), ("bindings", binding)):
        status, said = plane.api("POST", path + where, named | body)
        assert status in (201, 409), said
    user = service_account(subject["namespace"], subject["name"])
    served.wait_allowed(plane, user, "list", "queues", group="fairlead.dev")
