"""Which schedulers allocate the devices of each driver, as far as pods and their claims show it.

The API server compares no two claims: two schedulers that allocate devices of one driver give the
same device to two claims.
"""

from collections.abc import Iterable, Iterator, Mapping

from fairlead.apps.doctor.faults import listed
from fairlead.model.claims import DeviceNeed, ResourceClaim
from fairlead.model.devices import DeviceClass
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.pods import Pod

#: Classes of this driver have different devices: DaemonSets that kube-scheduler places claim the
#: daemons, and pods of jobs the channels.
_BY_CLASS = "compute-domain.nvidia.com"


@dataclass(frozen=True, slots=True)
class SharedDriver:
    """Pods of several schedulers use claims for devices of one driver."""

    driver: str
    #: One pod of each scheduler, by the name of the scheduler.
    pods: tuple[tuple[str, str], ...]

    @property
    def schedulers(self) -> list[str]:
        return [name for name, _ in self.pods]

    def __str__(self) -> str:
        return listed([f"{scheduler} ({pod})" for scheduler, pod in self.pods])


@dataclass(frozen=True, slots=True)
class ClaimDrivers:
    """Which drivers a claim can have devices of."""

    classes: Mapping[str, DeviceClass]
    #: Drivers that publish devices.
    published: frozenset[str]

    def of(self, claim: ResourceClaim) -> Iterator[str]:
        """Drivers, by class where classes have different devices. Not for admin access."""
        if claim.allocation is not None:
            for device in claim.allocation.devices:
                if not device.admin_access:
                    yield from self._named(device.driver, claim)
            return
        for need in _needs(claim):
            for driver in self._of_class(need.class_name) if not need.admin_access else ():
                yield from self._named(driver, claim)

    def _named(self, driver: str, claim: ResourceClaim) -> Iterator[str]:
        if driver != _BY_CLASS:
            yield driver
            return
        for need in _needs(claim):
            yield f"{driver} ({need.class_name})"

    def _of_class(self, name: str) -> Iterable[str]:
        """Those that its selectors name; without one, all that publish devices."""
        known = self.classes.get(name)
        if known is None:
            return ()
        text = " ".join(each or "" for each in known.selectors)
        named = [driver for driver in self.published if driver in text]
        return named or self.published


def _needs(claim: ResourceClaim) -> Iterator[DeviceNeed]:
    for request in claim.requests:
        if request.exactly is not None:
            yield request.exactly
        yield from request.first_available


class DriverUse:
    """Pods by driver and scheduler. `note` each pod, then read `shared`.

    A pod may name a scheduler that does not exist, so it counts when its claim is allocated. Of
    schedulers that are known to run, it counts before.
    """

    def __init__(
        self,
        claims: Mapping[str, ResourceClaim],
        drivers: ClaimDrivers,
        running: frozenset[str] = frozenset(),
    ) -> None:
        self._claims = claims
        self._drivers = drivers
        self._running = running
        self._pods: dict[str, dict[str, str]] = {}

    def note(self, pod: Pod) -> None:
        """Pods without claims cost one look."""
        for use in pod.request.claims:
            claim = self._claims.get(use.key)
            if claim is None or not (claim.allocation or pod.scheduler in self._running):
                continue
            for driver in self._drivers.of(claim):
                self._pods.setdefault(driver, {}).setdefault(pod.scheduler, pod.key)

    def shared(self) -> list[SharedDriver]:
        return [
            SharedDriver(driver, tuple(sorted(pods.items())))
            for driver, pods in sorted(self._pods.items())
            if len(pods) > 1
        ]


def advice(shared: SharedDriver) -> str:
    """What to do about it."""
    return f"set the same schedulerName in all such pods, one of: {listed(shared.schedulers)}"
