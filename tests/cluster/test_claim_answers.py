"""Answers about claims that are kept."""

import numpy as np

from fairlead.cluster.aspects import Aspect
from fairlead.cluster.changes import NEVER, ChangeLog
from fairlead.cluster.claim_answers import UNKNOWN, BegunLook, KeptAnswers
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


def test_what_gpus_of_a_node_are_used_for_is_forgotten_when_the_node_changes() -> None:
    log, answers = ChangeLog(), KeptAnswers().of((ClaimUse("c", ""),), ROWS)
    answers.follow(log)
    answers.in_use[:] = 1
    log.add(2, Aspect.USAGE)
    answers.follow(log)
    assert answers.in_use.tolist() == [1, 1, UNKNOWN, 1]

    answers.in_use[:] = 1
    answers.follow(log)
    assert answers.in_use.tolist() == [1] * ROWS, "nothing has changed since"
    log.start_over()
    answers.follow(log)
    assert answers.in_use.tolist() == [UNKNOWN] * ROWS
