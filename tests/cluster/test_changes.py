"""The change log: who follows sees every change, and only who stayed away long looks again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import SCHEDULER, a_node, a_pod
from fairlead.apps.config.profiles import built_in
from fairlead.cluster import changes
from fairlead.cluster.aspects import Aspect
from fairlead.cluster.changes import KEPT, ChangeLog
from fairlead.cluster.cluster import Cluster
from fairlead.placement.place import Placement
from fairlead.placement.verdicts import Placed


def test_a_reader_that_follows_never_starts_over() -> None:
    log = ChangeLog()
    mark = log.mark
    for number in range(20_000):
        log.add(number % 7, Aspect.USAGE)
        assert log.since(mark) == {number % 7: int(Aspect.USAGE)}
        mark = log.mark


def test_a_reader_older_than_the_window_starts_over() -> None:
    log = ChangeLog()
    old = log.mark
    for _ in range(KEPT):
        log.add(3, Aspect.USAGE)
    recent = log.mark
    assert log.since(old) == {3: int(Aspect.USAGE)}
    for _ in range(KEPT + 1):
        log.add(4, Aspect.PODS)
    assert log.since(old) is None
    assert log.since(recent) == {4: int(Aspect.PODS)}


def test_everybody_starts_over_when_told() -> None:
    log = ChangeLog()
    log.add(1, Aspect.USAGE)
    marks = [0, log.mark]
    log.start_over()
    assert [log.since(mark) for mark in marks] == [None, None]
    assert log.since(log.mark) == {}


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from(list(Aspect)))), st.data())
def test_what_is_said_is_what_was_added(
    added: list[tuple[int, Aspect]], data: st.DataObject
) -> None:
    log = ChangeLog()
    marks = [log.mark]
    for row, aspect in added:
        log.add(row, aspect)
        marks.append(log.mark)
    position = data.draw(st.integers(0, len(added)))
    expected: dict[int, int] = {}
    for row, aspect in added[position:]:
        expected[row] = expected.get(row, 0) | int(aspect)
    assert log.since(marks[position]) == expected


def test_a_view_that_follows_asks_about_one_row_a_placement(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(changes, "KEPT", 16)
    cluster = Cluster()
    for number in range(100):
        cluster.put_node(a_node(f"n{number}", gpus=8))
    placement = Placement(built_in(SCHEDULER), cluster)
    pod = a_pod(gpus=1)
    placement.place(pod)
    rules = len(placement.profile.filters) + len(placement.profile.scores)
    for _ in range(100):
        before = cluster.work.rows
        verdict = placement.place(pod)
        assert isinstance(verdict, Placed)
        cluster.assume(pod, verdict.node)
        cluster.remove(pod.uid)
        assert cluster.work.rows - before <= rules
