"""Whether GPUs of NVIDIA's device plugin are reserved for shares, and with which pods."""

from fairlead.base.durations import seconds
from fairlead.base.names import is_subdomain
from fairlead.kube.access.kubeconfig import Access
from fairlead.kube.reservations import GRACE_S, ReservationPlan
from fairlead.model.errors import ConfigError
from fairlead.model.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class ReservationOptions:
    """The options as given; empty where they were not."""

    image: str = ""
    namespace: str = ""
    priority_class: str = ""
    pull_secrets: tuple[str, ...] = ()
    grace: str = ""

    def plan(self, access: Access) -> ReservationPlan | None:
        """None without an image: shares are then not assigned beside a device plugin."""
        if not self.image:
            return None
        namespace = self.namespace or (access.namespace if access.in_pod else "")
        if not namespace:
            raise ConfigError("--reservation-image needs --reservation-namespace outside of a pod")
        for name in (namespace, self.priority_class or "none", *self.pull_secrets):
            if not is_subdomain(name):
                raise ConfigError(f"reservations: {name!r} is not a valid name")
        grace_s = seconds(self.grace) if self.grace else GRACE_S
        if grace_s is None:
            raise ConfigError(f"--reservation-grace {self.grace!r} is no duration; write 10s")
        return ReservationPlan(
            namespace, self.image, self.priority_class, self.pull_secrets, grace_s
        )
