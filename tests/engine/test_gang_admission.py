"""Gangs that exist before their pods do."""

from builders import drawn
from fairlead.cluster.charges import Charges
from fairlead.cluster.cluster import Cluster
from fairlead.engine.gang_admission import EVERY_S, REVOKED, GangAdmissions
from fairlead.engine.queue_admissions import QueueAdmissions
from fairlead.model.gangs import GangSpec, GangState, GangStatus
from fairlead.model.nodes import GPU
from fairlead.queue.queue import SchedulingQueue
from fairlead.queue.quotas.admitted import LONGEST_S
from fairlead.queue.quotas.names import QueueNames
from fairlead.queue.quotas.tree import QueueTree

WAITING = GangStatus(
    GangState.UNSCHEDULABLE, 0, 4, 0, 0, "the gang needs 12 of nvidia.com/gpu, and 8 is free"
)
ADMITTED = GangStatus(GangState.GATHERING, 0, 4, 0, 0)


def gang(gpus: int, name: str = "train") -> GangSpec:
    resources = ((GPU, gpus),) if gpus else ()
    return GangSpec(f"volcano/ns/{name}", 4, least_resources=resources, admitted_by="volcano")


def admissions(cluster: Cluster, *names: str) -> GangAdmissions:
    tree = QueueTree()
    quota = QueueAdmissions(tree, QueueNames(tree), Charges(cluster), SchedulingQueue())
    return GangAdmissions(cluster, names or ("volcano",), quota)


def test_a_gang_is_admitted_if_the_sum_of_its_needs_is_free() -> None:
    found = admissions(drawn("a ........"))
    assert found.status(gang(8), 0.0) == ADMITTED
    assert found.status(gang(12, "large"), 0.0) == WAITING


def test_a_gang_that_names_no_resources_is_admitted_at_once() -> None:
    assert admissions(drawn("a")).status(gang(0), 0.0) == ADMITTED


def test_a_resource_that_no_node_has_is_not_free() -> None:
    spec = GangSpec("volcano/ns/g", 1, least_resources=(("a.b/c", 1),), admitted_by="volcano")
    message = "the gang needs 1 of a.b/c, and 0 is free"
    status = admissions(drawn("a ........")).status(spec, 0.0)
    assert status is not None
    assert status.message == message


def test_a_scheduler_of_another_name_says_nothing() -> None:
    found = admissions(drawn("a ........"), "gpu-scheduler")
    assert found.status(gang(8), 0.0) is None
    assert found.due_s() is None


def test_it_is_admitted_once_there_is_room_and_stays_so() -> None:
    cluster = drawn("a ........")
    found = admissions(cluster)
    assert found.status(gang(12), 0.0) == WAITING
    assert found.admitted(now=0.0) == []
    cluster.put_node(drawn("b ........").node_at(0))
    assert found.admitted(now=EVERY_S / 2) == []
    assert found.admitted(now=EVERY_S) == [gang(12).key]
    assert found.status(gang(12), 0.0) == ADMITTED
    cluster.remove_node("b")
    assert found.status(gang(12), 0.0) == ADMITTED


def test_nothing_is_computed_while_nothing_changes() -> None:
    cluster = drawn("a ........")
    found = admissions(cluster)
    found.status(gang(12), 0.0)
    assert found.due_s() == 0.0
    found.admitted(now=0.0)
    asked: list[str] = []
    found._free = lambda name: asked.append(name) or 0  # type: ignore[method-assign]
    found.admitted(now=5.0)
    assert asked == []


def test_a_changed_gang_is_looked_at_again_and_one_that_is_gone_is_forgotten() -> None:
    found = admissions(drawn("a ........"))
    assert found.status(gang(12), 0.0) == WAITING
    assert found.status(gang(8), 0.0) == ADMITTED
    found.forget(gang(8).key)
    assert found.status(gang(12), 0.0) == WAITING
    found.forget(gang(8).key)
    assert found.due_s() is None


def test_a_revoked_gang_is_admitted_when_its_pause_ends_although_nothing_has_changed() -> None:
    found = admissions(drawn("a ........"))
    assert found.status(gang(8), 0.0) == ADMITTED
    assert found.status(gang(12, "large"), 0.0) == WAITING
    assert found.revoked(LONGEST_S) == [gang(8).key]
    assert found.admitted(LONGEST_S) == []

    status = found.status(gang(8), LONGEST_S)
    assert status is not None
    assert status.message == REVOKED
    assert found.admitted(2 * LONGEST_S - EVERY_S) == []
    assert found.admitted(2 * LONGEST_S) == [gang(8).key]
