"""Whether to be elected, and on which terms."""

import pytest

from fairlead.apps.config import config
from fairlead.apps.config.election_options import ElectionOptions
from fairlead.kube.access.credentials import Static
from fairlead.kube.access.kubeconfig import Access
from fairlead.kube.leadership.election import Terms
from fairlead.model.errors import ConfigError

BY_HAND = Access("http://x", None, Static({}), namespace="mine")
IN_A_POD = Access("http://x", None, Static({}), namespace="fairlead-system", in_pod=True)


def test_a_pod_is_elected_and_a_program_started_by_hand_is_not() -> None:
    assert ElectionOptions().terms(IN_A_POD) == Terms("fairlead", "fairlead-system", 15, 10, 2)
    assert ElectionOptions().terms(BY_HAND) is None


def test_whoever_asks_gets_it_otherwise() -> None:
    assert ElectionOptions(leader_elect=False).terms(IN_A_POD) is None
    assert ElectionOptions(leader_elect=True).terms(BY_HAND) == Terms(
        "fairlead", "kube-system", 15, 10, 2
    )


def test_an_option_wins_over_the_file() -> None:
    file = config.parse("leaderElection: {leaderElect: true, retryPeriod: 1s, resourceName: a}")
    electing = ElectionOptions(leader_elect=False, resource_name="b").over(
        file.leader_election.electing()
    )
    assert electing == ElectionOptions(leader_elect=False, retry_period="1s", resource_name="b")


@pytest.mark.parametrize(
    ("electing", "says"),
    [
        (ElectionOptions(lease_duration="5s"), "leaseDuration must be longer than renewDeadline"),
        (
            ElectionOptions(renew_deadline="soon"),
            "renewDeadline 'soon' is not a valid duration; use",
        ),
        (
            ElectionOptions(resource_name="My Lease"),
            "resourceName 'My Lease' is not a valid name; use",
        ),
        (
            ElectionOptions(resource_namespace="../x"),
            "resourceNamespace '../x' is not a valid name",
        ),
    ],
)
def test_what_cannot_be_is_said_before_anything_starts(
    electing: ElectionOptions, says: str
) -> None:
    with pytest.raises(ConfigError, match=says):
        electing.terms(IN_A_POD)


def test_only_leases_can_be_held() -> None:
    with pytest.raises(ConfigError, match="resourceLock"):
        config.parse("leaderElection: {resourceLock: endpoints}")
