"""Random clusters and pods: Fairlead answers as the real kube-scheduler does.

`bench/oracle.py` runs thousands more, and can shrink a case that differs.
"""

import pytest

from oracle.conftest import Results
from oracle.coverage import shown

#: Together they take every branch, most of them more than once.
SEEDS = (
    0, 1, 3, 6, 8, 14, 15, 17, 18, 19, 20, 24, 32, 33, 39, 42, 45, 46, 48, 52, 53, 54, 56, 57, 63,
    65, 68, 72, 77, 81, 90, 91, 95, 100, 109, 123, 128, 129,
)  # fmt: skip


@pytest.mark.parametrize("seed", SEEDS)
def test_both_answer_alike(results: Results, seed: int) -> None:
    result = results.of(seed)
    assert not result.differences, "\n".join(shown(f"seed {seed}", d) for d in result.differences)


@pytest.mark.timeout(900)  # alone, it runs every seed
def test_every_branch_is_taken(results: Results) -> None:
    for seed in SEEDS:
        results.of(seed)
    assert not results.coverage.unreached(), (
        "choose other seeds, or help the generator to get there"
    )


@pytest.mark.timeout(900)
def test_every_exception_occurs(results: Results) -> None:
    for seed in SEEDS:
        results.of(seed)
    missing = results.coverage.missing_exceptions(results.arena.minor)
    assert not missing, "an exception that nothing needs is a hole in the net: take it away"
