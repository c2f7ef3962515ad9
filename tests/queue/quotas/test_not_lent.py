"""What is guaranteed and not lent: Volcano's `guarantee`, as its plugins compute what is left."""

from math import inf

import pytest

from fairlead.model.queues import GPUS, QueueSpec
from fairlead.queue.quotas.not_lent import NotLent
from fairlead.queue.quotas.tree import QueueTree

#: Name: its parent, what it keeps, and its limit; None: unset.
Queues = dict[str, tuple[str, int, int | None]]

TOTAL = 10

CASES: dict[str, tuple[Queues, dict[str, float]]] = {
    "nothing is kept": ({"a": ("root", 0, None), "b": ("root", 0, 6)}, {"a": 10, "b": 6}),
    "one keeps, and may have all": (
        {"a": ("root", 4, None), "b": ("root", 0, None)},
        {"a": 10, "b": 6},
    ),
    "two keep, and a third has the rest": (
        {"a": ("root", 4, None), "b": ("root", 3, None), "c": ("root", 0, None)},
        {"a": 7, "b": 6, "c": 3},
    ),
    "a limit below the rest holds": (
        {"a": ("root", 4, 5), "b": ("root", 0, 2)},
        {"a": 5, "b": 2},
    ),
    "a limit above the rest does not": (
        {"a": ("root", 4, None), "b": ("root", 0, 20)},
        {"a": 10, "b": 6},
    ),
    "all is kept": ({"a": ("root", 10, None), "b": ("root", 0, None)}, {"a": 10, "b": 0}),
    "more is kept than there is": (
        {"a": ("root", 8, None), "b": ("root", 6, None), "c": ("root", 0, None)},
        {"a": 8, "b": 6, "c": 0},
    ),
    "what is kept above holds beneath": (
        {
            "org": ("root", 4, None),
            "other": ("root", 0, None),
            "x": ("other", 2, None),
            "y": ("other", 0, None),
        },
        {"org": 10, "other": 6, "x": 6, "y": 4},
    ),
    "a limit above holds beneath": (
        {"org": ("root", 0, 5), "x": ("org", 2, None), "y": ("org", 0, None)},
        {"org": 5, "x": 5, "y": 3},
    ),
}


def of(queues: Queues) -> NotLent:
    tree = QueueTree()
    tree.put(QueueSpec("volcano/root"))
    for name, (parent, kept, limit) in queues.items():
        tree.put(
            QueueSpec(
                f"volcano/{name}",
                parent=f"volcano/{parent}",
                not_lent=((GPUS, kept),) if kept else (),
                limit=((GPUS, limit),) if limit is not None else (),
            )
        )
    return NotLent(tree, lambda: {GPUS: TOTAL})


@pytest.mark.parametrize("case", CASES)
def test_what_each_queue_may_use(case: str) -> None:
    queues, expected = CASES[case]
    found = of(queues)
    assert {name: found.most(f"volcano/{name}", GPUS) for name in queues} == expected
    assert found.most("volcano/root", GPUS) == TOTAL


def test_a_resource_that_is_not_counted_is_not_kept() -> None:
    found = of({"a": ("root", 4, None), "b": ("root", 0, None)})
    assert found.most("volcano/b", "cpu") == inf
    assert found.is_kept_from("volcano/b", "cpu") == 0
    assert found.is_kept_from("volcano/b", GPUS) == 4
    assert found.is_kept_from("volcano/a", GPUS) == 0


def test_a_queue_that_is_gone_keeps_nothing() -> None:
    tree = QueueTree()
    tree.put(QueueSpec("volcano/a", not_lent=((GPUS, 4),)))
    tree.put(QueueSpec("volcano/b"))
    found = NotLent(tree, lambda: {GPUS: TOTAL})
    assert found.most("volcano/b", GPUS) == 6
    tree.put(QueueSpec("volcano/a", not_lent=((GPUS, 1),)))
    assert found.most("volcano/b", GPUS) == 9
    tree.remove("volcano/a")
    assert not found
    assert found.most("volcano/b", GPUS) == TOTAL
