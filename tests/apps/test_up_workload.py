"""Workload files: what is wrong gets one line that names the place."""

import pytest

from fairlead.apps.up import workload as up_workload
from fairlead.model.errors import ConfigError


def test_the_workload_that_comes_along_can_be_read():
    workload = up_workload.default()
    assert {stream.kind for stream in workload.streams} == {"Pod", "StatefulSet", "Job"}
    assert workload.load == 0.8


def test_teams_ask_for_more_than_there_is_and_each_stream_has_a_queue():
    workload = up_workload.teams()
    leaves = {queue.name for queue in workload.queues if queue.parent}
    assert {stream.queue for stream in workload.streams} == leaves
    assert sum(queue.guaranteed for queue in workload.queues if queue.parent) <= 1
    assert workload.load > 1


def test_a_file_needs_little():
    workload = up_workload.parse("streams: [{name: a}]")
    assert (workload.streams[0].gpus, workload.streams[0].run_for) == (1, "30s")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "streams: [{name: a, gpuz: 3}]",
            "unknown key 'gpuz' at $.streams[0]; did you mean 'gpus'?",
        ),
        ("streams: [{name: a, run-for: 3s}]", "did you mean 'runFor'?"),
        (
            "streams: [{name: a, colour: red}]",
            "known keys are cpu, deviceClass, ",
        ),
        ("streamz: []", "unknown key 'streamz'; did you mean 'streams'?"),
        ("{}", "missing required field streams"),
        ("", "missing required field streams"),
        ("streams: []", "streams is empty; name at least one"),
        ("[]", "Expected object, got array"),
        ("streams: [{name: a, gpus: many}]", "at $.streams[0].gpus; write a whole number"),
        ("streams: [{name: a, gpus: -1}]", "at $.streams[0].gpus"),
        ("streams: [{name: a, kind: Deployment}]", "at $.streams[0].kind; choose Pod, Stateful"),
        ("streams: [{name: A_b}]", "at $.streams[0].name"),
        ("streams: [{name: a, runFor: soon}]", "'soon' is no length of time"),
        ("streams: [{name: a, runFor: 9s-3s}]", "a range goes upwards, at $.streams[0]"),
        ("streams: [{name: a, every: 0s}]", "every must be longer than nothing"),
        ("streams: [{name: a}, {name: a}]", "two streams are called 'a'; rename one"),
        ("streams: [{name: a, queue: b}]", "there is no queue 'b'; add it to queues"),
        (
            "queues: [{name: b, guarantee: 1}]\nstreams: [{name: a}]",
            "unknown key 'guarantee' at $.queues[0]; did you mean 'guaranteed'?",
        ),
        (
            "queues: [{name: b, limit: 9}]\nstreams: [{name: a}]",
            "at $.queues[0].limit; write a share of all GPUs such as 0.5",
        ),
        ("kind: SchedulerConfiguration\nstreams: [{name: a}]", "at $.kind"),
        ("load: 99\nstreams: [{name: a}]", "at $.load"),
        ("streams: [", "this is not valid YAML"),
        ("a: &a [1]\nb: *a", "aliases are not supported"),
        ("x" * (1 << 21), "larger than 1 MiB"),
    ],
)
def test_a_bad_file_gets_one_clear_line(text, said, tmp_path):
    path = tmp_path / "workload.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        up_workload.read(path)
    message = str(caught.value)
    assert said in message
    assert message.startswith(f"{path}: ")
    assert "\n" not in message


def test_a_file_that_is_not_there_is_said_so(tmp_path):
    with pytest.raises(ConfigError, match=r"cannot read the workload .*No such file"):
        up_workload.read(tmp_path / "none.yaml")
