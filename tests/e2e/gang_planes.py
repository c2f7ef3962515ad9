"""A control plane that has PodGroups of Kubernetes itself: they are off by default."""

import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fairlead.model.behaviour import KUBERNETES_1_36, behaviour_of
from fairlead.sim.controlplane import NO_SERVICE_ACCOUNT, ControlPlane
from gang_crds import Json

_GROUP = "scheduling.k8s.io"
#: Nodes come without the taint that only a kubelet's word would remove.
_PLAIN = (*NO_SERVICE_ACCOUNT, "TaintNodesByCondition")
#: By version of the API server: the gates to switch on, and the versions to serve.
_GATES = {
    (1, 36): (
        ("GenericWorkload", "GangScheduling", "TopologyAwareWorkloadScheduling",
         "WorkloadAwarePreemption"),
        ("v1alpha2",),
    ),
    (1, 37): (
        ("GenericWorkload", "TopologyAwareWorkloadScheduling", "CompositePodGroup"),
        ("v1beta1", "v1alpha3"),
    ),
}  # fmt: skip


class GangPlane:
    """A control plane with the gates on, and the words of its version."""

    def __init__(
        self, plane: ControlPlane, version: tuple[int, int], more_gates: Sequence[str] = ()
    ) -> None:
        self.plane = plane
        self.gates = gates_flag(version, more_gates)
        self.version = _GATES[version][1][0]
        self.is_1_36 = behaviour_of(*version) is KUBERNETES_1_36
        self.condition = "PodGroupScheduled" if self.is_1_36 else "PodGroupInitiallyScheduled"

    def path(self, namespace: str, name: str = "") -> str:
        folder = f"/apis/{_GROUP}/{self.version}/namespaces/{namespace}/podgroups"
        return f"{folder}/{name}" if name else folder

    def composites(self, namespace: str) -> str:
        """CompositePodGroups exist since 1.37, and only in this version."""
        return f"/apis/{_GROUP}/v1alpha3/namespaces/{namespace}/compositepodgroups"

    def create(self, namespace: str, name: str, minimum: int | None, **spec: Any) -> Json:
        """A PodGroup; without a minimum it is of the policy "basic"."""
        policy = {"basic": {}} if minimum is None else {"gang": {"minCount": minimum}}
        body = {"metadata": {"name": name}, "spec": {"schedulingPolicy": policy, **spec}}
        status, answer = self.plane.api("POST", self.path(namespace), body)
        assert status == 201, answer
        return answer

    def conditions(self, namespace: str, name: str) -> dict[str, Json]:
        status, answer = self.plane.api("GET", self.path(namespace, name))
        assert status == 200, answer
        return {each["type"]: each for each in answer.get("status", {}).get("conditions", ())}


def gates_flag(version: tuple[int, int], more: Sequence[str] = ()) -> str:
    gates = (*_GATES[version][0], *more)
    return "--feature-gates=" + ",".join(f"{gate}=true" for gate in gates)


@contextmanager
def gang_plane(assets: Path, folder: Path) -> Iterator[GangPlane]:
    """With the gates of the version that the API server turns out to have."""
    version = version_of(assets)
    with ControlPlane.start(assets, folder, **_options(version)) as plane:
        yield GangPlane(plane, version)


def shared_gang_plane(
    planes: Callable[..., ControlPlane], assets: Path, more_gates: Sequence[str]
) -> GangPlane:
    """The one of these gates that others use as well."""
    version = version_of(assets)
    return GangPlane(planes(**_options(version, more_gates)), version, more_gates)


def _options(version: tuple[int, int], more_gates: Sequence[str] = ()) -> dict[str, Any]:
    served = ",".join(f"{_GROUP}/{each}=true" for each in _GATES[version][1])
    flags = (gates_flag(version, more_gates), f"--runtime-config={served}")
    return {"disable_admission": _PLAIN, "apiserver_flags": flags}


def version_of(assets: Path) -> tuple[int, int]:
    """Of the kube-apiserver among them."""
    program = assets / "kube-apiserver"
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=True)
    major, minor, *_ = said.stdout.split()[-1].removeprefix("v").split(".")
    return int(major), int(minor)
