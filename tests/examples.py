"""How many examples a test draws, or how much of a long story it plays.

`make test` has few and the same ones each time, `make test-all` all of them, and `make properties`
as many drawn at random: the profiles are in `tests/conftest.py`. EXAMPLES=2000 in the environment
makes it so many: a hunt, with ARGS="-k ledger --timeout 0".
"""

import os
from collections.abc import Iterable
from random import Random
from typing import Any, TypeVar

from hypothesis import settings

#: The profile of `make test` and `make fast`.
SHORT = "fairlead"
T = TypeVar("T")


def examples(full: int, few: int | None = None, *, steps: int = 50, **options: Any) -> settings:
    """Settings of a property test, or of a machine that takes so many steps in an example.

    `make test` draws `few` of the `full` number: a fifth, unless the test says otherwise.
    """
    count = so_many(full, few or min(full, max(8, full // 5)))
    count = int(os.environ.get("EXAMPLES", count))
    return settings(max_examples=count, stateful_step_count=steps, **options)


def so_many(full: int, few: int) -> int:
    """Of turns, objects or cases: `few` in `make test`."""
    return few if settings.get_current_profile_name() == SHORT else full


def some(cases: Iterable[T], few: int, about: object = "") -> list[T]:
    """All cases; in `make test` so many of them, drawn for what the test is about."""
    found = list(cases)
    return Random(str(about)).sample(found, so_many(len(found), few))
