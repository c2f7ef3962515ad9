"""Waiting for drivers that have to prepare a device before a pod is bound: binding conditions."""

import asyncio
from collections.abc import Callable, Iterator, Sequence

from fairlead.engine.instructions import AnnounceNotice
from fairlead.kube.writes.preparer import StepFailed
from fairlead.kube.writes.waits import Waits
from fairlead.model.claims import AllocatedDevice, DeviceCondition, ResourceClaim
from fairlead.model.pods import Pod

#: kube-scheduler's bindingTimeout.
WAIT_S = 600.0
#: The reason of kube-scheduler's event.
PENDING = "BindingConditionsPending"


class DeviceReadiness:
    """What drivers report about the devices of claims. `latest` has claims as watches show them.

    `announce` records that a pod waits for a driver.
    """

    def __init__(
        self,
        latest: Callable[[str], ResourceClaim | None],
        announce: Callable[[AnnounceNotice], None],
        wait_s: float = WAIT_S,
    ) -> None:
        self._latest = latest
        self._announce = announce
        self._wait_s = wait_s
        self._waits = Waits()

    def look(self, key: str) -> None:
        """The claim with this key, or the pod with this uid, has changed or is gone."""
        self._waits.look(key)

    async def wait(
        self, pod: Pod, node: str, claims: Sequence[ResourceClaim], check: Callable[[], None]
    ) -> None:
        """Returns when all devices are ready. Raises StepFailed, or what `check` raises."""
        waited = [claim for claim in claims if any(_conditioned(claim))]
        if not waited:
            return
        text = f"waiting for binding conditions for device on node {node}"
        self._announce(AnnounceNotice(pod, PENDING, text))
        with self._waits.on((pod.uid, *(claim.key for claim in waited))) as changed:
            await self._until_ready(waited, changed, check)

    async def _until_ready(
        self, pending: list[ResourceClaim], changed: asyncio.Event, check: Callable[[], None]
    ) -> None:
        try:
            async with asyncio.timeout(self._wait_s):
                while pending := [claim for claim in pending if not _is_ready(self._newest(claim))]:
                    check()
                    changed.clear()
                    await changed.wait()
        except TimeoutError:
            raise StepFailed(f"device binding timeout: claim={pending[0].name}") from None

    def _newest(self, written: ResourceClaim) -> ResourceClaim:
        """The watch may be behind what we wrote."""
        shown = self._latest(written.key)
        if shown is None or shown.uid != written.uid or int(shown.version) < int(written.version):
            return written
        return shown


def _conditioned(claim: ResourceClaim) -> Iterator[AllocatedDevice]:
    for device in claim.allocation.devices if claim.allocation else ():
        if device.binding_conditions:
            yield device


def _is_ready(claim: ResourceClaim) -> bool:
    """Raises StepFailed when a driver reports that a device cannot be prepared."""
    if claim.allocation is None:
        raise StepFailed(f"claim {claim.key} got deallocated elsewhere in the meantime")
    prepared = [_is_prepared(claim, device) for device in _conditioned(claim)]
    return all(prepared)  # of all of them: a later one may have failed


def _is_prepared(claim: ResourceClaim, device: AllocatedDevice) -> bool:
    found = {each.kind: each for each in _reported(claim, device) if each.status == "True"}
    for kind in device.binding_failure_conditions or ():
        if failed := found.get(kind):
            said = f'reason={failed.reason}, message="{failed.message}"'
            raise StepFailed(f"device binding failed: claim={claim.name}, {said}")
    return all(kind in found for kind in device.binding_conditions or ())


def _reported(claim: ResourceClaim, device: AllocatedDevice) -> tuple[DeviceCondition, ...]:
    wanted = (*device.key, device.share_id)
    for report in claim.reports:
        if (report.driver, report.pool, report.device, report.share_id) == wanted:
            return report.conditions
    return ()
