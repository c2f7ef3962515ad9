"""What Alnair's profiler noted, in all of its versions, and what others might write there."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.model.readings import GpuReading
from fairlead.telemetry.sources import ReadCounts
from fairlead.telemetry.sources.alnair import (
    LASTS_S,
    Annotations,
    gpu_reading,
    node_gpus,
)

V03 = (
    "{'mem_used': '11GB', 'mem_free': '1GB', 'process_cnt': 1, 'pid-mem': [(18477, '11094MB')], "
    "'cyclic_pattern': True, 'period': '12', 'max_mem_util': 66, 'max_gpu_util': 93}"
)
V04 = (
    "{'mem_used': '11GB', 'mem_free': '1GB', 'process_cnt': 0, 'pid-mem': [], "
    "'cyclic_pattern': False, 'max_mem_bw_util': 66, 'max_gpu_util': 93}"
)


def test_a_gpu_of_the_second_and_third_version() -> None:
    assert gpu_reading(V03) == GpuReading(0.93, 0.66, 11094, cyclic=True)


def test_a_gpu_of_the_fourth_version() -> None:
    assert gpu_reading(V04) == GpuReading(0.93, 0.66, 11 * 1024, cyclic=False)


def test_values_that_cannot_be_are_left_out() -> None:
    text = "{'max_gpu_util': 930, 'max_mem_util': -1, 'mem_used': 'much', 'cyclic_pattern': 'yes'}"
    assert gpu_reading(text) == GpuReading()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[1]",
        "__import__('os').system('true')",
        "{'max_gpu_util': open('/etc/passwd')}",
        "(" * 5000,
        "-" * 5000 + "1",
        "- ~" * 3000 + "1",
        "{'a': " * 100 + "1" + "}" * 100,
        "{'max_gpu_util': 1" + "0" * 20_000 + "}",
        "{" + "'a': 1," * 20_000 + "}",
        "not " * 4000 + "1",
        "\0",
    ],
    ids=range(13),
)
def test_what_is_no_literal_of_a_profiler_is_not_read(text: str) -> None:
    assert gpu_reading(text) is None


@settings(deadline=None)
@given(st.text("{}[]()'\"-~+, 019:a\\\n#", max_size=60))
def test_no_text_does_harm(text: str) -> None:
    gpu_reading(text)


def test_a_node_s_gpus_are_told_apart_from_its_other_annotations() -> None:
    counts = ReadCounts()
    annotations = {
        "ai.centaurus.io/gpu-static": "{'count': '2', 'model': 'Tesla K80', 'mem_size': '12GB'}",
        "ai.centaurus.io/gpu-0": V03,
        "ai.centaurus.io/gpu-1": "broken",
        "ai.centaurus.io/physical-gpu-count": "2",
        "other.io/gpu-2": V04,
    }
    assert list(node_gpus(annotations, counts)) == ["0"]
    assert counts.rejected == {"unreadable": 1}


async def test_a_profiler_that_fell_silent_is_left_to_fade() -> None:
    now_s = [100.0]
    source = Annotations(clock=lambda: now_s[0])
    source.put("n1", {"ai.centaurus.io/gpu-0": V03, "ai.centaurus.io/gpu-1": V04})

    async def gpus(nodes: dict[str, str]) -> list[tuple[float, list[str]]]:
        return [(told.taken_s, list(told.gpus)) async for told in source.take(nodes, ReadCounts())]

    assert await gpus({"n1": ""}) == [(100.0, ["0", "1"])]
    now_s[0] += LASTS_S - 1
    # One GPU that changes shows that the profiler lives, and the other's word holds.
    source.put("n1", {"ai.centaurus.io/gpu-0": V04, "ai.centaurus.io/gpu-1": V04})
    now_s[0] += 5
    assert await gpus({"n1": ""}) == [(now_s[0], ["0", "1"])]
    now_s[0] += LASTS_S
    source.put("n1", {"ai.centaurus.io/gpu-0": V04, "ai.centaurus.io/gpu-1": V04})
    assert await gpus({"n1": ""}) == []


async def test_a_node_that_is_gone_or_has_no_notes_any_more_is_forgotten() -> None:
    source = Annotations()
    for node in ("n1", "n2"):
        source.put(node, {"ai.centaurus.io/gpu-0": V03})
    source.put("n2", {})
    assert [told async for told in source.take({"n2": ""}, ReadCounts())] == []
    assert [told async for told in source.take({"n1": "", "n2": ""}, ReadCounts())] == []
