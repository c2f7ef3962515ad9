"""Mutated objects of gangs and pods that name them: no object ends anything but itself."""

from collections.abc import Iterable
from random import Random

import pytest

from fairlead.engine import events
from fairlead.kube.gangs.registry import DIALECTS, decode_object
from fairlead.kube.http.reply import UNREADABLE
from fuzz.gangs import SPECS, drawn_object, drawn_pod, show_object
from fuzz.searching import batches
from fuzz.target import Target

CASES, STEPS = 60, 60


def test_every_dialect_with_objects_is_mutated() -> None:
    assert set(SPECS) == {each.name for each in DIALECTS if each.kind}


@pytest.mark.parametrize("seeds", batches(CASES))
def test_no_gang_ends_anything_but_itself(seeds: Iterable[int]) -> None:
    for seed in seeds:
        rng = Random(seed)
        target = Target(rng)
        for number in range(STEPS):
            roll = rng.random()
            if roll < 0.3:
                dialect, obj = drawn_object(rng)
                show_object(target, dialect, obj, number)
            elif roll < 0.35:
                name = rng.choice(list(SPECS))
                target.feed(events.GangGone(f"{name}/default/g"))
                target.feed(events.GangKindSeen(name, rng.choice(("", "not served"))))
            else:
                pod = drawn_pod(rng, rng.randint(0, number))
                target.show(pod, "DELETED" if rng.random() < 0.1 else "ADDED")
            target.decide(rng.choice((0, 1, 3)))
        target.check()


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda each: each.name)
def test_hostile_json_is_a_problem_of_the_object(dialect) -> None:
    if dialect.kind is None:
        return
    for spec in (b"[" * 100_000, b"1e999", b'"\\ud800"', b"{", b'{"minMember":1e400}', b"null"):
        raw = b'{"metadata":{"name":"g","namespace":"ns"},"spec":' + spec + b"}"
        try:
            assert decode_object(dialect, raw).spec.key == f"{dialect.name}/ns/g"
        except UNREADABLE:
            continue  # no JSON at all: the mirror reports it
