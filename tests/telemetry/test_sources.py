"""What each source makes of the formats that are published, and of nonsense in them."""

import gzip
import math
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exporters import Exporter, dcgm_text, exporting
from fairlead.model.readings import GpuReading, NodeReadings
from fairlead.telemetry.sources import ReadCounts, SourceFault, SourcePlan, dcgm, make
from fairlead.telemetry.sources.agent import AGENT
from fairlead.telemetry.sources.alnair import ALNAIR
from fairlead.telemetry.sources.dcgm import DCGM
from fairlead.telemetry.sources.exposition import LineBuffer, Scanner
from fairlead.telemetry.sources.formats import ExporterFormat
from fairlead.telemetry.sources.gathering import NodeNames, ReadingCollector, SourceState

FIXTURES = Path(__file__).parents[1] / "fixtures" / "telemetry"
UUID = "GPU-5fd4f087-86f3-7a43-b711-4771313afc5"
NODES = {"gpu-a": "10.0.0.1", "gpu-b": "10.0.0.2"}


@pytest.fixture
def exporter() -> Iterator[Exporter]:
    with exporting() as served:
        yield served


def gathered(
    dialect: ExporterFormat,
    text: bytes,
    counts: ReadCounts,
    asked: str | None = "gpu-a",
    memory: SourceState | None = None,
    now_s: float = 1000.0,
) -> list[NodeReadings]:
    gathering = ReadingCollector(dialect, memory or SourceState(), NodeNames(NODES), asked)
    pieces = LineBuffer(Scanner(dialect.series), gathering.put)
    pieces.put(text)
    pieces.end()
    return list(gathering.readings("test", counts, now_s))


def told(dialect: ExporterFormat, name: str, asked: str | None = "gpu-a") -> NodeReadings:
    (found,) = gathered(dialect, (FIXTURES / name).read_bytes(), ReadCounts(), asked)
    return found


# -- formats ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("asked", ["gpu-a", None], ids=["of the node", "of one address"])
def test_dcgm(asked: str | None) -> None:
    found = told(DCGM, "dcgm.txt", asked)
    busy = GpuReading(0.97, 0.41, 60987, 512.34, 61, 1000 * 1024_000)
    gpus = {
        f"{UUID}0": busy._replace(place=0),
        f"{UUID}1": GpuReading(0.0, 0.0, 3, 68.1, 33, 0.0, place=1),
    }
    expected = NodeReadings("gpu-a", 1000.0, gpus, {"team-a/train-0": busy}, "test")
    assert comparable([found]) == comparable([expected])


@pytest.mark.parametrize("asked", ["gpu-a", None])
def test_slices_add_up_to_their_gpu(asked: str | None) -> None:
    ((uuid, gpu),) = told(DCGM, "dcgm-mig.txt", asked).gpus.items()
    assert uuid == f"{UUID}0"
    assert gpu.memory_used_mib == 35000
    assert gpu.utilisation == pytest.approx(0.7 * 3 / 7 + 0.35 * 1 / 7)


def test_the_name_of_a_slice_may_be_of_any_length() -> None:
    """More digits than an int may have end nothing."""
    labels = {"UUID": "GPU-0", "GPU_I_ID": "1", "GPU_I_PROFILE": "1" * 5000 + "g.5gb"}
    found = dcgm.whose(labels)
    assert found is not None
    assert found.gpu == "GPU-0"


@pytest.mark.parametrize("asked", ["gpu-a", None])
def test_the_agent_tells_how_old_its_readings_are(asked: str | None) -> None:
    found = told(AGENT, "agent.txt", asked)
    assert found.taken_s == 1000.0 - 7.5
    assert found.gpus == {"GPU-0": GpuReading(0.97, 0.41, 60987, 512.3, 61, place=0)}
    assert found.pods == {"team-a/train-0": GpuReading(0.9, memory_used_mib=50000)}


@pytest.mark.parametrize("asked", ["gpu-a", None])
def test_processes_of_alnairs_exporter_add_up_to_their_gpu(asked: str | None) -> None:
    assert told(ALNAIR, "alnair.txt", asked).gpus["GPU-0"].utilisation == pytest.approx(0.65)


def test_the_pod_is_the_one_that_prometheus_renamed() -> None:
    own = (
        'namespace="monitoring",pod="dcgm-exporter-x",exported_namespace="team-a",exported_pod="t"'
    )
    text = f'DCGM_FI_DEV_GPU_UTIL{{gpu="0",UUID="GPU-0",Hostname="gpu-a",{own}}} 50\n'
    (found,) = gathered(DCGM, text.encode(), ReadCounts())
    assert list(found.pods) == ["team-a/t"]


