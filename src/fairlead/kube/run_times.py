"""What a pod declares about how long it runs.

| Where | Kind | Ended by |
|---|---|---|
| annotation `fairlead.dev/run-time` | estimate | - |
| annotation `fairlead.dev/time-limit` | bound | nothing |
| annotation `slurmjob.slinky.slurm.net/timelimit`, in minutes | bound | nothing |
| label `kueue.x-k8s.io/max-exec-time-seconds` | bound | Kueue |
| `spec.activeDeadlineSeconds` | bound | its kubelet |
"""

from collections.abc import Mapping

from fairlead.model.run_times import (
    ANNOTATION,
    KUEUE,
    LIMIT,
    POD_DEADLINE,
    RUN_TIME,
    SLURM,
    TIME_LIMIT,
    RunTime,
    checked_s,
    duration_s,
)

SLURM_LIMIT = "slurmjob.slinky.slurm.net/timelimit"
KUEUE_LIMIT = "kueue.x-k8s.io/max-exec-time-seconds"
_NO_WORDS: Mapping[str, str] = {}

#: Bounds that no component enforces, then those that one does.
_DECLARED = ((TIME_LIMIT, LIMIT, 1.0), (SLURM_LIMIT, SLURM, 60.0))


def read_run_time(
    labels: Mapping[str, str] | None, annotations: Mapping[str, str] | None, deadline_s: int | None
) -> RunTime | None:
    """None if nothing is declared, which is so of nearly all pods."""
    said, marked = annotations or _NO_WORDS, labels or _NO_WORDS
    if deadline_s is None and KUEUE_LIMIT not in marked and not _concerns(said):
        return None
    estimate, problem = _estimate(said)
    bound, odd = _enforced(marked, deadline_s)
    if bound is None:
        bound, wrong = _unenforced(said)
        odd = odd or wrong
    limit_s, source, enforced = bound or (None, "", True)
    sources = (ANNOTATION if estimate else "", source)
    source = " and ".join(each for each in sources if each)
    return RunTime(estimate, limit_s, source, enforced, problem or odd)


def _concerns(said: Mapping[str, str]) -> bool:
    return RUN_TIME in said or TIME_LIMIT in said or SLURM_LIMIT in said


def _estimate(said: Mapping[str, str]) -> tuple[float | None, str]:
    word = said.get(RUN_TIME)
    return (None, "") if word is None else checked_s(RUN_TIME, word, duration_s(word))


_Bound = tuple[float, str, bool]


def _enforced(marked: Mapping[str, str], deadline_s: int | None) -> tuple[_Bound | None, str]:
    """The shortest bound that a component enforces."""
    found = [] if deadline_s is None else [(float(deadline_s), POD_DEADLINE, True)]
    word, problem = marked.get(KUEUE_LIMIT), ""
    if word is not None:
        limit_s, problem = checked_s(KUEUE_LIMIT, word, _whole(word))
        found += [] if limit_s is None else [(limit_s, KUEUE, True)]
    return min(found, default=None), problem


def _unenforced(said: Mapping[str, str]) -> tuple[_Bound | None, str]:
    """The shortest bound that is only declared."""
    found, problem = [], ""
    for key, source, unit_s in _DECLARED:
        word = said.get(key)
        if word is None:
            continue
        length = duration_s(word) if key == TIME_LIMIT else _whole(word)
        limit_s, odd = checked_s(key, word, None if length is None else length * unit_s)
        problem = problem or odd
        found += [] if limit_s is None else [(limit_s, source, False)]
    return min(found, default=None), problem


def _whole(word: str) -> float | None:
    return float(word) if len(word) <= 18 and word.isascii() and word.isdigit() else None
