"""From what NVML says of the GPUs to the ResourceSlices of the node."""

from collections.abc import Collection
from typing import Protocol

from fairlead.apps.agent.resource_slices.device_pool import Mode, pool_parts
from fairlead.apps.agent.resource_slices.device_reader import DeviceReader
from fairlead.apps.agent.resource_slices.slice_publisher import SlicePublisher
from fairlead.kube.http.client import Client
from fairlead.telemetry.nvml.process import Nvml
from fairlead.telemetry.nvml.survey import GpuSurvey


class _Place(Protocol):
    @property
    def node(self) -> str: ...

    @property
    def plugin(self) -> bool | None: ...


class NodeDevices:
    """The GPUs of one node as devices."""

    def __init__(self, mode: Mode, reader: DeviceReader, publisher: SlicePublisher) -> None:
        self._mode = mode
        self._reader = reader
        self.publisher = publisher

    @classmethod
    def of(cls, mode: Mode, nvml: Nvml, client: Client, place: _Place) -> "NodeDevices | None":
        """None: ResourceSlices are not touched."""
        if mode == "none":
            return None
        publisher = SlicePublisher(client, place.node, plugin=place.plugin)
        return cls(mode, DeviceReader(nvml), publisher)

    async def read(self, survey: GpuSurvey) -> None:
        if self._mode != "withdraw":
            await self._reader.read(survey)

    def offer(self, survey: GpuSurvey | None, unhealthy: Collection[str] | None) -> None:
        """`unhealthy` is None while the driver does not answer: no GPU can be had."""
        if self._mode == "withdraw":
            self.publisher.offer([])
        elif survey is None:
            # An agent before us may have published what nothing is known of now.
            self.publisher.offer([] if unhealthy is None else None)
        else:
            every = {gpu.uuid for gpu in survey.gpus}
            self.publisher.offer(
                pool_parts(
                    survey,
                    self._reader.known,
                    every if unhealthy is None else unhealthy,
                    divided=self._mode == "mig",
                )
            )
