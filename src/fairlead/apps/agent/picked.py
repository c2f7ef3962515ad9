"""Which GPUs device plugins picked for the pods of the node, as its kubelet says."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path

import structlog

from fairlead.base.node_inventory import MOST_PICKED
from fairlead.kube.pod_resources import PickedDevices, PodResourcesError, picked_devices
from fairlead.model.pods import Pod
from fairlead.telemetry.nvml.facts import GpuFacts

log = structlog.get_logger(__name__)


class PickedGpus:
    """The devices of each pod, by uid.

    A pod keeps its devices while it lives: what was named once is known until the pod is gone,
    also while the kubelet does not answer. The kubelet knows pods by name. A pod that the kubelet
    has started is the one of its name that has the devices.
    """

    def __init__(self, socket: Path | None) -> None:
        """`socket` is that of the kubelet's PodResources API; None: it is not asked."""
        self._socket = socket
        self._problem = ""
        self._awaited: set[str] = set()
        #: None until the kubelet has answered.
        self.devices: Mapping[str, frozenset[str]] | None = None

    @property
    def asks(self) -> bool:
        return self._socket is not None

    def is_awaited(self, pod: Pod) -> bool:
        """Whether the pod has just been started, so that the kubelet can name its GPUs now."""
        if not self.asks or not _may_have(pod) or pod.uid in self._awaited:
            return False
        self._awaited.add(pod.uid)
        return pod.uid not in (self.devices or {})

    async def ask(self, pods: Iterable[Pod]) -> None:
        """`pods` are all those of the node."""
        if self._socket is None:
            return
        said: PickedDevices = {}
        try:
            said = await picked_devices(self._socket)
        except PodResourcesError as error:
            if str(error) != self._problem:
                log.warning("the kubelet does not say which GPUs it chose", error=str(error))
            self._problem = str(error)
            if self.devices is None:
                return
        else:
            self._problem = ""
        self._note(said, [pod for pod in pods if _may_have(pod)])

    def _note(self, said: PickedDevices, pods: Sequence[Pod]) -> None:
        before = self.devices or {}
        found = ((pod.uid, said.get((pod.namespace, pod.name))) for pod in pods)
        self.devices = {
            uid: devices for uid, new in found if (devices := new or before.get(uid))
        }  # fmt: skip
        self._awaited &= {pod.uid for pod in pods}

    def listed(self, gpus: Sequence[GpuFacts]) -> dict[str, list[str]] | None:
        """The same as the inventory has it; None if nothing is known yet."""
        if self.devices is None:
            return None
        names = by_name(gpus)
        found = {
            uid: sorted({names[one].uuid for one in devices})
            for uid, devices in sorted(self.devices.items())
            if devices <= names.keys()
        }
        return dict(islice(found.items(), MOST_PICKED))


def by_name(gpus: Iterable[GpuFacts]) -> dict[str, GpuFacts]:
    """GPUs by all names that a device plugin may have for them: uuid, and index as text."""
    known = list(gpus)
    return {str(gpu.index): gpu for gpu in known} | {gpu.uuid: gpu for gpu in known}


def _may_have(pod: Pod) -> bool:
    return bool(pod.started) and not pod.finished and pod.request.gpu_request is not None
