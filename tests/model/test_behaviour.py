"""Which version's behaviour is taken, and what the versions differ in."""

from dataclasses import fields

import pytest

from fairlead.model.behaviour import (
    KNOWN,
    KUBERNETES_1_36,
    KUBERNETES_1_37,
    Behaviour,
    behaviour_of,
)


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ((1, 36), KUBERNETES_1_36),
        ((1, 37), KUBERNETES_1_37),
        ((1, 9), KUBERNETES_1_36),
        ((0, 0), KUBERNETES_1_36),
        ((1, 38), KUBERNETES_1_37),
        ((2, 0), KUBERNETES_1_37),
    ],
    ids=str,
)
def test_the_nearest_known_version_is_taken(version: tuple[int, int], expected: Behaviour) -> None:
    assert behaviour_of(*version) is expected


@pytest.mark.parametrize("known", KNOWN, ids=lambda known: known.name)
def test_a_known_version_is_its_own_nearest(known: Behaviour) -> None:
    assert behaviour_of(*known.version) is known


@pytest.mark.parametrize("flag", [f.name for f in fields(Behaviour) if f.name != "version"])
def test_every_flag_tells_some_versions_apart(flag: str) -> None:
    assert {getattr(known, flag) for known in KNOWN} == {False, True}
