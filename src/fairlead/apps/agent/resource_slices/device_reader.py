"""Reads from NVML what a DRA driver publishes of each GPU, once for each state of it."""

from collections.abc import Mapping
from types import MappingProxyType

from fairlead.telemetry.nvml.device_facts import DeviceFacts
from fairlead.telemetry.nvml.process import Nvml, NvmlError, NvmlUnavailable
from fairlead.telemetry.nvml.survey import GONE, GpuSurvey


class DeviceReader:
    """GPUs do not change, except for their MIG mode. What is known of a lost one is kept."""

    def __init__(self, nvml: Nvml) -> None:
        self._nvml = nvml
        self._known: dict[str, DeviceFacts] = {}
        #: The MIG mode for which it was asked.
        self._asked: dict[str, bool] = {}

    @property
    def known(self) -> Mapping[str, DeviceFacts]:
        """By uuid."""
        return MappingProxyType(self._known)

    async def read(self, survey: GpuSurvey) -> None:
        """One GPU that does not answer is asked again, and spoils no other."""
        for gpu in survey.gpus:
            if gpu.index == GONE or self._asked.get(gpu.uuid) == gpu.mig_on:
                continue
            try:
                found = await self._nvml.ask(DeviceFacts, "device", gpu.uuid)
            except NvmlUnavailable:
                return
            except NvmlError as error:
                if error.of_the_driver:
                    raise
                continue
            self._known[gpu.uuid], self._asked[gpu.uuid] = found, gpu.mig_on