def test_a_counter_is_read_as_a_rate_from_the_second_time_on() -> None:
    def text(sent: int, received: int) -> bytes:
        gpu = 'fairlead_gpu_nvlink_bytes_total{node="gpu-a",uuid="GPU-0",gpu="0",direction='
        return f'{gpu}"tx"}} {sent}\n{gpu}"rx"}} {received}\n'.encode()

    memory = SourceState()
    (first,) = gathered(AGENT, text(10, 5), ReadCounts(), memory=memory)
    assert first.gpus == {}
    (second,) = gathered(AGENT, text(30, 35), ReadCounts(), memory=memory, now_s=1010.0)
    assert second.gpus["GPU-0"].nvlink_bytes_s == pytest.approx(2 + 3)
    (anew,) = gathered(AGENT, text(0, 0), ReadCounts(), memory=memory, now_s=1020.0)
    assert anew.gpus == {}


def test_an_exemplar_is_no_part_of_the_value() -> None:
    text = b'DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-0"} 50 # {id="x"} 0.67\n'
    (found,) = gathered(DCGM, text, ReadCounts())
    assert found.gpus["GPU-0"].utilisation == pytest.approx(0.5)


# -- whose it is -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "asked", "believed"),
    [
        ("gpu-a", "gpu-a", "gpu-a"),
        ("gpu-b", "gpu-a", None),  # a node speaks for itself alone
        ("dcgm-exporter-x7k2p", "gpu-a", "gpu-a"),  # older exporters tell the name of their pod
        ("gpu-b", None, "gpu-b"),
        ("gpu-b.example.com", None, "gpu-b"),
        ("10.0.0.2:9400", None, "gpu-b"),
        ("nobody", None, None),
        ("", None, None),
    ],
)
def test_which_node_a_series_belongs_to(said: str, asked: str | None, believed: str | None) -> None:
    counts = ReadCounts()
    text = f'DCGM_FI_DEV_GPU_UTIL{{gpu="0",UUID="GPU-0",Hostname="{said}"}} 50\n'.encode()
    found = gathered(DCGM, text, counts, asked)
    assert [each.node for each in found] == ([believed] if believed else [])
    if not believed:
        assert counts.rejected == {"another node" if asked else "unknown node": 1}


def test_series_of_another_node_do_not_hide_those_after_them() -> None:
    counts = ReadCounts()
    line = 'DCGM_FI_DEV_GPU_UTIL{{gpu="0",UUID="{}",Hostname="{}"}} 50\n'
    text = line.format("GPU-0", "gpu-b") + line.format("GPU-1", "gpu-a")
    (found,) = gathered(DCGM, text.encode(), counts)
    assert (found.node, list(found.gpus)) == ("gpu-a", ["GPU-1"])
    assert counts.rejected == {"another node": 1}


def test_a_node_has_no_more_gpus_than_a_machine_can_have() -> None:
    counts = ReadCounts()
    lines = (f'DCGM_FI_DEV_GPU_UTIL{{gpu="0",UUID="GPU-{n}"}} 50\n' for n in range(1000))
    (found,) = gathered(DCGM, "".join(lines).encode(), counts)
    assert len(found.gpus) == 256
    assert counts.rejected == {"too many GPUs": 744}


# -- nonsense --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("NaN", "not a number"),
        ("-1", "negative"),
        ("9000", "too much"),
        ("+Inf", "too much"),
        ("much", "not a number"),
    ],
)
def test_values_that_cannot_be(said: str, why: str) -> None:
    counts = ReadCounts()
    gpu = '{gpu="0",UUID="GPU-0"}'
    text = f"DCGM_FI_DEV_GPU_UTIL{gpu} {said}\nDCGM_FI_DEV_FB_USED{gpu} 7\n"
    (found,) = gathered(DCGM, text.encode(), counts)
    assert found.gpus["GPU-0"] == GpuReading(memory_used_mib=7, place=0)
    assert (counts.rejected, counts.believed) == ({why: 1}, 1)


def test_bytes_in_place_of_mib_cannot_be() -> None:
    counts = ReadCounts()
    gathered(
        DCGM, f'DCGM_FI_DEV_FB_USED{{gpu="0",UUID="GPU-0"}} {60987 * 2**20}\n'.encode(), counts
    )
    assert counts.rejected == {"too much": 1}


def test_of_a_series_told_twice_the_first_counts() -> None:
    counts = ReadCounts()
    line = 'DCGM_FI_DEV_GPU_UTIL{{gpu="0",UUID="GPU-0"}} {}\n'
    (found,) = gathered(DCGM, (line.format(10) + line.format(90)).encode(), counts)
    assert found.gpus["GPU-0"].utilisation == pytest.approx(0.1)
    assert counts.rejected == {"twice": 1}


