"""Pods whose containers run, and what their processes see."""

import itertools
import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from fairlead import __version__
from fairlead.sim.controlplane import ControlPlaneError
from fairleads import PATIENCE_S, Pods, eventually

IMAGE = f"docker.io/library/fairlead:{__version__}"
_END = "--- end of the variables ---"
#: What a container runs: it prints its variables, and then waits or ends.
STAYS = ["sh", "-c", f"env; echo '{_END}'; exec sleep 3600"]
ENDS = ["sh", "-c", f"env; echo '{_END}'"]

Object = dict[str, Any]


def container(name: str = "main", command: list[str] | None = None, **more: Any) -> Object:
    return {"name": name, "image": IMAGE, "command": command or STAYS, **more}


#: Every kind of container that a pod can be created with.
EVERY_KIND = {
    "initContainers": [
        container("before", ENDS),
        container("sidecar", restartPolicy="Always"),
    ],
    "containers": [container("main"), container("second")],
}


def cuda_finds(cuda: str | None, runtime: str | None, gpus: Sequence[str]) -> list[str]:
    """The GPUs of a node that a CUDA program finds, given its two variables.

    The container runtime shows the GPUs of NVIDIA_VISIBLE_DEVICES, by uuid or by number; CUDA
    numbers those from 0, and reads its variable up to the first that is not there.
    """
    by_name = {str(number): uuid for number, uuid in enumerate(gpus)} | {one: one for one in gpus}
    named = [one for one in (runtime or "").split(",") if one in by_name]
    shown = sorted({by_name[one] for one in named}, key=list(gpus).index)
    within = {str(number): uuid for number, uuid in enumerate(shown)} | {one: one for one in shown}
    if cuda is None:
        return shown
    return [within[one] for one in itertools.takewhile(within.__contains__, cuda.split(","))]


class Workloads(Pods):
    """The pods of one namespace on a cluster with a real node."""

    def run(self, name: str, annotations: Mapping[str, str] | None = None, **spec: Any) -> None:
        """Create a pod of Fairlead's whose one container prints its variables and stays."""
        body = {
            "metadata": {"name": name, "annotations": dict(annotations or {}),
                         **spec.pop("metadata", {})},
            "spec": {
                "schedulerName": "gpu-scheduler",
                "terminationGracePeriodSeconds": 0,
                "containers": [container()],
                **spec,
            },
        }  # fmt: skip
        status, answer = self.plane.api("POST", self.path, body)
        assert status == 201, answer

    def phase(self, name: str) -> str:
        return str(self.get(name).get("status", {}).get("phase", ""))

    def wait_running(self, *names: str, timeout_s: float = PATIENCE_S) -> None:
        """Returns when all their containers are ready; fails with what the cluster says of them."""
        try:
            eventually(lambda: all(map(self.ready, names)), timeout_s)
        except AssertionError:
            raise AssertionError({name: self.story(name) for name in names}) from None

    def ready(self, name: str) -> bool:
        conditions = self.get(name).get("status", {}).get("conditions", [])
        return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)

    def restarts(self, name: str) -> int:
        """How often the kubelet has started containers of the pod again."""
        statuses = self.get(name).get("status", {}).get("containerStatuses", [])
        return sum(one["restartCount"] for one in statuses)

    def process(self, name: str, of: str) -> int:
        """The first process of that container, by its number on the node."""
        statuses = self.get(name)["status"]["containerStatuses"]
        (found,) = (one["containerID"] for one in statuses if one["name"] == of)
        id_ = found.partition("://")[2]
        inside = (path for path in Path("/proc").glob("[0-9]*") if id_ in _read(path / "cgroup"))
        return next(
            int(path.name)
            for path in inside
            if re.search(r"^NSpid:.*\t1$", _read(path / "status"), re.MULTILINE)
        )

    def story(self, name: str) -> str:
        """Where a pod is and what was reported about it."""
        status = self.get(name).get("status", {})
        notes = [f"{one['reason']}: {one.get('note')}" for one in self.events(name)]
        states = [one["state"] for one in status.get("containerStatuses", [])]
        return f"{status.get('phase')} on {self.node(name)!r}, {states}, {notes}"

    def log(self, name: str, of: str = "main") -> str:
        """What that container has printed."""
        # Not with kubectl: this is asked hundreds of times, and starting it takes longer.
        with suppress(ControlPlaneError):  # the container has not started yet
            return self.plane.text(f"{self.path}/{name}/log?container={of}")
        return ""

    def seen(self, name: str, of: str = "main") -> dict[str, str]:
        """The variables of the process, once it has printed them."""

        def printed() -> str:
            text = self.log(name, of)
            return text if _END in text else ""

        lines = eventually(printed, what=f"{name}/{of} has printed").partition(_END)[0]
        return dict(line.split("=", 1) for line in lines.splitlines() if "=" in line)

    def gpus(self, name: str, of: str = "main") -> tuple[str | None, str | None]:
        """CUDA_VISIBLE_DEVICES and NVIDIA_VISIBLE_DEVICES of the process."""
        seen = self.seen(name, of)
        return seen.get("CUDA_VISIBLE_DEVICES"), seen.get("NVIDIA_VISIBLE_DEVICES")

    def debug(self, name: str, **more: Any) -> str:
        """Add an ephemeral container, as `kubectl debug` does; its name."""
        body = {"spec": {"ephemeralContainers": [container("debugger", ENDS, **more)]}}
        status, answer = self.plane.api(
            "PATCH",
            f"{self.path}/{name}/ephemeralcontainers",
            body,
            content_type="application/strategic-merge-patch+json",
        )
        assert status == 200, answer
        return "debugger"

    def gpus_everywhere(self, name: str) -> set[tuple[str | None, str | None]]:
        """What the processes of all containers of `EVERY_KIND` see, and an ephemeral one."""
        names = ["before", "sidecar", "main", "second", self.debug(name)]
        return {self.gpus(name, one) for one in names}

    def exec(self, name: str, *command: str) -> str:
        return self.kubectl("exec", name, "--", *command)

    def kubectl(self, *words: str) -> str:
        done = self.try_kubectl(*words)
        assert done.returncode == 0, f"kubectl {' '.join(words)}: {done.stderr}"
        return done.stdout

    def try_kubectl(self, *words: str) -> "subprocess.CompletedProcess[str]":
        access = ["--kubeconfig", str(self.plane.kubeconfig_for()), "-n", self.namespace]
        command = [self.plane.program("kubectl"), *access, *words]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    def delete_all(self) -> None:
        """Remove every pod, and return when their containers are gone."""
        self.plane.api("DELETE", f"{self.path}?gracePeriodSeconds=0")
        eventually(lambda: not self.nodes(), what=f"no pods in {self.namespace}")


@contextmanager
def frozen(pods: Workloads, name: str, of: str) -> Iterator[None]:
    """The first process of that container hangs meanwhile: it answers nothing, and does not end."""
    process = pods.process(name, of)
    os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGCONT)


def _read(path: Path) -> str:
    """Empty where the process has ended."""
    try:
        return path.read_text()
    except OSError:
        return ""


def inventory(*uuids: str, memory_mib: int = 16_000, **more: Any) -> dict[str, str]:
    """The annotation by which a node lists its GPUs."""
    listed = [
        {"uuid": uuid, "index": index, "model": "NVIDIA A10", "memoryMib": memory_mib}
        for index, uuid in enumerate(uuids)
    ]
    return {"fairlead.dev/inventory": json.dumps({"version": 2, "gpus": listed, **more})}
