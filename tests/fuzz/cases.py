"""A case is a seed: so many objects, one after another, told to a scheduler of their own."""

import copy
import json
from collections.abc import Iterator
from random import Random

from fuzz.mutations import mutated, with_words
from fuzz.objects import (
    KINDS,
    Json,
    configurations,
    lease,
    question,
    replies,
    review,
    small_pods,
)
from fuzz.target import Target

OBJECTS = 100
#: Kinds by how often: pods and nodes are read in most places.
_SMALL = small_pods()
_DRAWN = (*["Pod"] * 12, *["Node"] * 4, *KINDS)


def drawn(rng: Random, number: int) -> Json:
    """An object of any kind that is watched, changed, under a name of its own."""
    kind = rng.choice(_DRAWN)
    original = KINDS[kind][1]
    if kind == "Pod" and rng.random() < 0.7:
        original = rng.choice(_SMALL)
    elif kind == "Pod" and rng.random() < 0.7:  # most can be decided about at once
        hindering = ("schedulingGates", "volumes")
        spec = {key: value for key, value in original["spec"].items() if key not in hindering}
        original = {**original, "spec": spec}
    obj = mutated(rng, original) if rng.random() < 0.9 else copy.deepcopy(original)
    obj = {**with_words(rng, obj), "kind": kind, "apiVersion": original["apiVersion"]}
    meta = obj.get("metadata")
    obj["metadata"] = {
        **(meta if isinstance(meta, dict) else {}),
        "name": f"{kind.lower()}-{number}",
    }
    return obj


def run_case(seed: int) -> Iterator[Json]:
    """Tells the objects of this case, each after it was yielded; raises `Found`, or whatever."""
    rng = Random(seed)
    target = Target(rng)
    for number in range(OBJECTS):
        roll = rng.random()
        if roll < 0.04:
            yield (other := mutated(rng, review()))
            target.review(other)
        elif roll < 0.08:
            yield (other := mutated(rng, question()))
            target.question(other)
        elif roll < 0.1:
            yield (other := mutated(rng, lease()))
            target.lease(other)
        elif roll < 0.12:
            yield (other := mutated(rng, rng.choice(replies())))
            target.reply(other)
        elif roll < 0.14:
            yield (other := mutated(rng, rng.choice(configurations())))
            target.configure(other)
        else:
            yield (obj := drawn(rng, rng.randint(0, number)))
            target.show(obj, "MODIFIED" if rng.random() < 0.3 else "ADDED")
            target.decide(rng.choice((0, 1, 3)))
    target.check()


def try_case(seed: int) -> int:
    """How many objects there were. Raises AssertionError with the seed and the object."""
    last: Json = {}
    count = 0
    try:
        for count, last in enumerate(run_case(seed), 1):  # noqa: B007
            pass
    except Exception as error:
        shown = json.dumps(last)[:20_000]
        raise AssertionError(f"case {seed} fails: {error!r}\nthe last object: {shown}") from error
    return count
