"""Prometheus' text as exporters write it, and as they should not: what is found, what is not."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families as prometheus_text

from fairlead.telemetry.sources.exposition import (
    LONGEST_LINE,
    Found,
    LineBuffer,
    Scanner,
    exactly,
    parse_labels,
    timestamp_s,
)

SCANNER = Scanner(["load", "load_more"])


def found(*pieces: bytes) -> tuple[list[Found], int]:
    """What is wanted of a text in pieces, and how many lines were broken."""
    seen: list[Found] = []
    reader = LineBuffer(SCANNER, seen.extend)
    for piece in pieces:
        reader.put(piece)
    reader.end()
    return seen, reader.broken


def series(text: bytes) -> list[tuple[str, str]]:
    return [(block.decode(), value.decode()) for _, block, value, _ in found(text)[0]]


def test_only_wanted_series_are_found() -> None:
    text = b'# HELP load x\nload{a="1"} 3\nloads{a="1"} 4\nother{load="5"} 6\nload_more{} 7\n'
    assert series(text) == [('a="1"', "3"), ("", "7")]


def test_a_wanted_first_line_is_found() -> None:
    assert series(b'load{a="1"} 3\n') == [('a="1"', "3")]


@pytest.mark.parametrize("cut", range(1, 24))
def test_lines_that_were_cut_on_their_way_are_put_together(cut: int) -> None:
    text = b'load{a="1"} 3\nload{b="2"} 45\n'
    assert found(text[:cut], text[cut:]) == found(text)


def test_the_last_line_counts_only_if_it_ended() -> None:
    seen, broken = found(b'load{a="1"} 3\nload{a="2"} 4')
    assert [value for _, _, value, _ in seen] == [b"3"]
    assert broken == 1


def test_a_line_without_an_end_is_given_up_and_those_after_it_are_read() -> None:
    endless = b'load{a="' + b"x" * (8 * LONGEST_LINE)
    seen, broken = found(endless, b'load{b="0"} 1', b"x" * 70_000 + b'\nload{c="2"} 3\n')
    assert [block for _, block, _, _ in seen] == [b'c="2"']
    assert broken >= 1


def test_braces_and_quotes_inside_of_labels() -> None:
    ((block, value),) = series(b'load{a="} 9",b="\\"{,"} 3\n')
    assert (parse_labels(block.encode()), value) == ({"a": "} 9", "b": '"{,'}, "3")


@pytest.mark.parametrize(
    "block",
    [b'a="1" b="2"', b'a="1', b"a=1", b'="1"', b'a="1",a="2"', b'a="\xff"', b'a="1",,b="2"'],
)
def test_labels_that_are_none(block: bytes) -> None:
    assert parse_labels(block) is None


_text = st.text(st.characters(codec="utf-8", exclude_characters="\r"), max_size=12)


@settings(deadline=None)
@given(st.dictionaries(st.from_regex(r"[a-z][a-z0-9_]{0,5}", fullmatch=True), _text, max_size=4))
def test_labels_are_read_as_prometheus_reads_them(labels: dict[str, str]) -> None:
    escaped = {
        k: v.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        for k, v in labels.items()
    }
    block = ",".join(f'{name}="{value}"' for name, value in escaped.items())
    assert parse_labels(block.encode()) == labels
    (family,) = prometheus_text(f"load{{{block}}} 1\n")
    assert family.samples[0].labels == labels


def test_times_are_milliseconds_or_in_openmetrics_seconds() -> None:
    at = timestamp_s(found(b'load{a="1"} 3 1700000000123\n')[0][0][3])
    (family,) = prometheus_text('load{a="1"} 3 1700000000123\n')
    assert at == pytest.approx(family.samples[0].timestamp) == pytest.approx(1_700_000_000.123)
    line = 'load{a="1"} 3 1700000000.5'
    at = timestamp_s(found(f"{line}\n".encode())[0][0][3])
    (family,) = openmetrics(f"# TYPE load gauge\n{line}\n# EOF\n")
    assert at == float(family.samples[0].timestamp)


def test_an_exemplar_is_no_part_of_the_value() -> None:
    (line,) = found(b'load{a="1"} 3 1700000000.5 # {id="x"} 0.67\n')[0]
    _, block, value, rest = exactly(line)
    assert (parse_labels(block), value, timestamp_s(rest)) == ({"a": "1"}, b"3", 1_700_000_000.5)


@pytest.mark.parametrize("said", ["NaN", "+Inf", "-Inf", "-3", "0x1"])
def test_odd_values_are_handed_on_as_they_stand(said: str) -> None:
    assert series(f'load{{a="1"}} {said}\n'.encode()) == [('a="1"', said)]
    assert said == "0x1" or not math.isfinite(float(said)) or float(said) < 0


def test_a_million_series_are_passed_through_in_little_memory() -> None:
    piece = b"".join(b'other{a="%d"} 1\n' % n for n in range(1000)) + b'load{a="1"} 2\n'
    seen: list[Found] = []
    reader = LineBuffer(SCANNER, seen.extend)
    for _ in range(1000):
        reader.put(piece)
        assert reader._waiting < 128 * 2**10
    reader.end()
    assert len(seen) == 1000
