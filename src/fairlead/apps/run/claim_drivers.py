"""Warns when another scheduler allocates devices of a driver that pods of ours claim, too."""

import asyncio
from collections.abc import Callable, Iterable

import structlog

from fairlead.apps.doctor.drivers import ClaimDrivers, DriverUse, SharedDriver, advice
from fairlead.engine.engine import Engine
from fairlead.kube.mirror.reflector import Reflector
from fairlead.model.pods import Pod
from fairlead.telemetry.metrics import Metrics, Reading

log = structlog.get_logger(__name__)

EVERY_S = 60.0
#: Looked at in one go: a fraction of a millisecond.
_PODS_AT_ONCE = 1000


class DriverWatch:
    """Looks once all is listed, and then every minute."""

    def __init__(
        self,
        served: Iterable[str],
        pods: Reflector[Pod],
        engine: Engine,
        is_ready: Callable[[], bool],
        metrics: Metrics,
    ) -> None:
        self._served = frozenset(served)
        self._pods = pods
        self._engine = engine
        self._is_ready = is_ready
        self._shared: tuple[SharedDriver, ...] = ()
        metrics.watch_gauge(
            "fairlead_claim_driver_other_schedulers",
            "Other schedulers that allocate devices of a driver which pods of this one claim.",
            ("driver",),
            self._read,
        )

    async def run(self) -> None:
        while True:
            if self._is_ready():
                await self._look()
            await asyncio.sleep(EVERY_S if self._is_ready() else 1.0)

    async def _look(self) -> None:
        """A few pods at a time, so that decisions go on."""
        state = self._engine.cluster.claims
        if not state.claims:
            self._shared = ()
            return
        published = frozenset(part.driver for part in state.inventory.slices())
        drivers = ClaimDrivers(state.classes, published)
        use = DriverUse(state.claims, drivers, self._served)
        pods = list(self._pods.objects.values())
        for start in range(0, len(pods), _PODS_AT_ONCE):
            for pod in pods[start : start + _PODS_AT_ONCE]:
                use.note(pod)
            await asyncio.sleep(0)
        self._note(tuple(filter(self._concerns_us, use.shared())))

    def _concerns_us(self, shared: SharedDriver) -> bool:
        names = self._served.intersection(shared.schedulers)
        return bool(names) and len(names) < len(shared.schedulers)

    def _note(self, found: tuple[SharedDriver, ...]) -> None:
        known = {each.driver: each.schedulers for each in self._shared}
        for each in found:
            if known.get(each.driver) != each.schedulers:
                log.warning(
                    "several schedulers allocate devices of one driver",
                    driver=each.driver,
                    pods=str(each),
                    advice=advice(each),
                )
        self._shared = found

    def _read(self) -> Reading:
        return {
            (each.driver,): float(len(set(each.schedulers) - self._served)) for each in self._shared
        }
