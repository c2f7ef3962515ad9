"""What pods declare about how long they run is understood, or ignored with one sentence."""

import json

import pytest

from fairlead.kube.codec import decode_pod
from fairlead.model.pods import Pod
from fairlead.model.run_times import RunTime

RUN_TIME, LIMIT = "fairlead.dev/run-time", "fairlead.dev/time-limit"
SLURM, KUEUE = "slurmjob.slinky.slurm.net/timelimit", "kueue.x-k8s.io/max-exec-time-seconds"


def a_pod(
    annotations: dict[str, str] | None = None,
    labels: dict[str, str] | None = None,
    deadline_s: int | None = None,
) -> Pod:
    meta = {"name": "p", "namespace": "default", "uid": "u"}
    meta |= {"annotations": annotations, "labels": labels}
    spec = {"containers": [{"name": "main", "resources": {}}]}
    spec |= {"activeDeadlineSeconds": deadline_s}
    return decode_pod(json.dumps({"metadata": meta, "spec": spec}).encode())


@pytest.mark.parametrize(
    ("word", "seconds"),
    [("90m", 5400.0), ("2h30m", 9000.0), ("5400", 5400.0), ("1d", 86400.0), ("1.5h", 5400.0)],
)
def test_an_estimate_is_a_duration_or_seconds(word: str, seconds: float) -> None:
    assert a_pod({RUN_TIME: word}).run_time == RunTime(seconds, None, "annotation")


@pytest.mark.parametrize(
    ("word", "fault"),
    [
        ("0", "it must be longer than 0"),
        ("0s", "it must be longer than 0"),
        ("-5m", "it must be longer than 0"),
        ("36500d", "it must be at most 366 days"),
        ("9" * 60, "it must be at most 366 days"),
        ("soon", "write a duration such as 90m, 2h30m or 5400 (seconds)"),
        ("", "write a duration such as 90m, 2h30m or 5400 (seconds)"),
        ("9" * 1000, "write a duration such as 90m, 2h30m or 5400 (seconds)"),
        ("1e9", "write a duration such as 90m, 2h30m or 5400 (seconds)"),
        ("nan", "write a duration such as 90m, 2h30m or 5400 (seconds)"),
        ("٣m", "write a duration such as 90m, 2h30m or 5400 (seconds)"),
    ],
)
def test_what_is_no_run_time_is_ignored_with_one_sentence(word: str, fault: str) -> None:
    sentence = f"{RUN_TIME} is {word[:32]!r} and is ignored: {fault}"
    pod = a_pod({RUN_TIME: word})
    assert (pod.run_time, pod.problem) == (RunTime(problem=sentence), "")


def test_a_pod_that_says_nothing_has_none() -> None:
    assert a_pod({"note": "x"}, {"app": "y"}).run_time is None


def test_a_kubelet_enforces_the_deadline_of_a_pod() -> None:
    assert a_pod(deadline_s=600).run_time == RunTime(None, 600.0, "pod activeDeadlineSeconds")


def test_an_estimate_and_a_bound_are_kept_apart() -> None:
    both = RunTime(300.0, 600.0, "annotation and pod activeDeadlineSeconds")
    assert a_pod({RUN_TIME: "5m"}, deadline_s=600).run_time == both
    assert both.expected_s == 300.0
    assert RunTime(900.0, 600.0).expected_s == 600.0


def test_the_limit_of_kueue_is_read_from_the_label() -> None:
    assert a_pod(labels={KUEUE: "120"}).run_time == RunTime(None, 120.0, "kueue")
    assert a_pod(labels={KUEUE: "120"}, deadline_s=60).run_time == RunTime(
        None, 60.0, "pod activeDeadlineSeconds"
    )


def test_a_limit_that_is_only_declared_is_not_enforced() -> None:
    assert a_pod({LIMIT: "2h"}).run_time == RunTime(None, 7200.0, "time limit", enforced=False)
    assert a_pod({SLURM: "5"}).run_time == RunTime(None, 300.0, "slurm", enforced=False)


def test_a_limit_that_is_enforced_counts_before_one_that_is_declared() -> None:
    assert a_pod({LIMIT: "1m"}, deadline_s=600).run_time == RunTime(
        None, 600.0, "pod activeDeadlineSeconds"
    )


@pytest.mark.parametrize(("key", "word"), [(SLURM, "01:00"), (SLURM, "0"), (LIMIT, "never")])
def test_a_wrong_limit_is_ignored_with_one_sentence(key: str, word: str) -> None:
    found = a_pod({key: word}).run_time
    assert found is not None
    assert found.bound_s is None
    assert found.problem.startswith(f"{key} is {word!r} and is ignored: ")


def test_a_wrong_label_of_kueue_is_ignored_with_one_sentence() -> None:
    found = a_pod(labels={KUEUE: "-1"}).run_time
    assert found == RunTime(problem=f"{KUEUE} is '-1' and is ignored: it must be longer than 0")
