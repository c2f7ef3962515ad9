"""Readers of traces: what they give, and the sentence for each thing that can be wrong."""

from pathlib import Path

import pytest

from fairlead.sim.traces.errors import TraceError
from fairlead.sim.traces.muri import restart_cost_s
from fairlead.sim.traces.registry import read_traces
from fairlead.sim.traces.trace import SimTrace

MURI = "job_id,num_gpu,submit_time,iterations,model_name,iteration_time\n"
PHILLY = "timestamp,duration,num_gpus,gpu_time,cluster\n"
NODES = "sn,cpu_milli,memory_mib,gpu,model\nn0,64000,262144,2,T4\n"
PODS = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,"
    "creation_time,deletion_time,scheduled_time\n"
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for kind in ("muri", "philly", "openb"):
        (tmp_path / kind).mkdir()
    (tmp_path / "muri" / "trace3.csv").write_text(
        MURI + "1,16,2000,1000,bert,500\n0,2,1000,2000,dqn,100\n"
    )
    (tmp_path / "philly" / "philly.csv").write_text(
        PHILLY + "2017-10-09 07:01:55,66.0,1,66.0,11cb48\n2017-10-09 07:00:55,5,12,60,ee\n"
    )
    (tmp_path / "openb" / "openb_node_list_gpu_node.csv").write_text(NODES)
    (tmp_path / "openb" / "openb_pod_list_default.csv").write_text(
        PODS + "p0,1000,1024,1,460,T4|V100,LS,5,100,7\np1,1000,1024,0,0,,BE,6,9,\n"
    )
    return tmp_path


def read(word: str, data: Path | None = None) -> SimTrace:
    (found,) = read_traces(word, data, (8, 8))
    return found


def test_muri_gives_true_service_times_by_submit_time(folder: Path) -> None:
    trace = read("muri/trace3", folder)
    assert (trace.name, len(trace.nodes)) == ("muri/trace3", 8)
    first, second = trace.jobs
    assert (first.name, first.submit_s, first.gpus, len(first.pods)) == ("job-0", 1.0, 2, 1)
    assert first.run_s == pytest.approx(2000 * 100 * 1.015 / 1000)
    assert (len(second.pods), second.restart_s) == (2, 10)
    assert second.pods[0].gang == second.pods[1].gang or second.pods[0].gang is not None


def test_restarts_cost_what_the_authors_of_muri_measured() -> None:
    assert restart_cost_s("a2c", 1) == 38
    assert restart_cost_s("dqn", 32) == 8
    assert restart_cost_s("unknown", 1) == restart_cost_s("a2c", 3) == 10


def test_philly_counts_from_its_first_job_and_splits_jobs_over_whole_nodes(folder: Path) -> None:
    trace = read("philly", folder)
    assert [(job.submit_s, job.run_s, job.gpus, job.user) for job in trace.jobs] == [
        (0, 5, 12, "ee"), (60, 66, 1, "11cb48"),
    ]  # fmt: skip
    assert [pod.request.gpu_request.gpus for pod in trace.jobs[0].pods] == [8, 4]


def test_openb_has_shares_and_models_and_leaves_out_what_never_ran(folder: Path) -> None:
    (job,) = read("openb", folder).jobs
    assert (job.name, job.submit_s, job.run_s, job.gpus) == ("p0", 5, 93, 0.46)
    asked = job.pods[0].request.gpu_request
    assert (asked.milli, asked.models) == (460, {"T4", "V100"})


