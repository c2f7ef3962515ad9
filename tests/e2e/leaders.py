"""Several Fairleads of which one leads, with leases short enough for a test."""

import json
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import PurePosixPath
from typing import Any

import manifests
from fairlead.sim.controlplane import ControlPlane, ControlPlaneError, served
from fairleads import Running, eventually, fairlead

EPOCH = "fairlead.dev/epoch"
EPOCHS = "/apis/fairlead.dev/v1alpha1/schedulerepochs"
#: On a busy machine, a write may take seconds.
_SHORT = {"lease-duration": "9s", "renew-deadline": "6s", "retry-period": "0.3s"}


class Lease:
    """A Lease of a test's own, as the API server has it."""

    def __init__(self, plane: ControlPlane, namespace: str, name: str = "fairlead") -> None:
        self.plane = plane
        self.namespace, self.name = namespace, name
        self.path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{name}"

    def options(self, **durations: str) -> list[str]:
        """What makes a `fairlead run` a candidate for it."""
        said = {**_SHORT, "resource-name": self.name, "resource-namespace": self.namespace}
        said |= {key.replace("_", "-"): value for key, value in durations.items()}
        return ["--leader-elect", *(f"--leader-elect-{key}={text}" for key, text in said.items())]

    @property
    def spec(self) -> dict[str, Any]:
        status, found = self.plane.api("GET", self.path)
        return dict(found["spec"]) if status == 200 else {}

    @property
    def holder(self) -> str:
        return str(self.spec.get("holderIdentity", ""))

    @property
    def epoch(self) -> str:
        spec = self.spec
        return f"{spec['leaseTransitions']}/{spec['holderIdentity']}"

    @property
    def epoch_path(self) -> str:
        return f"{EPOCHS.replace('1/', f'1/namespaces/{self.namespace}/')}/{self.name}"

    def create_epoch(self) -> None:
        """Empty, unless it is there; a missing one refuses nobody."""
        body = {
            "apiVersion": "fairlead.dev/v1alpha1", "kind": "SchedulerEpoch",
            "metadata": {"name": self.name}, "spec": {"epoch": ""},
        }  # fmt: skip
        status, said = self.plane.api("POST", str(PurePosixPath(self.epoch_path).parent), body)
        assert status in (201, 409), said

    def allow(self, user: str) -> None:
        """Lets this user be a candidate."""
        group = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{self.namespace}"
        meta = {"metadata": {"name": "candidate"}}
        rule = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["*"]}
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "candidate"}
        subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}
        assert self.plane.api("POST", f"{group}/roles", {**meta, "rules": [rule]})[0] == 201
        binding = {**meta, "roleRef": role, "subjects": [subject]}
        assert self.plane.api("POST", f"{group}/rolebindings", binding)[0] == 201
        where = {"group": "coordination.k8s.io", "namespace": self.namespace}
        served.wait_allowed(self.plane, user, "update", "leases", **where)

    def edit(self, **spec: Any) -> None:
        merge = "application/merge-patch+json"
        status, said = self.plane.api("PATCH", self.path, {"spec": spec}, content_type=merge)
        assert status == 200, said


@contextmanager
def candidate(lease: Lease, **how: Any) -> Iterator[Running]:
    """A Fairlead that leads or stands by."""
    options = how.pop("options", ())
    access = how.pop("kubeconfig", None) or lease.plane.kubeconfig_for()
    durations = how.pop("durations", {})
    with fairlead(
        lease.plane, *lease.options(**durations), *options, kubeconfig=access, **how
    ) as process:
        try:
            yield process
        finally:
            if process.process.poll() is None:
                # One that the test was to kill may hang or sleep for good if the test fails before.
                killed = how.get("ends_with") == -signal.SIGKILL
                process.process.send_signal(signal.SIGKILL if killed else signal.SIGCONT)


@contextmanager
def pair(
    lease: Lease, first: dict[str, Any], second: dict[str, Any]
) -> Iterator[tuple[Running, Running]]:
    """A leader, and a standby; what is said of each are options of `candidate`."""
    with candidate(lease, **first) as leader:
        wait_leading(leader)
        with candidate(lease, **second) as standby:
            wait_standing_by(standby)
            yield leader, standby


def said(process: Running, event: str) -> list[dict[str, Any]]:
    return [record for record in process.records if record["event"] == event]


def wait_leading(process: Running) -> str:
    """The epoch in which it decides."""
    (taken,) = eventually(lambda: said(process, "taken over"), what="it leads")
    return str(taken["epoch"])


def wait_standing_by(process: Running) -> None:
    """It has read everything, and knows who leads."""
    eventually(lambda: said(process, "standing by"), what="it stands by")


@contextmanager
def epoch_policy(lease: Lease) -> Iterator[None]:
    """The policy as it is shipped, for this Lease, for the time of a block; then it is deleted."""
    policy, binding = manifests.policy("fairlead-epoch")
    binding["spec"]["paramRef"] |= {"name": lease.name, "namespace": lease.namespace}
    define_epochs(lease.plane)
    lease.create_epoch()
    with served.policy(lease.plane, (policy, binding), lambda: _is_refused(lease)):
        yield


def define_epochs(plane: ControlPlane) -> None:
    """The kind that the policy has as its parameter."""
    (kind,) = manifests.documents(manifests.CRDS, "policy")
    status, said = plane.api(
        "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", kind
    )
    assert status in (201, 409), said
    served.until(lambda: serves_epochs(plane), "SchedulerEpochs are served")


def serves_epochs(plane: ControlPlane) -> bool:
    try:
        return plane.api("GET", EPOCHS)[0] == 200
    except ControlPlaneError:
        return False  # "404 page not found"


def bind(
    lease: Lease, pod: str, node: str, *, client: served.ApiClient | None = None, **annotations: str
) -> tuple[int, Any]:
    """A bind that this client sends, or the administrator."""
    path = f"/api/v1/namespaces/{lease.namespace}/pods/{pod}/binding"
    meta = {"name": pod, "annotations": {key: text for key, text in annotations.items() if text}}
    body = {"metadata": meta, "target": {"kind": "Node", "name": node}}
    return (client or lease.plane).api("POST", path, body)


def _is_refused(lease: Lease) -> bool:
    return bind(lease, "nobody", "nowhere", **{EPOCH: "none"})[0] == 403


def inventory(node: str, gpus: int) -> dict[str, str]:
    """Annotations of a node that say which GPUs it has."""
    listed = [
        {"uuid": f"GPU-{node}-{index}", "index": index, "model": "H100", "memoryMiB": 81559}
        for index in range(gpus)
    ]
    return {"fairlead.dev/inventory": json.dumps({"gpus": listed})}


def sold(plane: ControlPlane) -> Counter[str]:
    """How often each GPU was given away whole, from what the API server says and nothing else."""
    _, found = plane.api("GET", "/api/v1/pods")
    gpus: Counter[str] = Counter()
    for pod in found["items"]:
        given = pod["metadata"].get("annotations", {}).get("fairlead.dev/assignment")
        if given and pod["spec"].get("nodeName"):
            gpus.update(device["u"] for device in json.loads(given)["devices"])
    return gpus


def sold_twice(plane: ControlPlane) -> list[str]:
    return [gpu for gpu, times in sold(plane).items() if times > 1]
