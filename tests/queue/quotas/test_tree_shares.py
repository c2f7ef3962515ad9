"""Shares of a whole tree: kept step by step, they are those of a tree built from nothing."""

from dataclasses import replace

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from examples import examples
from fairlead.model.queues import GPUS, QueueSpec, Sharing
from fairlead.queue.quotas.shares import FairShares
from fairlead.queue.quotas.sums import TreeSums
from fairlead.queue.quotas.tree import QueueTree

CPU = "cpu"
NAMES = ("a", "b", "c", "d", "e", "f")


class Queues:
    def __init__(self, **totals: int) -> None:
        self.tree = QueueTree()
        self.used, self.pending = TreeSums(self.tree), TreeSums(self.tree)
        self.shares = self.fresh()
        self.set_totals(**totals)

    def set_totals(self, gpus: int = 0, cpu: int = 0) -> None:
        self.totals = {GPUS: float(gpus), CPU: float(cpu)}
        self.shares.set_totals(self.totals)

    def put(self, name: str, parent: str = "", **more: object) -> None:
        spec = QueueSpec(name, parent, **more)  # type: ignore[arg-type]
        old = self.tree.get(name)
        if not self.tree.put(spec) and old != spec:
            self.shares.spec_changed(name)

    def ask(self, name: str, gpus: int, *, used: int = 0) -> None:
        self.pending.add(name, ((GPUS, gpus), (CPU, 3 * gpus)), +1)
        self.used.add(name, ((GPUS, used), (CPU, used)), +1)
        self.shares.touch(name)

    def fresh(self) -> FairShares:
        return FairShares(self.tree, self.used, self.pending)

    def gpus(self, *names: str) -> list[float]:
        return [self.shares.of(name).get(GPUS, 0.0) for name in names]


def test_a_share_is_divided_among_the_children() -> None:
    queues = Queues(gpus=100)
    queues.put("team", guaranteed=((GPUS, 20),))
    queues.put("guests")
    queues.put("big", "team", weight=3.0)
    queues.put("small", "team")
    for name in ("big", "small", "guests"):
        queues.ask(name, 100)
    assert queues.gpus("team", "guests", "big", "small") == [60, 40, 45, 15]


def test_what_a_parent_does_not_guarantee_is_what_its_children_use_of_theirs() -> None:
    queues = Queues(gpus=100)
    queues.put("team")
    queues.put("sure", "team", guaranteed=((GPUS, 50),))
    queues.put("other", "team")
    queues.put("guests", weight=9.0)
    queues.ask("guests", 100)
    queues.ask("other", 100)
    assert queues.gpus("team", "sure", "other") == [10, 0, 10], "none asks for what is guaranteed"
    queues.ask("sure", 100)
    assert queues.gpus("team", "sure", "other") == pytest.approx([55, 52.5, 2.5])


def test_own_units_of_a_queue_with_children_count_as_one_child() -> None:
    queues = Queues(gpus=30)
    queues.put("team")
    queues.put("a", "team")
    queues.put("b", "team")
    for name in ("team", "a", "b"):
        queues.ask(name, 100)
    assert queues.gpus("team", "a", "b") == [30, 10, 10]


def test_a_limit_leaves_the_rest_to_the_others() -> None:
    queues = Queues(gpus=100)
    queues.put("a", limit=((GPUS, 10),))
    queues.put("b")
    queues.ask("a", 80, used=10)
    queues.ask("b", 200)
    assert queues.gpus("a", "b") == [10, 90]


def test_a_queue_that_does_not_lend_keeps_what_is_guaranteed() -> None:
    queues = Queues(gpus=100)
    queues.put("a", guaranteed=((GPUS, 40),), not_lent=((GPUS, 40),))
    queues.put("b")
    queues.ask("b", 200)
    queues.ask("a", 5)
    assert queues.gpus("a", "b") == [40, 60]


def test_only_gpus_are_counted_in_thousandths_for_kai() -> None:
    queues = Queues(gpus=100_000, cpu=100)
    for name in ("a", "b", "c"):
        queues.put(name, sharing=Sharing.KAI, created_s=float(ord(name)))
        queues.ask(name, 100_000)
    assert queues.gpus("a", "b", "c") == [34_000, 33_000, 33_000]
    assert queues.shares.of("a")[CPU] == 34


