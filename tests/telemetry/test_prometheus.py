"""What a Prometheus server answers, and what it answers when something is wrong.

A real one is asked in tests/stories/test_telemetry.py; here its answers are those of its API.
"""

import json
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs

import pytest

from exporters import Exporter, exporting
from fairlead.model.readings import NodeReadings
from fairlead.telemetry.sources import ReadCounts, SourceFault, SourcePlan, make
from fairlead.telemetry.sources.fetch import FetchLimits
from fairlead.telemetry.sources.prometheus import QUERIES
from fairlead.telemetry.sources.prometheus_api import PrometheusServer

NODES = {"gpu-a": "10.0.0.1"}

LIMITS = FetchLimits(5.0, 1 << 20)


@pytest.fixture
def server() -> Iterator[Exporter]:
    with exporting() as served:
        yield served


def vector(*values: object, warnings: tuple[str, ...] = (), **labels: str) -> dict[str, Any]:
    result = [
        {
            "metric": {"UUID": f"GPU-{n}", "gpu": str(n), "Hostname": "gpu-a", **labels},
            "value": [1, str(v)],
        }
        for n, v in enumerate(values)
    ]
    data = {"resultType": "vector", "result": result}
    return {"status": "success", "data": data, "warnings": list(warnings)}


async def asked(
    server: Exporter, answers: dict[str, Any], **plan: Any
) -> tuple[list[NodeReadings], ReadCounts]:
    """Answers by expression; one that is a number is a status."""

    def answer(body: bytes) -> tuple[int, bytes]:
        found = answers.get(parse_qs(body.decode())["query"][0], vector())
        return (found, b"") if isinstance(found, int) else (200, json.dumps(found).encode())

    server.answer = answer
    url = server.url.removesuffix("/metrics")
    source, counts = (
        make(SourcePlan("prometheus", "prometheus", url, timeout_s=60.0, **plan)),
        ReadCounts(),
    )
    return [told async for told in source.take(NODES, counts)], counts


async def test_each_reading_is_a_query(server: Exporter) -> None:
    measured = time.time() - 100
    answers = {
        QUERIES["utilisation"]: vector(0.97, 0.5),
        QUERIES["memoryUsedMib"]: vector(60987, 3),
        QUERIES["time"]: vector(measured, measured),
    }
    ((told,), counts) = await asked(server, answers)
    assert told.gpus["GPU-0"].utilisation == 0.97
    assert told.gpus["GPU-1"].memory_used_mib == 3
    assert 99 < time.monotonic() - told.taken_s < 130
    assert set(server.asked) == {"/api/v1/query"}
    assert len(server.asked) == counts.asked == len(QUERIES)


async def test_what_was_measured_long_ago_is_left_out(server: Exporter) -> None:
    long_ago = time.time() - 1000
    answers = {QUERIES["utilisation"]: vector(0.97), QUERIES["time"]: vector(long_ago)}
    told, counts = await asked(server, answers)
    assert (told, counts.rejected["old"]) == ([], 1)


async def test_a_query_that_fails_takes_nothing_from_the_others(server: Exporter) -> None:
    wrong = {"status": "success", "data": {"resultType": "scalar", "result": []}}
    answers = {
        QUERIES["utilisation"]: vector(0.97),
        QUERIES["powerW"]: 400,
        QUERIES["temperatureC"]: wrong,
    }
    ((told,), counts) = await asked(server, answers)
    assert told.gpus["GPU-0"].utilisation == 0.97
    assert (counts.failed, counts.rejected["query"], counts.rejected["unreachable"]) == (2, 1, 1)
    assert "it returns a scalar, not a vector; correct it in the configuration" in counts.problem


async def test_warnings_are_counted_and_what_came_is_used(server: Exporter) -> None:
    answers = {QUERIES["utilisation"]: vector(0.97, warnings=("some data is missing",))}
    ((told,), counts) = await asked(server, answers)
    assert told.gpus["GPU-0"].utilisation == 0.97
    assert (counts.failed, counts.rejected["warning"]) == (0, 1)


async def test_own_queries_replace_all(server: Exporter) -> None:
    ((told,), _) = await asked(server, {"mine": vector(0.25)}, queries={"utilisation": "mine"})
    assert told.gpus["GPU-0"].utilisation == 0.25
    assert len(server.asked) == 1


async def test_values_that_cannot_be(server: Exporter) -> None:
    (_, counts) = await asked(server, {QUERIES["utilisation"]: vector("NaN", 97, -1)})
    assert counts.rejected == {"not a number": 1, "too much": 1, "negative": 1, "warning": 0}


async def test_the_token_goes_along_and_is_read_anew(server: Exporter, tmp_path: Any) -> None:
    token = tmp_path / "token"
    for said in ("first", "second"):
        token.write_text(f"{said}\n")
        await asked(server, {}, token_file=str(token))
        assert server.authorised[-1] == f"Bearer {said}"
    token.write_text("two\nlines")
    with pytest.raises(SourceFault, match="does not contain a valid token"):
        await PrometheusServer(server.url, LIMITS, token_file=str(token)).query("x")
