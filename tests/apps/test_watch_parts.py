"""A part of a watch that breaks leaves no other part running, which is then started twice."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from fairlead.apps.run.gang_watches import GangWatches
from fairlead.apps.run.named_readings import NamedReadingFeed
from fairlead.apps.run.node_requests import NodeRequestCare
from fairlead.apps.run.queue_watches import QueueWatches
from fairlead.apps.run.served_kinds import ServedKinds
from fairlead.apps.run.yunikorn_watch import YunikornWatch
from fairlead.apps.supervising import supervise
from fairlead.kube.failures import Failures
from fairlead.kube.gangs import registry as gangs
from fairlead.kube.queues.registry import QueueDialects
from fairlead.kube.queues.yunikorn import YunikornQueues
from fairlead.kube.writes.event_writer import EventWriter
from fairlead.kube.writes.outbox import Outbox

_NOTHING: Any = None  # nothing here connects


class Defect(Exception):
    pass


async def breaks(*_: object) -> None:
    raise Defect("oops")


async def endless(*_: object) -> None:
    await asyncio.Event().wait()


async def supervised(name: str, run: Any) -> None:
    await supervise(Failures(), name, run)


def node_requests() -> NodeRequestCare:
    feed: Any = lambda _: None  # noqa: E731
    return NodeRequestCare(_NOTHING, _NOTHING, _NOTHING, _NOTHING, feed, supervised, lambda: True)


def gang_watches() -> GangWatches:
    care = node_requests()
    return GangWatches(_NOTHING, gangs.ALL, _NOTHING, supervised, _NOTHING, requests=care)


def queue_watches() -> QueueWatches:
    dialects = QueueDialects([YunikornQueues(("yunikorn", "yunikorn-configs"))])
    return QueueWatches(_NOTHING, dialects, _NOTHING, supervised, _NOTHING)


def readings() -> NamedReadingFeed:
    feed = NamedReadingFeed([], cast(Any, None))
    feed.sources = cast(Any, ["endless", "breaks"])
    return feed


def event_writer() -> EventWriter:
    writer = EventWriter(_NOTHING, hostname="h", now_ns=lambda: 0, limit=1, workers=1)
    writer._notices = cast(Any, SimpleNamespace(run=breaks))
    return writer


@pytest.mark.parametrize(
    ("made", "replaced"),
    [
        (node_requests, (NodeRequestCare, "_tend_forever", breaks)),
        (gang_watches, (NodeRequestCare, "_tend_forever", breaks)),
        (queue_watches, (YunikornWatch, "look_on", breaks)),
        (readings, (NamedReadingFeed, "_follow", lambda _, word: globals()[word]())),
        (event_writer, (Outbox, "run", endless)),
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)
async def test_nothing_is_left_running(made, replaced, monkeypatch) -> None:
    monkeypatch.setattr(ServedKinds, "run", endless)
    monkeypatch.setattr("fairlead.kube.mirror.reflector.Reflector.run", endless)
    monkeypatch.setattr(*replaced)
    with pytest.raises(Defect):
        await made().run()
    assert asyncio.all_tasks() == {asyncio.current_task()}
