"""Cases that differed once, made small: they agree for good.

`bench/oracle.py --minimise` writes them. One that waits for its repair says why in
`still_differs`; as soon as it agrees, that line has to go.
"""

from pathlib import Path

import pytest

from oracle.arena import Arena
from oracle.case import read
from oracle.coverage import shown
from oracle.generate import FEATURES
from oracle.minimise import REGRESSIONS

FILES = sorted(REGRESSIONS.glob("*.json"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_what_differed_once_agrees(arena: Arena, path: Path) -> None:
    case = read(path)
    found = arena.run(case).differences
    told = "\n".join(shown(case.name, difference) for difference in found)
    if case.still_differs:
        assert found, f"both agree now: take still_differs out of {path.name}"
        pytest.xfail(f"{case.still_differs}: {told}")
    assert not found, told


def test_regressions_are_of_features_that_are_on() -> None:
    for path in FILES:
        assert set(read(path).features) <= FEATURES or read(path).still_differs
