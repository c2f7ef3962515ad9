"""Prices come from a process of their own, and go to the engine as an event."""

import sys

import pytest

from builders import a_node, a_pod, an_engine, see
from fairlead.apps.run import pricing
from fairlead.model.errors import FairleadError
from fairlead.model.prices import Basis, PodShape
from fairlead.placement.prices import compute

BASIS = Basis(
    (
        (PodShape(4000, 1 << 30, 1, 500), 80),
        (PodShape(8000, 1 << 31, 2, 1000, frozenset({"H100"})), 40),
        (PodShape(1000), 10),
    ),
    (("H100", 16), ("", 8)),
)


@pytest.mark.program
async def test_the_process_answers_what_is_computed_here() -> None:
    assert await pricing.priced(BASIS) == compute(BASIS)


@pytest.mark.program
async def test_too_little_to_go_by_is_no_error() -> None:
    assert await pricing.priced(Basis((), ())) is None


@pytest.mark.program
async def test_a_process_that_fails_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(FairleadError, match="status 1"):
        await pricing.priced(BASIS)


def test_prices_are_due_after_a_hundred_pods_and_then_after_as_many_again() -> None:
    engine = an_engine(a_node("n1"))
    work = pricing.Pricing(engine, lambda _: None)
    due = []
    for number in range(250):
        see(engine, a_pod(f"p{number}", gpus=1))
        if work._due():
            due.append(number + 1)
            work._seen = engine.demand.seen
    assert due == [100, 200]
