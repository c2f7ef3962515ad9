"""Which queue a pod or a gang belongs to."""

from fairlead.model.gangs import GangSpec
from fairlead.queue.quotas.names import QueueNames
from fairlead.queue.quotas.tree import QueueTree


def test_a_gang_without_pods_belongs_to_the_queue_of_its_namespace() -> None:
    names = QueueNames(QueueTree())
    names.put_kind("fairlead", "", is_served=True)
    names.put_namespace("team", "fairlead/red")
    names.put_namespace("", "fairlead/none")
    assert names.of_gang(GangSpec("volcano/team/train", 4)) == "fairlead/red"
    assert names.of_gang(GangSpec("volcano/other/train", 4)) == ""
    assert (
        names.of_gang(GangSpec("volcano/team/train", 4, queue="fairlead/blue")) == "fairlead/blue"
    )
