"""Whether to be elected before deciding, and on which terms: options, file and defaults."""

from collections.abc import Mapping
from dataclasses import fields

from fairlead.base.durations import seconds
from fairlead.base.names import is_subdomain
from fairlead.kube.access.kubeconfig import Access
from fairlead.kube.leadership.election import Terms
from fairlead.model.errors import ConfigError
from fairlead.model.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class ElectionOptions:
    """The options as given; None or empty where they were not."""

    leader_elect: bool | None = None
    lease_duration: str = ""
    renew_deadline: str = ""
    retry_period: str = ""
    resource_name: str = ""
    resource_namespace: str = ""

    def over(self, other: "ElectionOptions") -> "ElectionOptions":
        """This where it says something, else the other."""
        said = {field.name: getattr(self, field.name) for field in fields(self)}
        return ElectionOptions(
            **{name: getattr(other, name) if v in (None, "") else v for name, v in said.items()}
        )

    def terms(self, access: Access) -> Terms | None:
        """The terms; None: decide without an election.

        In a pod there may be several replicas, so one is elected unless configured otherwise. A
        program that a user starts by hand needs no Lease, nor the right to write one.
        """
        elects = access.in_pod if self.leader_elect is None else self.leader_elect
        if not elects:
            return None
        usual = Terms()
        terms = Terms(
            name=self.resource_name or usual.name,
            namespace=self.resource_namespace
            or (access.namespace if access.in_pod else usual.namespace),
            lease_s=_length_s("leaseDuration", self.lease_duration, usual.lease_s),
            renew_s=_length_s("renewDeadline", self.renew_deadline, usual.renew_s),
            retry_s=_length_s("retryPeriod", self.retry_period, usual.retry_s),
        )
        _refuse_odd_names({"resourceName": terms.name, "resourceNamespace": terms.namespace})
        problem = terms.problem()
        if problem:
            raise ConfigError(f"leader election: {problem}")
        return terms


def _length_s(key: str, text: str, usual_s: float) -> float:
    length_s = seconds(text) if text else usual_s
    if length_s is None:
        raise ConfigError(
            f"leader election: {key} {text!r} is not a valid duration; use a value such as 15s"
        )
    return length_s


def _refuse_odd_names(names: Mapping[str, str]) -> None:
    for key, name in names.items():
        if not is_subdomain(name):
            raise ConfigError(
                f"leader election: {key} {name!r} is not a valid name; use a name such as fairlead"
            )
