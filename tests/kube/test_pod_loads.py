"""What a pod says of its load is understood, or refused with what to write."""

import json

import pytest

from fairlead.kube.codec import decode_pod
from fairlead.model.loads import PodLoad


def a_pod(annotations: dict[str, str], node: str = ""):
    meta = {"name": "p", "namespace": "default", "uid": "u", "annotations": annotations}
    spec = {"containers": [{"name": "main", "resources": {}}], "nodeName": node}
    return decode_pod(json.dumps({"metadata": meta, "spec": spec}).encode())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0.6", PodLoad(0.6)),
        ("0", PodLoad(0.0)),
        ("0.61", PodLoad(0.6)),
        ("cyclic", PodLoad(cyclic=True)),
        ("bursty", PodLoad(cyclic=False)),
        ("0.3  cyclic", PodLoad(0.3, cyclic=True)),
        ("bursty 1", PodLoad(1.0, cyclic=False)),
    ],
)
def test_a_load_is_a_share_a_rhythm_or_both(text, expected):
    pod = a_pod({"fairlead.dev/gpu-load": text})
    assert (pod.load, pod.problem) == (expected, "")


@pytest.mark.parametrize("text", ["", "1.1", "-0.1", "nan", "60%", "wild", "0.1 0.2", "cyclic x"])
def test_what_is_no_load_is_refused_with_what_to_write(text):
    pod = a_pod({"fairlead.dev/gpu-load": text})
    assert pod.load is None
    assert pod.problem == (
        f"the pod is invalid: fairlead.dev/gpu-load is {text!r}; write a share of the "
        "time from 0 to 1 such as 0.6, cyclic or bursty, or both such as 0.6 cyclic"
    )


def test_a_bound_pod_is_not_blamed_for_what_it_says():
    assert a_pod({"fairlead.dev/gpu-load": "wild"}, node="n1").problem == ""


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        ({"alnair.centaurusinfra.io/gpu_util": "66"}, PodLoad(0.65)),
        (
            {
                "ai.centaurus.io/n1-gpu-0_util": "20",
                "ai.centaurus.io/n1-gpu-1_util": "40",
                "ai.centaurus.io/n1-gpu-1_mem_mb": "11094",
                "ai.centaurus.io/n1-gpu-1_mem_bw_util": "90",
            },
            PodLoad(0.4, memory_mib=11094.0),
        ),
        ({"alnair.centaurusinfra.io/gpu_util": "{'0': 66}"}, None),
        ({"alnair.centaurusinfra.io/gpu_util": "166"}, None),
        ({"ai.centaurus.io/timestamp": "2022-01-01 00:00:00"}, None),
        (
            {"alnair.centaurusinfra.io/gpu_util": "66", "fairlead.dev/gpu-load": "0.1"},
            PodLoad(0.1),
        ),
    ],
)
def test_what_alnairs_profiler_noted_is_believed_where_the_pod_says_nothing(annotations, expected):
    pod = a_pod(annotations)
    assert (pod.load, pod.problem) == (expected, "")
