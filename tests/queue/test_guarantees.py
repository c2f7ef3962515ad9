"""Guarantees of queues and of those beneath them."""

from fairlead.model.queues import GPUS, QueueSpec, Sharing
from fairlead.queue.quotas.guarantees import guarantee_problem
from fairlead.queue.quotas.tree import QueueTree


def tree_of(*specs: QueueSpec) -> QueueTree:
    tree = QueueTree()
    for spec in specs:
        tree.put(spec)
    return tree


def queue(name: str, gpus: int | None, parent: str = "", **more: Sharing) -> QueueSpec:
    guaranteed = () if gpus is None else ((GPUS, 1000 * gpus),)
    above = f"fairlead/{parent}" if parent else ""
    return QueueSpec(f"fairlead/{name}", parent=above, guaranteed=guaranteed, **more)  # type: ignore[arg-type]


def test_guarantees_that_add_up_have_no_problem() -> None:
    specs = queue("org", 10), queue("a", 4, "org"), queue("b", 6, "org"), queue("c", None, "org")
    tree = tree_of(*specs)
    assert [guarantee_problem(tree, spec) for spec in specs] == [""] * 4


def test_all_queues_around_a_contradiction_say_it() -> None:
    specs = queue("org", 10), queue("a", 4, "org"), queue("b", 7, "org")
    (said,) = {guarantee_problem(tree_of(*specs), spec) for spec in specs}
    assert said == (
        "the queues beneath org are guaranteed 11 nvidia.com/gpu together, and org itself 10; "
        "lower theirs or raise spec.guaranteed of org"
    )


def test_a_parent_that_guarantees_nothing_is_not_compared() -> None:
    specs = queue("org", None), queue("a", 4, "org")
    assert guarantee_problem(tree_of(*specs), specs[1]) == ""


def test_other_apis_allow_more_than_there_is() -> None:
    kai = {"sharing": Sharing.KAI}
    specs = queue("org", 1, **kai), queue("a", 4, "org", **kai)
    assert guarantee_problem(tree_of(*specs), specs[1]) == ""


def test_a_queue_is_taken_in_place_of_the_one_with_its_key() -> None:
    tree = tree_of(queue("org", 10), queue("a", 4, "org"), queue("b", 6, "org"))
    assert "guaranteed 11 nvidia.com/gpu together" in guarantee_problem(tree, queue("a", 5, "org"))
    assert guarantee_problem(tree, queue("a", 3, "org")) == ""
    assert "guaranteed 11 nvidia.com/gpu together" in guarantee_problem(tree, queue("c", 1, "org"))
    assert "beneath org are guaranteed 10" in guarantee_problem(tree, queue("org", 9))


def test_sums_of_guarantees_follow_the_queues() -> None:
    tree = tree_of(queue("org", 10), queue("a", 4, "org"), queue("b", 6, "org"))
    tree.put(queue("b", 7, "org"))
    assert guarantee_problem(tree, queue("org", 10))
    tree.put(queue("b", 7))
    assert not guarantee_problem(tree, queue("org", 4))
    tree.remove("fairlead/a")
    assert not tree.guaranteed_below("fairlead/org")
    assert tree.listed == {GPUS: 2}
