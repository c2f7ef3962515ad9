"""Units that come in numbers, or are as large as they can be, and change again and again."""

from collections.abc import Callable, Iterator
from functools import partial

from fairlead.apps.config.profiles import built_in, ruled
from fairlead.engine.engine import Engine
from fairlead.engine.events import (
    AdvanceSeen,
    CountedSeen,
    ForecastSeen,
    GangGone,
    GangSeen,
    PodGone,
    QueueSeen,
    ServiceClassesSeen,
)
from fairlead.kube.codec import decode_pod
from fairlead.model.advance import AdvanceReservation
from fairlead.model.backfill import BackfillMode, BackfillTerms
from fairlead.model.counted import CountedResource
from fairlead.model.forecasts import Forecast
from fairlead.model.gangs import GangSpec, Group
from fairlead.model.queues import GPUS, QueueSpec
from fairlead.model.service_classes import ServiceClass
from fairlead.model.start_times import Window
from fairlead.plugins.rules import NodeRules
from hostile_cluster import (
    GANG,
    MAPPING,
    PROFILE,
    SCHEDULER,
    Later,
    Made,
    Shape,
    Size,
    a_pod,
    encoded,
    gone,
    seen,
)

_QUEUE = "fairlead.dev/queue"


def kinds_in_a_queue(size: Size) -> Iterator[Made]:
    """Pods that all ask for something else wait in one queue, whose limit changes."""
    for limit in (10**9, 2 * 10**9):
        yield partial(QueueSeen, QueueSpec("fairlead/q", limit=((GPUS, limit),)))
        for number in range(size.each if limit == 10**9 else 0):
            pod = a_pod(f"w{number}", gpus=3 + number % 6, cpu=f"{1000 + number}m")
            pod["metadata"]["labels"] = {_QUEUE: "q"}
            yield seen(pod)
    yield gone(size, 1)