def test_the_clock_of_an_exporter_is_believed_into_the_past_only() -> None:
    def taken(age_s: float, counts: ReadCounts) -> list[NodeReadings]:
        stamp = round((time.time() - age_s) * 1000)
        text = f'DCGM_FI_DEV_GPU_UTIL{{gpu="0",UUID="GPU-0"}} 50 {stamp}\n'.encode()
        return gathered(DCGM, text, counts, now_s=time.monotonic())

    (past,), (future,) = taken(100, ReadCounts()), taken(-100, ReadCounts())
    assert past.taken_s < time.monotonic() - 99
    assert future.taken_s == pytest.approx(time.monotonic(), abs=50)
    counts = ReadCounts()
    assert taken(1000, counts) == []
    assert counts.rejected == {"old": 1}


_values = st.one_of(
    st.floats(0, 100), st.sampled_from([math.nan, -1.0, 101.0, 100.5, 1e30]), st.integers(0, 100)
)
_lines = st.lists(
    st.tuples(
        st.sampled_from(sorted(DCGM.series)),
        st.integers(0, 2),
        st.sampled_from(["", "1g.10gb", "3g.40gb"]),
        st.sampled_from(["", "p", "q"]),
        _values,
    ),
    max_size=12,
)


@settings(deadline=None)
@given(_lines)
def test_a_known_layout_is_read_as_line_by_line(lines: list[tuple]) -> None:
    """The second way of reading must say what the first says, or leave it to it."""
    text = "".join(
        f'{name}{{gpu="{gpu}",UUID="GPU-{gpu}"'
        + (f',GPU_I_ID="{len(cut)}{gpu}",GPU_I_PROFILE="{cut}"' if cut else "")
        + (f',namespace="n",pod="{pod}"' if pod else "")
        + f"}} {value}\n"
        for name, gpu, cut, pod, value in lines
    ).encode()
    slow_tally, fast_tally = ReadCounts(), ReadCounts()
    slow = ReadingCollector(DCGM, SourceState(), NodeNames(NODES), "gpu-a")
    pieces = LineBuffer(Scanner(DCGM.series), slow.put)
    pieces.put(text)
    pieces.end()
    by_line = list(slow._read_lines("test", slow_tally, 1000.0))
    by_layout = gathered(DCGM, text, fast_tally)
    assert comparable(by_layout) == comparable(by_line)
    assert fast_tally.rejected == slow_tally.rejected


def comparable(readings: list[NodeReadings]) -> list:
    def values(reading: GpuReading) -> tuple:
        return tuple(
            value if value is None else pytest.approx(value)
            for value in (getattr(reading, name) for name in GpuReading.__slots__)
        )

    return [
        (
            r.node,
            {k: values(c) for k, c in r.gpus.items()},
            {k: values(p) for k, p in r.pods.items()},
        )
        for r in readings
        if r.gpus or r.pods
    ]


# -- over the wire ---------------------------------------------------------------------------------


async def take(
    plan: SourcePlan, nodes: dict[str, str] | None = None
) -> tuple[list[NodeReadings], ReadCounts]:
    source, counts = make(plan), ReadCounts()
    return [each async for each in source.take(nodes or NODES, counts)], counts


def a_plan(exporter: Exporter, **more: object) -> SourcePlan:
    return SourcePlan("dcgm", "dcgm", **{"url": exporter.url, "timeout_s": 60.0, **more})  # type: ignore[arg-type]


async def test_each_node_is_asked_at_its_address(exporter: Exporter) -> None:
    exporter.text = dcgm_text({"": {0: 50}})
    url = f"http://{{address}}:{exporter.port}/of/{{node}}"
    nodes = {"gpu-a": "127.0.0.1", "gpu-b": "127.0.0.1", "gpu-c": ""}
    found, counts = await take(a_plan(exporter, url=url), nodes)
    assert sorted(each.node for each in found) == ["gpu-a", "gpu-b"]
    assert sorted(exporter.asked) == ["/of/gpu-a", "/of/gpu-b"]
    assert (counts.asked, counts.failed, counts.rejected) == (2, 0, {"no address": 1})


async def test_a_node_that_is_away_costs_only_itself(exporter: Exporter) -> None:
    exporter.text = dcgm_text({"": {0: 50}})
    url = f"http://{{address}}:{exporter.port}/metrics"
    nodes = {"gpu-a": "127.0.0.1", "gpu-b": "no-such-host.invalid"}
    found, counts = await take(a_plan(exporter, url=url), nodes)
    assert [each.node for each in found] == ["gpu-a"]
    assert (counts.asked, counts.failed) == (2, 1)
    assert counts.problem.startswith("gpu-b: cannot connect")


async def test_a_packed_answer_is_unpacked(exporter: Exporter) -> None:
    exporter.text = gzip.compress(dcgm_text({"gpu-a": {0: 50}}))
    exporter.headers = {"Content-Encoding": "gzip"}
    ((found,), _) = await take(a_plan(exporter))
    assert found.gpus["GPU-gpu-a-0"].utilisation == pytest.approx(0.5)


