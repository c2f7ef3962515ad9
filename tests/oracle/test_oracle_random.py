"""Random clusters and pods: Fairlead answers as the real kube-scheduler does.

`bench/oracle.py` runs thousands more, and can shrink a case that differs.
"""

import pytest
from _pytest.mark import ParameterSet

from oracle.case import Case
from oracle.claim_cases import elsewhere, odd_amounts, tainted_by_rules
from oracle.configurations import in_turn
from oracle.conftest import Results
from oracle.coverage import shown
from oracle.generate import generate
from oracle.generate_claims import generate_claims

#: The fewest cases that together take every branch and meet every exception, as counted by
#: `coverage.py` for each. All the others are for `make test-all`.
FEWEST = {
    "seed-13", "seed-67", "seed-109", "seed-189", "seed-209", "seed-449", "adds-seed-46",
    "weighs-seed-128", "weighs-seed-248", "packs-seed-140", "shapes-seed-262", "spreads-seed-154",
    "spreads-seed-384", "spreads-seed-414", "calm-seed-200", "calm-seed-203", "calm-seed-220",
    "calm-shapes-seed-302", "claims-seed-9", "claims-seed-11", "claims-seed-15", "claims-seed-34",
    "claims-seed-35", "claims-seed-37", "claims-seed-69", "claim-elsewhere",
}  # fmt: skip
#: Together they take every branch, most of them more than once. Odd ones ask the defaults.
SEEDS = (
    1, 13, 20, 21, 33, 45, 46, 54, 56, 67, 81, 82, 87, 99, 105, 109, 115, 127, 128, 134, 140, 154,
    183, 189, 209, 248, 262, 329, 384, 402, 414, 449, 495,
)  # fmt: skip
#: Without any one of the default scores but VolumeBinding, some would be placed elsewhere.
CALM_SEEDS = (200, 203, 204, 207, 210, 213, 219, 220, 222, 230, 232, 233, 235, 290)
#: One of each configuration, where scores decide.
CONFIGURED_CALM_SEEDS = (300, 302, 304, 306, 308)
#: Devices of drivers and resource claims; `bench/oracle.py --claims` runs more.
CLAIM_SEEDS = (8, 9, 11, 15, 22, 25, 32, 34, 35, 37, 44, 45, 52, 69, 75)
CASES = [
    *(generate(seed, scheduler=in_turn(seed)) for seed in SEEDS),
    *(generate(seed, calm=True) for seed in CALM_SEEDS),
    *(generate(seed, scheduler=in_turn(seed), calm=True) for seed in CONFIGURED_CALM_SEEDS),
    *(generate_claims(seed) for seed in CLAIM_SEEDS),
    elsewhere(),
    odd_amounts(),
    tainted_by_rules(),
]


@pytest.fixture
def fewest(results: Results) -> Results:
    """With those cases in it, whichever tests were picked."""
    for case in CASES:
        if case.name in FEWEST:
            results.of(case)
    return results


def param(case: Case) -> ParameterSet:
    return pytest.param(case, id=case.name, marks=() if case.name in FEWEST else pytest.mark.slow)


@pytest.mark.parametrize("case", [param(case) for case in CASES])
def test_both_answer_alike(results: Results, case: Case) -> None:
    found = results.of(case).differences
    told = [shown(case.name, difference) for difference in found]
    assert not told, "\n".join(told)


@pytest.mark.timeout(900)  # alone, it runs each of them
def test_every_branch_is_taken(fewest: Results) -> None:
    unreached = fewest.coverage.unreached()
    assert not unreached, "choose other seeds, or help the generator to get there"


@pytest.mark.timeout(900)
def test_every_exception_occurs(fewest: Results) -> None:
    missing = fewest.coverage.missing_exceptions()
    assert not missing, "an exception that nothing needs is a hole in the net: take it away"
