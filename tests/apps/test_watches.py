"""What the watches make of objects."""

import json
from typing import Any

from builders import an_engine
from fairlead.apps.run.watches import Watches
from fairlead.kube.gangs.registry import ALL, GangDialects
from fairlead.kube.queues.registry import ALL_QUEUES, QueueDialects

POD = json.dumps({
    "metadata": {
        "name": "p", "namespace": "ns", "uid": "u",
        "labels": {"fairlead.dev/gang": "g", "fairlead.dev/queue": "q"},
        "annotations": {"fairlead.dev/gang-min": "2"},
    },
    "spec": {"containers": [{"name": "c"}]},
}).encode()  # fmt: skip


def watches(gangs: GangDialects, queues: QueueDialects) -> Watches:
    nothing: Any = None  # nothing is asked before they run
    return Watches(
        nothing, an_engine(), nothing, nothing, nothing,
        with_selectors=False, gang_dialects=gangs, queue_dialects=queues,
    )  # fmt: skip


def test_pods_are_read_by_the_dialects_that_are_on() -> None:
    found = watches(ALL, ALL_QUEUES).decode_pod(POD)
    assert found.gang is not None
    assert found.queue == "fairlead/q"


def test_words_of_dialects_that_are_off_are_not_read() -> None:
    found = watches(GangDialects(()), QueueDialects(())).decode_pod(POD)
    assert (found.gang, found.queue) == (None, "")
