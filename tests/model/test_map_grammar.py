"""The grammar of scheduling maps, and which index a pod has."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.model.map_slots import MapSlot, map_slot_of, workload_of
from fairlead.model.scheduling_map import (
    JOB_INDEX,
    MAP,
    POD_INDEX,
    Line,
    MapError,
    index_of,
    parse,
)

CHECKER = """
0=node1:0,1
1=node2:2
2=node3:0,1,2
3=node4:3
4=node4:3
"""
LETTERS = st.sampled_from("01 2=:,\n\t\r-+_#anode٣é.")


def by_index(text: str) -> dict[int, tuple[str, str]]:
    return {line.index: (line.node, line.value) for line in parse(text).lines}


def as_its_inventor_reads(text: str) -> dict[int, tuple[str, str]]:
    """The rules of the format, one after another, without any thought for messages."""
    found: dict[int, tuple[str, str]] = {}
    for line in (raw.strip() for raw in text.split("\n")):
        if not line or "=" not in line or ":" not in line:
            continue
        try:
            index, rest = line.split("=", 1)
            node, value = rest.split(":", 1)
            found[int(index.strip())] = node.strip(), value.strip()
        except ValueError:
            break
    return found


@given(st.text(LETTERS, max_size=60))
def test_every_text_is_read_as_its_inventor_reads_it(text: str) -> None:
    assert by_index(text) == as_its_inventor_reads(text)


@given(st.text(LETTERS | st.characters(), max_size=60), st.integers(-1, 2))
def test_every_text_has_a_line_for_an_index_or_says_what_to_write(text: str, index: int) -> None:
    if index not in by_index(text):
        with pytest.raises(MapError, match=f"add {index}=<node>:<GPUs>"):
            parse(text).line(index)
        return
    node, value = by_index(text)[index]
    if re.fullmatch(r"[a-z0-9]+", node) and value.isprintable():
        assert parse(text).line(index) == Line(index, node, value)
        return
    if not node or not value.isprintable():
        with pytest.raises(MapError, match=f"{index}="):
            parse(text).line(index)


NAMES = st.from_regex(r"[a-z0-9]([a-z0-9.-]{0,20}[a-z0-9])?", fullmatch=True)
SPACE = st.text(" \t", max_size=2)


@given(
    st.dictionaries(
        st.integers(0, 999), st.tuples(NAMES, st.lists(st.integers(0, 15), max_size=4)), max_size=8
    ),
    SPACE,
    st.sampled_from(["\n", "\r\n", "\n\n"]),
)
def test_what_is_written_is_read(
    wanted: dict[int, tuple[str, list[int]]], space: str, end: str
) -> None:
    text = end.join(
        f"{space}{index}{space}={space}{node}{space}:{space}{','.join(map(str, gpus))}{space}"
        for index, (node, gpus) in wanted.items()
    )
    assert not parse(text).fault
    for index, (node, gpus) in wanted.items():
        line = parse(text).line(index)
        assert (line.node, line.value) == (node, ",".join(map(str, gpus)))
        assert line.devices == tuple(dict.fromkeys(map(str, gpus)))


def test_the_last_of_two_lines_counts() -> None:
    assert by_index("0=a:1\n0=b:2") == {0: ("b", "2")}


def test_the_value_may_hold_what_parts_a_line() -> None:
    assert by_index("0=a:0:1,x=y") == {0: ("a", "0:1,x=y")}


@pytest.mark.parametrize(
    ("value", "devices"),
    [
        ("0,1", ("0", "1")),
        ("0, 1,", ("0", "1")),
        ("0,0", ("0",)),
        ("GPU-8f3a,MIG-1", ("GPU-8f3a", "MIG-1")),
        ("all", ("all",)),
        ("", ()),
        ("none", ()),
        ("-1", ()),
        ("void", ()),
        ("NoDevFiles", ()),
    ],
)
def test_the_gpus_of_a_value(value: str, devices: tuple[str, ...]) -> None:
    assert Line(0, "n", value).devices == devices


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("0=node1:0", "gpu-scheduling-map has no line for index 1; add 1=<node>:<GPUs>"),
        ("0=a:0\n1 node1:0", "line 2, '1 node1:0', is ignored: write <index>=<node>:<GPUs>"),
        ("1=node1", "line 1, '1=node1', is ignored: write <index>=<node>:<GPUs>"),
        ("# x\none=a:0\n1=b:0", ("line 2, 'one=a:0', ends the map: write <index>=<node>:<GPUs>, "
                                "with a number as index")),
        ("1=:0", "names '' for index 1, which is no node; write 1=<node>:<GPUs>"),
        ("1=\x1b[2J:0", "names '\\x1b[2J' for index 1, which is no node"),
        ("1=a:0\x1b[2J", "GPUs for index 1 that cannot be passed on; write at most 1024 printable"),
        ("1=a:" + "0," * 600, "such as 1=a:0,1"),
        ("\n".join(f"{n + 5}=a:0" for n in range(5000)), "write at most 4096 lines"),
    ],
)  # fmt: skip
def test_what_cannot_be_followed_is_told(text: str, told: str) -> None:
    with pytest.raises(MapError) as caught:
        parse(text).line(1)
    assert told in str(caught.value)


def test_a_strange_line_is_no_hindrance_to_others() -> None:
    assert parse("# our nodes\n0=node1:0").line(0).node == "node1"


def test_an_index_of_a_billion_digits_ends_the_map() -> None:
    assert by_index(f"0=a:0\n{'9' * 100_000}=b:0\n1=c:0") == {0: ("a", "0")}


# -- the index ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("labels", "annotations", "name", "kind", "index"),
    [
        ({POD_INDEX: "3"}, {JOB_INDEX: "4"}, "web-5", "StatefulSet", 3),
        ({JOB_INDEX: "6"}, {JOB_INDEX: "4"}, "job-5-x2b4z", "Job", 4),
        ({JOB_INDEX: "6"}, {}, "job-5-24678", "Job", 6),
        ({}, {}, "web-5", "StatefulSet", 5),
        ({}, {}, "web-005", "", 5),
        ({}, {}, "train-worker-2", "PyTorchJob", 2),
        ({POD_INDEX: "x"}, {}, "web-5", "", 5),
        ({}, {}, "web", "", None),
        ({}, {}, "5", "", None),
        ({}, {}, "web-x", "", None),
        ({}, {}, "", "ReplicaSet", None),
        ({}, {}, "web-6b7f-24678", "ReplicaSet", None),
        ({}, {}, "job-24678", "Job", None),
        ({}, {}, "agent-24678", "DaemonSet", None),
        ({}, {}, "web-1234567890", "", None),
    ],
)
def test_the_index_of_a_pod(labels, annotations, name: str, kind: str, index: int | None) -> None:
    assert index_of(labels, annotations, name, kind) == index


def test_who_follows_a_map_together() -> None:
    of = workload_of
    assert of("ns", {}, ("StatefulSet", "web"), "") == "ns/StatefulSet/web"
    hashed = {"pod-template-hash": "6b7f"}
    assert of("ns", hashed, ("ReplicaSet", "web-6b7f"), "") == "ns/Deployment/web"
    assert of("ns", {}, ("ReplicaSet", "web-6b7f"), "") == "ns/ReplicaSet/web-6b7f"
    assert of("ns", {}, ("", ""), "a") == of("ns", {}, ("", ""), "a")
    assert of("ns", {}, ("", ""), "a") != of("ns", {}, ("", ""), "b")
    assert of("ns", {}, ("", ""), "a") != of("other", {}, ("", ""), "a")


@pytest.mark.parametrize(
    ("name", "kind", "told"),
    [
        ("web", "", "a name that ends in a number, like web-0, or the label apps.kubernetes.io/"),
        ("job-x", "Job", "write completionMode: Indexed in its Job"),
        ("agent-x", "DaemonSet", "use a StatefulSet"),
    ],
)
def test_a_pod_without_an_index_is_told_how_to_get_one(name: str, kind: str, told: str) -> None:
    with pytest.raises(MapError, match="no index in it") as caught:
        map_slot_of("ns", name, {}, {MAP: CHECKER}, (kind, "x"))
    assert told in str(caught.value)


def test_a_map_slot_has_the_lines_of_its_node() -> None:
    map_slot = map_slot_of("ns", "checker-3", {}, {MAP: CHECKER}, ("StatefulSet", "checker"))
    assert [line.index for line in map_slot.lines] == [3, 4]
    assert map_slot.line == Line(3, "node4", "3")


def test_pods_of_a_replica_set_take_any_slot() -> None:
    map_slot = map_slot_of("ns", "web-x-y", {}, {MAP: CHECKER}, ("ReplicaSet", "web-x"))
    assert map_slot == MapSlot("ns/ReplicaSet/web-x", parse(CHECKER).lines)
    with pytest.raises(MapError, match="has no lines; write"):
        map_slot_of("ns", "web-x-y", {}, {MAP: "nothing"}, ("ReplicaSet", "web-x"))