def test_equal_jobs_share_their_request(tmp_path: Path) -> None:
    file = tmp_path / "jobs.csv"
    file.write_text("submit_s,run_s,gpus\n0,1,2\n5,1,2\n")
    first, second = read(str(file)).jobs
    assert first.pods[0].request is second.pods[0].request


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_a_plain_file_has_one_job_in_each_line(tmp_path: Path, suffix: str) -> None:
    file = tmp_path / f"jobs.{suffix}"
    file.write_text(
        "name,submit_s,run_s,gpus,gpu_milli,user,cpu_milli\nb,9,3,10,,ann,500\n,2.5,1,1,250,,\n"
        if suffix == "csv"
        else '{"name": "b", "submit_s": 9, "run_s": 3, "gpus": 10, "user": "ann", "cpu_milli": 500}'
        '\n\n{"submit_s": 2.5, "run_s": 1, "gpus": 1, "gpu_milli": 250}\n'
    )
    share, wide = read(str(file)).jobs
    assert (share.name, share.submit_s, share.gpus) == ("job-3", 2.5, 0.25)
    assert (wide.user, wide.gpus, len(wide.pods)) == ("ann", 10, 2)
    assert wide.pods[1].request.amount("cpu") == 500


BAD = {
    "hole": ("1,,1", "line 2: run_s is missing"),
    "negative run time": ("1,-5,1", "line 2: run_s is -5, not within 0 and 3.15576e+09"),
    "negative submit time": ("-1,5,1", "line 2: submit_s is -1, not within"),
    "a century": ("0,4e9,1", "line 2: run_s is 4e9, not within"),
    "no number": ("0,soon,1", "line 2: run_s is 'soon', not a number"),
    "not finite": ("0,nan,1", "line 2: run_s is nan, not within"),
    "half a GPU": ("0,1,0.5", "line 2: gpus is 0.5, not a whole number"),
    "too many GPUs": ("0,1,1e9", "line 2: gpus is 1e9, not within 0 and 100000"),
    "cut off": ("0,1", "line 2: gpus is missing"),
}


@pytest.mark.parametrize(("row", "sentence"), BAD.values(), ids=BAD)
def test_bad_rows_are_named_by_file_and_line(tmp_path: Path, row: str, sentence: str) -> None:
    file = tmp_path / "jobs.csv"
    file.write_text(f"submit_s,run_s,gpus\n{row}\n")
    with pytest.raises(TraceError) as caught:
        read(str(file))
    assert str(caught.value).startswith(f"jobs.csv, {sentence}")
    assert "\n" not in str(caught.value)


def test_other_things_that_can_be_wrong(folder: Path, tmp_path: Path) -> None:
    def problem(word: str, data: Path | None = None) -> str:
        with pytest.raises(TraceError) as caught:
            read(word, data)
        return str(caught.value)

    assert problem("helios") == (
        "unknown trace 'helios'; choose muri, philly, openb, or a .csv or .jsonl file"
    )
    assert problem("muri") == "the trace muri needs --data, the folder that contains muri/"
    assert problem("muri/trace9", folder).startswith("there is no file trace9.csv in")
    assert "cannot be read" in problem("absent.csv")
    file = tmp_path / "jobs.csv"
    file.write_text("submit,run_s\n")
    assert problem(str(file)) == "jobs.csv has no column submit_s, gpus in its first line"
    file.write_text("name,submit_s,run_s,gpus\na,0,1,1\na,0,1,1\n")
    assert problem(str(file)) == "jobs.csv, line 3: another job has the name a"
    file.write_bytes(b"submit_s,run_s,gpus\n\xff\xfe\n")
    assert "cannot be read" in problem(str(file))
    lines = tmp_path / "jobs.jsonl"
    lines.write_text('{"submit_s": 0, "run_s": 1, "gpus": 1}\n{"submit_s": 0, "ru')
    assert problem(str(lines)) == "jobs.jsonl, line 2: this is no JSON object"
    (folder / "philly" / "philly.csv").write_text(PHILLY + "yesterday,66.0,1,66.0,x\n")
    assert problem("philly", folder) == "philly.csv, line 2: timestamp is 'yesterday', not a time"
    pods = folder / "openb" / "openb_pod_list_default.csv"
    pods.write_text(PODS + "p0,1,1,1,460,,LS,5,6,7\n")
    assert problem("openb", folder).endswith("line 2: deletion_time is before scheduled_time")