def test_a_change_that_changes_no_share_divides_nothing() -> None:
    queues = Queues(gpus=100)
    for name in NAMES:
        queues.put(name)
        queues.ask(name, 100)
    queues.shares.of("a")
    queues.shares.changed.clear()
    queues.ask("a", 50)
    queues.shares.settle()
    assert not queues.shares.root.dirty
    assert queues.gpus("a") == [pytest.approx(100 / 6)]
    assert not queues.shares.changed


def test_where_there_is_enough_each_has_what_it_asks_for_without_a_division() -> None:
    queues = Queues(gpus=100, cpu=1000)
    queues.put("team")
    for name in NAMES:
        queues.put(name, "team")
        queues.ask(name, 5)
    queues.gpus(*NAMES)
    queues.shares.changed.clear()
    queues.ask("a", 10)
    assert queues.gpus("team", "a", "b") == [40, 15, 5]
    assert queues.shares.changed == {"team", "a"}
    queues.ask("b", 95)
    queues.shares.settle()
    assert queues.shares.root.dirty, "now there is not enough"


class Changes(RuleBasedStateMachine):
    """Queues come, go, move and change; units come and go; the cluster grows and shrinks."""

    def __init__(self) -> None:
        super().__init__()
        self.queues = Queues(gpus=64, cpu=200)
        self.past: dict[str, float] = {}

    @rule(
        name=st.sampled_from(NAMES),
        parent=st.sampled_from(("", "", *NAMES)),
        guaranteed=st.integers(0, 20),
        limit=st.one_of(st.none(), st.integers(0, 40)),
        weight=st.sampled_from([0.0, 0.5, 1.0, 3.0]),
        sharing=st.sampled_from([Sharing.CONTINUOUS, Sharing.CONTINUOUS, *Sharing]),
    )
    def put(
        self,
        name: str,
        parent: str,
        guaranteed: int,
        limit: int | None,
        weight: float,
        sharing: Sharing,
    ) -> None:
        self.queues.put(
            name,
            parent,
            guaranteed=((GPUS, guaranteed),) if guaranteed else (),
            limit=() if limit is None else ((GPUS, limit),),
            weight=weight,
            sharing=sharing,
        )

    @precondition(lambda self: len(self.queues.tree))
    @rule(data=st.data(), weight=st.sampled_from([0.0, 1.0, 2.0]), limit=st.integers(0, 64))
    def change(self, data: st.DataObject, weight: float, limit: int) -> None:
        name = data.draw(st.sampled_from([*self.queues.tree]))
        spec = self.queues.tree.get(name)
        assert spec is not None
        self.queues.tree.put(replace(spec, weight=weight, limit=((GPUS, limit),)))
        self.queues.shares.spec_changed(name)

    @rule(name=st.sampled_from(NAMES))
    def remove(self, name: str) -> None:
        self.queues.tree.remove(name)

    @rule(name=st.sampled_from(NAMES), gpus=st.integers(1, 30), used=st.integers(0, 10))
    def ask(self, name: str, gpus: int, used: int) -> None:
        self.queues.ask(name, gpus, used=used)

    @rule(name=st.sampled_from(NAMES))
    def leave(self, name: str) -> None:
        for sums in (self.queues.used, self.queues.pending):
            sums.add(name, tuple(sums.own(name).items()), -1)
        self.queues.shares.touch(name)

    @rule(gpus=st.integers(0, 128))
    def resize(self, gpus: int) -> None:
        self.queues.set_totals(gpus=gpus, cpu=200)

    @rule(name=st.sampled_from(NAMES), fraction=st.sampled_from([0.0, 0.1, 0.5]))
    def spend(self, name: str, fraction: float) -> None:
        if name in self.queues.tree:
            self.queues.shares.settle()
            self.queues.shares.set_past(name, fraction)
            self.past[name] = fraction

    @rule(name=st.sampled_from(NAMES))
    def look(self, name: str) -> None:
        self.queues.shares.of(name)

    @invariant()
    def shares_are_those_of_a_new_tree(self) -> None:
        self.past = {name: past for name, past in self.past.items() if name in self.queues.tree}
        fresh = self.queues.fresh()
        fresh.set_totals(self.queues.totals)
        fresh.settle()
        for name, fraction in self.past.items():
            fresh.set_past(name, fraction)
        for name in self.queues.tree:
            kept = self.queues.shares.of(name)
            assert {key: kept[key] for key in kept} == pytest.approx(fresh.of(name), abs=1e-6)


TestChanges = Changes.TestCase
TestChanges.settings = examples(40, steps=30)
