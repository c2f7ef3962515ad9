"""Guarantees of queues and of those beneath them."""

from fairlead.model.queues import GPUS, QueueSpec, Sharing
from fairlead.queue.quotas.guarantees import GuaranteeChecks, guarantee_problem
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


def test_what_was_found_is_forgotten_when_a_queue_changes():
    tree = tree_of(QueueSpec("fairlead/a", guaranteed=((GPUS, 1000),)))
    checks = GuaranteeChecks(tree)
    child = QueueSpec("fairlead/b", "fairlead/a", guaranteed=((GPUS, 1000),))
    assert checks.problem(child) == ""
    tree.put(QueueSpec("fairlead/b", "fairlead/a", guaranteed=((GPUS, 2000),)))
    checks.forget()
    assert "lower theirs or raise spec.guaranteed of a" in checks.problem(child)
