"""The tree of queues: objects in any order, and one sentence for whatever is wrong with it."""

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.model.queues import QueueSpec
from fairlead.queue.quotas.shape import MOST_LEVELS
from fairlead.queue.quotas.sums import TreeSums, amount_of
from fairlead.queue.quotas.tree import QueueTree


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


def test_queues_that_list_namespaces_are_known_until_they_list_none() -> None:
    tree = a_tree(a_queue("a", namespaces=frozenset({"ns"})), a_queue("b"), a_queue("c"))
    assert tree.listing_namespaces == {"q/a"}

    tree.put(a_queue("c", namespaces=frozenset()))
    assert tree.listing_namespaces == {"q/a", "q/c"}, "an empty list is one, too"
    tree.put(a_queue("a"))
    tree.remove("q/c")
    assert not tree.listing_namespaces


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


NAMES = ("a", "b", "c", "d", "e")
CHANGES = st.lists(
    st.tuples(
        st.sampled_from(NAMES),
        st.none() | st.sampled_from(["", *NAMES, "missing"]),
        st.booleans(),
    ),
    min_size=1,
    max_size=30,
)


@given(changes=CHANGES)
def test_a_tree_kept_step_by_step_is_the_one_made_from_nothing(
    changes: list[tuple[str, str | None, bool]],
) -> None:
    tree = a_tree()
    sums = TreeSums(tree)
    for number, name in enumerate(NAMES):
        sums.add(f"q/{name}", (("cpu", 10**number),), +1)
    specs: dict[str, QueueSpec] = {}
    for name, parent, looked_at in changes:
        if parent is None:
            specs.pop(name, None)
            tree.remove(f"q/{name}")
        else:
            spec = specs[name] = a_queue(name, parent)
            expected = a_tree(*specs.values()).problem(spec.key)
            assert tree.problem_with(spec) == expected, "as if it were there"
            tree.put(spec)
        if looked_at:
            is_equal(tree, sums, a_tree(*specs.values()))
    is_equal(tree, sums, a_tree(*specs.values()))


def is_equal(tree: QueueTree, sums: TreeSums, other: QueueTree) -> None:
    fresh = TreeSums(other)
    for number, name in enumerate(NAMES):
        fresh.add(f"q/{name}", (("cpu", 10**number),), +1)
    assert [*tree] == [*other]
    for key in (f"q/{name}" for name in NAMES):
        assert tree.lineage(key) == other.lineage(key)
        assert tree.problem(key) == other.problem(key)
        assert sums.of(key) == fresh.of(key)


def a_wide_tree() -> QueueTree:
    """A hundred parents under one top, with nine children each."""
    above = [a_queue("top"), *(a_queue(f"p{n}", "top") for n in range(100))]
    return a_tree(*above, *(a_queue(f"c{n}", f"p{n % 100}") for n in range(900)))


def test_a_change_looks_at_the_queue_and_those_beneath_it() -> None:
    tree = a_wide_tree()
    sums = TreeSums(tree)
    assert sum(1 for _ in tree) == tree.shape.visited == 1001

    def looked_at() -> int:
        before = tree.shape.visited
        assert sums.of("q/top") == {}
        assert len(tree.moved_since(tree.version - 1) or ()) == tree.shape.visited - before
        return tree.shape.visited - before

    tree.put(a_queue("new", "p7"))
    assert looked_at() == 1
    tree.put(a_queue("new", "p8"))
    assert looked_at() == 1
    tree.put(a_queue("p8", "p9"))
    assert looked_at() == 11, "nine children, the new one, and itself"
    tree.remove("q/new")
    assert looked_at() == 1


def test_a_question_about_a_queue_looks_at_none_beneath_it() -> None:
    tree = a_wide_tree()
    visited = tree.shape.visited
    assert tree.problem_with(a_queue("top", "c5")).startswith("the queues c5, p5, top are parents")
    assert tree.problem_with(a_queue("new", "p7")) == ""
    assert tree.shape.visited == visited
    assert "q/new" not in tree


def test_moves_are_forgotten_when_they_are_many() -> None:
    tree = a_tree(a_queue("a"), a_queue("b"))
    sums = TreeSums(tree)
    sums.add("q/c", (("cpu", 1),), +1)
    assert sums.of("q/c") == {"cpu": 1}
    version = tree.version
    tree.put(a_queue("c", "a"))
    for number in range(200):
        tree.put(a_queue(f"x{number}", "a"))
        assert tree.lineage("q/c")
        tree.remove(f"q/x{number}")
        assert tree.lineage("q/c")
    assert tree.moved_since(version) is None
    assert sums.of("q/a") == {"cpu": 1}
