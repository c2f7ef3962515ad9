"""Answers about claims that are kept."""

import numpy as np

from fairlead.cluster.changes import NEVER
from fairlead.cluster.claim_answers import BegunLook, KeptAnswers
from fairlead.model.claim_uses import ClaimUse

ROWS = 4


def test_looks_that_never_end_leave_room_for_others() -> None:
    kept = KeptAnswers()
    none = np.zeros(ROWS, dtype=np.bool_)
    for number in range(200):
        found = kept.of((ClaimUse(str(number), ""),), ROWS)
        found.begun = BegunLook(none, none, NEVER, turns=1, steps=1)
    uses = [(ClaimUse(f"other-{number}", ""),) for number in range(30)]
    answers = [kept.of(each, ROWS) for each in uses]

    assert all(kept.of(use, ROWS) is its for use, its in zip(uses, answers, strict=True))
