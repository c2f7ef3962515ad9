"""Many units wait, and time passes."""

from collections.abc import Iterator
from functools import partial

from fairlead.engine.events import PodSeen, QueueSeen
from fairlead.kube.codec import decode_pod
from fairlead.model.queues import GPUS, QueueSpec
from hostile_cluster import Later, Made, Shape, Size, a_pod, encoded

#: Longer than any unit waits without being tried.
_LONG_S = 400.0


def waiting_for_long(size: Size, *, in_queues: bool = False) -> Iterator[Made | Later]:
    """Pods wait for what no node has, and are tried again."""
    queues = 10 if in_queues else 0
    for number in range(queues):
        yield partial(QueueSeen, QueueSpec(f"fairlead/q{number}", guaranteed=((GPUS, 1000),)))
    for number in range(size.many if in_queues else size.pods):
        body = a_pod(f"w{number}", gpus=9 + number % 4, priority=number % 3)
        if queues:
            body["metadata"]["labels"] = {"fairlead.dev/queue": f"q{number % queues}"}
        raw = encoded(body)
        yield lambda raw=raw: PodSeen(decode_pod(raw))
    yield Later(_LONG_S)


WAITING_SHAPES: dict[str, Shape] = {
    "waiting for long": waiting_for_long,
    "waiting for long in queues": partial(waiting_for_long, in_queues=True),
}
