"""What the policy of assignments prevents: without it, every forgery works.

Its own file, since a worker has the policy in force from the first test that asks for it on.
"""

import pytest

from fairlead.sim.controlplane import ControlPlane
from test_assignments_policy import FORGERIES, OURS, annotations_of, forge, victim, writers

__all__ = ["victim", "writers"]  # fixtures


@pytest.mark.parametrize("how", [how for how in FORGERIES if how != "remove"])
def test_without_the_policy_the_forgery_works(writers: ControlPlane, victim: str, how: str) -> None:
    status, answer = forge(writers, FORGERIES[how], victim, OURS[0])

    assert status in (200, 201), answer
    forged = f"{victim}-new" if how.startswith("create") else victim
    assert annotations_of(writers, forged)[OURS[0]] == "0"