async def refused(plan: SourcePlan) -> str:
    with pytest.raises(SourceFault) as fault:
        await take(plan)
    return str(fault.value)


async def test_a_bomb_is_not_unpacked_to_its_end(
    exporter: Exporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fairlead.telemetry.sources.scrape.MOST_BYTES", 2**20)
    exporter.text = gzip.compress(b"x" * 2**26)
    exporter.headers = {"Content-Encoding": "gzip"}
    assert await refused(a_plan(exporter)) == "the answer is longer than 1048576 bytes"


async def test_nothing_may_follow_a_packed_answer(exporter: Exporter) -> None:
    """Whatever follows would be kept in memory, and nothing is unpacked from it."""
    exporter.text = gzip.compress(dcgm_text({"gpu-a": {0: 50}})) + b"x" * 2**16
    exporter.headers = {"Content-Encoding": "gzip"}
    said = await refused(a_plan(exporter))
    assert said == "the compressed answer is followed by something else"


async def test_an_answer_of_which_nothing_is_unpacked_is_given_up(
    exporter: Exporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fairlead.telemetry.sources.scrape.MOST_BYTES", 2**10)
    empty = b"\x00\x00\x00\xff\xff"
    exporter.text = gzip.compress(b"")[:10] + 300_000 * empty
    exporter.headers = {"Content-Encoding": "gzip"}
    assert await refused(a_plan(exporter)) == "the answer is longer than 1024 bytes"


async def test_headers_that_never_end_are_given_up(
    exporter: Exporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fairlead.telemetry.sources.scrape.MOST_BYTES", 2**10)
    exporter.headers = {f"X-{number}": "x" * 2**15 for number in range(64)}
    assert await refused(a_plan(exporter)) == "the answer is longer than 1024 bytes"


async def test_an_answer_beyond_the_limit_is_given_up(
    exporter: Exporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fairlead.telemetry.sources.scrape.MOST_BYTES", 2**10)
    exporter.text = b"#" * 2**11
    assert await refused(a_plan(exporter)) == "the answer is longer than 1024 bytes"


async def test_a_redirect_is_not_followed(exporter: Exporter) -> None:
    exporter.status, exporter.headers = 302, {"Location": "http://169.254.169.254/latest"}
    said = await refused(a_plan(exporter))
    assert said == "it redirects (HTTP 302); configure the target of the redirect"
    assert len(exporter.asked) == 1


@pytest.mark.parametrize("status", [500, 503, 404, 401])
async def test_a_refusal_is_told(exporter: Exporter, status: int) -> None:
    exporter.status = status
    assert await refused(a_plan(exporter)) == f"it answers HTTP {status}"


async def test_a_server_that_never_answers_is_left(exporter: Exporter) -> None:
    exporter.may_answer.clear()
    assert await refused(a_plan(exporter, timeout_s=0.3)) == "no complete answer within 0.3 s"


async def test_a_packed_answer_that_is_cut_short(exporter: Exporter) -> None:
    exporter.text = gzip.compress(dcgm_text({"gpu-a": {0: 50}}))[:-12]
    exporter.headers = {"Content-Encoding": "gzip"}
    assert await refused(a_plan(exporter)) == "the compressed answer is incomplete"


async def test_a_port_where_nobody_listens(exporter: Exporter) -> None:
    with exporting() as gone:
        url = gone.url
    assert (await refused(a_plan(exporter, url=url))).startswith("cannot connect")


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://x/", "http:///metrics", "gopher://x"])
async def test_only_http_is_asked(exporter: Exporter, url: str) -> None:
    assert "is not a valid URL" in await refused(a_plan(exporter, url=url))


async def test_a_million_series_at_one_address(exporter: Exporter) -> None:
    noise = b"".join(b'DCGM_FI_DEV_SM_CLOCK{gpu="%d"} 1980\n' % n for n in range(1_000_000))
    exporter.text = noise + dcgm_text({"gpu-a": {0: 50}})
    ((found,), counts) = await take(a_plan(exporter, timeout_s=60.0))
    assert (list(found.gpus), counts.believed) == (["GPU-gpu-a-0"], 1)


async def test_connections_are_kept_if_so_wanted_and_one_that_the_server_closed_is_made_anew(
    exporter: Exporter,
) -> None:
    exporter.show({"gpu-a": {0: 50}})
    source = make(a_plan(exporter, keeps=True))
    for _ in range(3):  # the server hangs up after every answer without saying so
        counts = ReadCounts()
        assert len([told async for told in source.take(NODES, counts)]) == 1
    assert len(exporter.asked) == 3
