"""The tree of queues: objects in any order, and one sentence for whatever is wrong with it."""

from itertools import permutations

import pytest

from fairlead.model.queues import QueueSpec
from fairlead.queue.quotas.sums import TreeSums, amount_of
from fairlead.queue.quotas.tree import MOST_LEVELS, QueueTree


def a_queue(name: str, parent: str = "", **more: object) -> QueueSpec:
    return QueueSpec(f"q/{name}", f"q/{parent}" if parent else "", **more)


def a_tree(*specs: QueueSpec) -> QueueTree:
    tree = QueueTree()
    for spec in specs:
        tree.put(spec)
    return tree


FAMILY = a_queue("a"), a_queue("b", "a"), a_queue("c", "b"), a_queue("d", "a")


@pytest.mark.parametrize("specs", [*permutations(FAMILY)])
def test_queues_may_come_in_any_order(specs: tuple[QueueSpec, ...]) -> None:
    tree = a_tree(*specs)
    assert [*tree] == ["q/a", "q/b", "q/c", "q/d"]
    assert tree.lineage("q/c") == ("q/c", "q/b", "q/a")
    assert not any(map(tree.problem, tree))


def test_a_missing_parent_is_one_sentence_for_all_beneath() -> None:
    tree = a_tree(a_queue("b", "a"), a_queue("c", "b"))
    sentence = "queue b names the parent a, which does not exist"
    assert [tree.problem(key) for key in tree] == [sentence, sentence]
    assert tree.lineage("q/c") == ("q/c", "q/b")

    tree.put(a_queue("a"))
    assert not any(map(tree.problem, tree))


def test_a_cycle_is_one_sentence_and_those_beneath_have_it_too() -> None:
    tree = a_tree(a_queue("a", "c"), a_queue("b", "a"), a_queue("c", "b"), a_queue("d", "c"))
    sentence = "the queues a, b, c are parents of each other"
    assert {tree.problem(key) for key in tree} == {sentence}
    assert len([*tree]) == 4, "none is lost"
    assert a_tree(a_queue("a", "a")).problem("q/a") == "queue a is its own parent"


def test_a_long_cycle_names_a_few() -> None:
    names = [f"q{n:04}" for n in range(1000)]
    tree = a_tree(*(a_queue(name, names[n - 1]) for n, name in enumerate(names)))
    assert tree.problem("q/q0500").startswith("the queues q0000, q0001, q0002, q0003 and 996 more")


def test_a_chain_of_a_thousand_is_cut_with_a_sentence() -> None:
    tree = a_tree(*(a_queue(f"q{n}", f"q{n - 1}" if n else "") for n in range(1000)))
    problems = [tree.problem(f"q/q{n}") for n in range(1000)]
    assert not any(problems[:MOST_LEVELS])
    assert problems[32] == "queue q32 has 32 levels above it; at most 31 are allowed"
    assert all(problems[MOST_LEVELS:])
    assert max(len(tree.lineage(f"q/q{n}")) for n in range(1000)) == MOST_LEVELS
    assert len([*tree]) == 1000


def test_the_problem_of_an_object_is_that_of_the_queues_beneath() -> None:
    tree = a_tree(a_queue("a", problem="weight must not be negative"), a_queue("b", "a"))
    assert tree.problem("q/b") == "queue a: weight must not be negative"


def test_sums_follow_the_tree() -> None:
    tree = a_tree(*FAMILY)
    sums = TreeSums(tree)
    sums.add("q/c", (("cpu", 3),), +1)
    sums.add("q/d", (("cpu", 4),), +1)
    assert [sums.of(key)["cpu"] for key in tree] == [7, 3, 3, 4]

    tree.put(a_queue("c", "d"))
    sums.add("q/c", (("cpu", 1),), +1)
    assert {key: sums.of(key)["cpu"] for key in tree} == {"q/a": 8, "q/b": 0, "q/c": 4, "q/d": 8}

    tree.remove("q/d")
    assert sums.of("q/d")["cpu"] == 4, "what it holds is not lost"
    sums.add("q/d", (("cpu", 4),), -1)
    assert sums.of("q/a") == {}


def test_a_word_for_a_model_counts_all_products_that_it_matches() -> None:
    tree = a_tree(a_queue("a"))
    sums = TreeSums(tree)
    for product in ("NVIDIA-H100-80GB-HBM3", "NVIDIA-H100-PCIe", "NVIDIA-GH200"):
        sums.add("q/a", ((f"fairlead.dev/gpu-{product}", 1000),), +1)
    assert amount_of(sums.of("q/a"), "fairlead.dev/gpu-H100") == 2000
