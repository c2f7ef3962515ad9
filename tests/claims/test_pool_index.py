"""Answers that are kept for all nodes that see a pool are those that each node would find."""

import random
from collections import Counter

import pytest
import test_allocator_against_kubernetes as drawn

from drawn_claims import World
from examples import so_many
from fairlead.claims import inventory
from fairlead.model.behaviour import KUBERNETES_1_36, KUBERNETES_1_37, Behaviour


@pytest.mark.parametrize("behaviour", [KUBERNETES_1_36, KUBERNETES_1_37])
def test_large_pools_get_the_answers_of_small_ones(
    behaviour: Behaviour, monkeypatch: pytest.MonkeyPatch
) -> None:
    questions = [World(random.Random(case)).question() for case in range(so_many(400, few=80))]
    one_by_one = [drawn._ours(each, behaviour) for each in questions]
    monkeypatch.setattr(inventory, "FEW_DEVICES", -1)

    assert [drawn._ours(each, behaviour) for each in questions] == one_by_one

    found = Counter(kind for kind, _ in one_by_one)
    assert min(found["found"], found["none"], found["error"]) > so_many(10, few=1)