def gang_of_too_many(size: Size) -> Iterator[Made]:
    """A gang of more pods than the cluster has room for; its pods change, and go."""
    bodies = []
    for number in range(size.each):
        body = a_pod(f"g-{number}", gpus=1)
        body["metadata"]["annotations"] = {GANG: "g", f"{GANG}-min": str(size.each)}
        bodies.append(body)
        yield seen(body)
    for body in bodies[: size.many // 40]:
        body["metadata"]["labels"] = {"app": "changed"}
        yield seen(body)
    yield gone(size, 1)
    for body in bodies:
        pod = decode_pod(encoded(body))
        yield partial(PodGone, pod)


def many_gangs(size: Size) -> Iterator[Made | Later]:
    """Gangs that all ask for something else wait; pods end, and time passes."""
    for number in range(size.many // 2):
        for member in range(2):
            body = a_pod(f"g{number}-{member}", gpus=3 + number % 6, cpu=f"{1000 + number}m")
            body["metadata"]["annotations"] = {GANG: f"g{number}", f"{GANG}-min": "2"}
            yield seen(body)
    for number in range(3):
        yield gone(size, number)
        yield Later(11.0)
    yield Later(400.0)


def gang_of_groups(size: Size) -> Iterator[Made]:
    """A gang object with as many groups as it may have changes while its pods wait."""
    groups = max(2, size.each // 10)
    pods = [a_pod(f"p{number}", gpus=9) for number in range(size.each // 2)]
    for round_ in range(6):
        each = tuple(Group(f"r{at}", 1 + round_ % 3) for at in range(groups))
        yield partial(GangSeen, GangSpec("volcano/team-0/g", groups + round_, groups=each))
        for number, body in enumerate(pods if not round_ else ()):
            body["metadata"]["annotations"] = {
                "scheduling.k8s.io/group-name": "g",
                "volcano.sh/task-spec": f"r{number % groups}",
            }
            yield seen(body)
    yield gone(size, 1)
    yield partial(GangGone, "volcano/team-0/g")


def windows(size: Size) -> Iterator[Made | Later]:
    """Many units start by a forecast of many values, which changes."""
    words = {"fairlead.dev/start-window": "low-carbon 100h", "fairlead.dev/run-time": "5h"}
    for round_ in range(3):
        spans = tuple(
            (900.0 * at, 900.0 * (at + 1), float((at * 7 + round_) % 97))
            for at in range(size.each // 10)
        )
        yield partial(ForecastSeen, Forecast(Window.LOW_CARBON, "bench", "g", spans))
        for number in range(size.many if not round_ else 0):
            body = a_pod(f"w{number}", cpu=f"{1000 + number}m")
            body["metadata"]["annotations"] = {**words, "fairlead.dev/run-time": f"{number + 60}m"}
            yield seen(body)
        yield Later(11.0)


def classes(size: Size) -> Iterator[Made | Later]:
    """Many units of service classes wait while the classes change."""
    for round_ in range(3):
        each = tuple(
            ServiceClass(f"c{at}", 60.0 + round_ + at) for at in range(max(1, size.many // 100))
        )
        yield partial(ServiceClassesSeen, each)
        for number in range(size.each if not round_ else 0):
            body = a_pod(f"w{number}", gpus=9 + number % 5)
            name = f"c{number % len(each)}"
            body["metadata"]["annotations"] = {"fairlead.dev/service-class": name}
            yield seen(body)
        yield Later(400.0)


def run_times_change(size: Size) -> Iterator[Made | Later]:
    """A gang is planned; what running pods say of their end changes again and again."""
    for number in range(size.pods):
        yield _running(size, number, 60)
    pods = size.each * 300 // 10_000
    for number in range(pods):
        body = a_pod(f"g-{number}", gpus=8)
        body["metadata"]["annotations"] = {
            GANG: "g", f"{GANG}-min": str(pods), "fairlead.dev/run-time": "1h"}  # fmt: skip
        yield seen(body)
    for round_ in range(3):
        for number in range(size.many // 10):
            yield _running(size, number * 7, 60 + round_)
        yield Later(1.0)


def _running(size: Size, number: int, more_s: int) -> Made:
    body = a_pod(f"there-{number}", gpus=1, namespace=f"team-{number % 20}")
    text = f"{more_s + 3600 * (1 + number // size.nodes)}s"
    body["metadata"]["annotations"] = {"fairlead.dev/time-limit": text}
    body["status"] = {"startTime": "1970-01-01T00:00:00Z"}
    body["spec"]["nodeName"] = size.node(number)
    return seen(body)


def rules_of_each(size: Size) -> Iterator[Made]:
    """Each pod has a rule of its own."""
    for number in range(size.many // 4):
        body = a_pod(f"r{number}", gpus=9)
        rule = f"node.labels.all(k, node.labels[k] != 'x{number}')"
        body["metadata"]["annotations"] = {"fairlead.dev/node-rule": rule}
        yield seen(body)
    yield gone(size, 1)


def counted_words(size: Size) -> Iterator[Made]:
    """Pods ask for as many counted resources as an annotation has room for."""
    for number in range(8):
        yield partial(CountedSeen, CountedResource(f"r{number}", 10))
    words = ",".join(f"r{at}=1" for at in range(size.each // 2))
    for number in range(size.many // 20):
        body = a_pod(f"c{number}", cpu=f"{1000 + number}m")
        body["metadata"]["annotations"] = {"fairlead.dev/counted-resources": f"{words},r{number}=2"}
        yield seen(body)
    for number in range(8):
        yield partial(CountedSeen, CountedResource(f"r{number}", 20))
    yield gone(size, 1)


def reservations_change(size: Size) -> Iterator[Made | Later]:
    """As many reservations as have an effect, each of which changes every second."""
    for round_ in range(3):
        for number in range(size.many // 8):
            start_s = 3600.0 + 60.0 * number + round_
            end_s = start_s + 3600.0
            made = AdvanceReservation(f"a{number}", start_s, end_s, gpus=8 + round_)
            yield partial(AdvanceSeen, made)
        yield Later(1.0)
    yield seen(a_pod("h", gpus=1))


def beside_a_large_gang(size: Size) -> Iterator[Made]:
    """A gang would fit now, and delay another of as many pods that is planned."""
    for number in range(size.pods):
        yield _running(size, number, 60)
    pods = size.each // 10
    for name, gpus, run_time in (("g", 5, "1h"), ("h", 1, "50h"), ("i", 1, "60h")):
        for number in range(pods):
            body = a_pod(f"{name}-{number}", gpus=gpus)
            body["metadata"]["annotations"] = {
                GANG: name, f"{GANG}-min": str(pods), "fairlead.dev/run-time": run_time,
            }  # fmt: skip
            yield seen(body)
    yield gone(size, 1)


def ruled_engine() -> Engine:
    profile = ruled(built_in(PROFILE), NodeRules((), user_rules=True))
    return Engine({SCHEDULER: profile, MAPPING: built_in("gpu-scheduler")})


def planning_engine() -> Engine:
    profiles = {SCHEDULER: built_in(PROFILE), MAPPING: built_in("gpu-scheduler")}
    return Engine(profiles, backfill=BackfillTerms(BackfillMode.EASY))


UNIT_SHAPES: dict[str, Shape] = {
    "kinds in one queue": kinds_in_a_queue,
    "gang of too many pods": gang_of_too_many,
    "many different gangs": many_gangs,
    "gang of many groups": gang_of_groups,
    "start windows": windows,
    "service classes": classes,
    "run times change": run_times_change,
    "rules of each user": rules_of_each,
    "counted resources of pods": counted_words,
    "reservations change": reservations_change,
    "beside a large planned gang": beside_a_large_gang,
}
UNIT_ENGINES: dict[str, Callable[[], Engine]] = {
    "rules of each user": ruled_engine,
    "run times change": planning_engine,
    "beside a large planned gang": planning_engine,
}
