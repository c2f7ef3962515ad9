"""A story of kinds that are not served everywhere: the scheduler watches all of them.

Each story changes objects of a few kinds, which it draws, and of pods that name them. Kinds are
removed and installed again, the statuses of their objects are made, and users ask about them.
"""

import contextlib
import copy
import json
from collections.abc import Iterator
from random import Random
from typing import Any

import msgspec
import yaml

from fairlead.apps.config.profiles import aiming, built_in
from fairlead.apps.explain.compute_domains import domain_lines, domains_answer
from fairlead.engine import events
from fairlead.kube.admission.queue_reviews import QueueReviews
from fairlead.kube.advance import ADVANCE, ServedAdvance
from fairlead.kube.claims.kinds import COMPUTE_DOMAINS
from fairlead.kube.counted import COUNTED_KIND, ServedCounted
from fairlead.kube.counted_words import COUNTED
from fairlead.kube.gangs import registry as gangs
from fairlead.kube.gangs.status_writer import ServedKind
from fairlead.kube.gangs.topology_objects import KINDS as TOPOLOGY_KINDS
from fairlead.kube.queues import registry as queues
from fairlead.kube.queues.status_writer import ServedQueues
from fairlead.kube.queues.yunikorn_config import decode_yunikorn
from fairlead.model.advance import AdvancePhase, AdvanceStatus
from fairlead.model.counted import CountedStatus
from fairlead.model.data_sets import DATA, MODEL
from fairlead.model.gangs import GangState, GangStatus
from fairlead.model.queues import PastUse, QueueStatus
from fairlead.plugins.fetch_time import FetchTime
from fairlead.plugins.goals import GoalLevel, Goals
from fuzz.gangs import SPECS, drawn_object, drawn_pod
from fuzz.mutations import mutated
from fuzz.objects import SCHEDULER, Json, node
from fuzz.optional_objects import (
    CHANNEL,
    COUNTED_RESOURCE,
    DATA_OBJECTS,
    DOMAIN,
    QUEUES,
    RESERVATIONS,
    YUNIKORN,
)
from fuzz.target import Target
from fuzz.topologies import TOPOLOGIES
from fuzz.watched import Watched, optional_watches

STEPS = 40
BY_DATA = aiming(
    built_in(SCHEDULER), Goals((GoalLevel(((FetchTime(cache_prefix="zone/"), 1.0),)),))
)
_GANGS = {each.kind.full_name: each for each in gangs.DIALECTS if each.kind and each.name in SPECS}
_QUEUES = {
    each.kind.full_name: each for each in queues.DIALECTS if each.kind and each.name in QUEUES
}
#: By kind, an object that is changed; those of gangs are drawn by `drawn_object`.
OBJECTS: dict[str, tuple[Json, ...]] = {
    **{name: (QUEUES[each.name],) for name, each in _QUEUES.items()},
    **{kind.full_name: (obj,) for kind, obj in DATA_OBJECTS.items()},
    **{TOPOLOGY_KINDS[name].full_name: (obj,) for name, obj in TOPOLOGIES.items()},
    ADVANCE.full_name: RESERVATIONS,
    COUNTED_KIND.full_name: (COUNTED_RESOURCE,),
    COMPUTE_DOMAINS.full_name: (DOMAIN,),
}
KINDS = (*_GANGS, *OBJECTS)
_IN_NAMESPACES = {*_GANGS, "datasets.data.fluid.io", "localmodelnamespacecaches.serving.kserve.io"}
#: What annotations of pods say.
_ASKED = {
    COUNTED: ("a=1", "b=2,c=1", "a=1,a=1", "a=0", "a=x", "=", "a", ",", "a=999999999999999",
              "a = 1 "),
    DATA: ("dataset/a", "model/a, model/b", "a=5Gi", "a=", "=", ",", "a=1e400", "model/", "a=-1",
           "x" * 5000),
    MODEL: ("a",),
}  # fmt: skip
_QUEUE_LABELS = [key for each in queues.DIALECTS for key in each.label_keys]
_QUEUE_STATUS = QueueStatus((("nvidia.com/gpu", 1500),), (), PastUse(1e9, 1.0), 1, 2, 3)
_ADVANCE_STATUS = AdvanceStatus(AdvancePhase.ACTIVE, ("sane-0",), 2, 1, "why", (("sane-0", 2),))
_COUNTED_STATUS = CountedStatus(1, 2, 0, (("default", 1),), (("rack/a", 1, 3),), "")


class OptionalKindsStory:
    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.target = Target(self.rng, BY_DATA)
        self._kinds = {
            name: Watched(self.target, watch)
            for name, watch in optional_watches(self.target).items()
            if name in KINDS
        }
        # Each kind in its turn, and two others.
        self._few = [KINDS[seed % len(KINDS)], *self.rng.sample(KINDS, 2)]
        self._reviews = QueueReviews()
        self._reviews.is_complete = True
        self.written = 0

    def run(self) -> int:
        ways = (self._objects, self._remove, self._others, self._pod)
        for number in range(STEPS):
            (way,) = self.rng.choices(ways, (8, 1, 2, 10))
            way(number)
            self.target.decide(self.rng.choice((0, 1, 3)))
            self.target.engine.tend(now=self.target._now)
            self._explain()
        for watched in self._kinds.values():
            watched.is_removed()
        self.target.check()
        return self.written

    def _objects(self, _: int) -> None:
        for _ in range(3):
            self._object(self.rng.choice(self._few))

    def _object(self, kind: str) -> None:
        watched, namespace = self._kinds[kind], "default" if kind in _IN_NAMESPACES else ""
        # Not that of the pod that is placed in the end: a quota applies to its whole namespace.
        namespace = "team" if kind.startswith("elasticquotas") else namespace
        name = self.rng.choice("gh" if kind in _GANGS else "abc")
        change = "DELETED" if self.rng.random() < 0.1 else "ADDED"
        raw = watched.show(self._drawn(kind), name, namespace, change)
        for seen in watched.objects.values():
            for body in self._bodies(kind, seen):
                json.dumps(body)
                self.written += 1
        if kind in _QUEUES:
            with contextlib.suppress(msgspec.ValidationError):  # of metadata: nobody can write it
                self._reviews.problem_with_queue(raw)

    def _drawn(self, kind: str) -> Json:
        if dialect := _GANGS.get(kind):
            return drawn_object(self.rng, (dialect.name,))[1]
        return mutated(self.rng, self.rng.choice(OBJECTS[kind]))

    def _bodies(self, kind: str, seen: Any) -> Iterator[Json | None]:
        """What would be written as its status."""
        if dialect := _GANGS.get(kind):
            place = ServedKind(dialect, dialect.kind, dialect.kind.versions[0])
            for state in GangState:
                yield place.body(seen, GangStatus(state, 2, 2, 1, 0, "why"), "now")
        elif queue := _QUEUES.get(kind):
            yield ServedQueues(queue, queue.kind, queue.kind.versions[0]).body(
                seen, _QUEUE_STATUS, "now"
            )
            if queue.name == "fairlead":
                self._reviews.seen(seen.spec)
        elif kind == ADVANCE.full_name:
            assert len(seen.described.problem) < 2000
            yield ServedAdvance("v1alpha1").body(seen, _ADVANCE_STATUS, "now")
        elif kind == COUNTED_KIND.full_name:
            yield ServedCounted("v1alpha1").body(seen, _COUNTED_STATUS, "now")

    def _remove(self, _: int) -> None:
        kind = self.rng.choice(self._few)
        self._kinds[kind].is_removed()
        is_served = self.rng.random() < 0.8
        if dialect := _GANGS.get(kind):
            told: events.Event = events.GangKindSeen(dialect.name, "" if is_served else "gone")
        elif queue := _QUEUES.get(kind):
            told = events.QueueKindSeen(queue.name, is_served=is_served)
        else:
            return
        self.target.feed(told)

    def _others(self, number: int) -> None:
        """Nodes by whose labels topologies select, channels of domains, a list of queues."""
        self.rng.choice((self._node, self._channel, self._yunikorn))(number)

    def _node(self, number: int) -> None:
        labels = {key: self.rng.choice("ab") for key in ("zone", "rack") if self.rng.random() < 0.8}
        name = f"gpus-{number % 5 + 1}"
        labels["kubernetes.io/hostname"] = name
        meta = {"name": name, "uid": name, "labels": labels}
        self.target.show({**node(), "metadata": meta}, "MODIFIED")

    def _channel(self, _: int) -> None:
        claim = mutated(self.rng, CHANNEL)
        name = self.rng.choice("ab")
        meta = {"name": name, "uid": f"uid-{name}"}
        kind = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim"}
        self.target.show({**claim, **kind, "metadata": meta})

    def _yunikorn(self, _: int) -> None:
        text = yaml.safe_dump(mutated(self.rng, copy.deepcopy(YUNIKORN)), allow_unicode=True)
        meta = {"name": "yunikorn-configs", "namespace": "team", "uid": "u", "resourceVersion": "7"}
        body = {"metadata": meta, "data": {"queues.yaml": text}}
        found = decode_yunikorn("yunikorn", json.dumps(body).encode())
        for spec in found.queues:
            self.target.feed(events.QueueSeen(spec))
        self.target.feed(events.QueueKindSeen("yunikorn", is_served=True, problem=found.problem))

    def _pod(self, number: int) -> None:
        pod = drawn_pod(self.rng, self.rng.randint(0, number))
        said = pod["metadata"].setdefault("annotations", {})
        labels = pod["metadata"].setdefault("labels", {})
        for word, values in _ASKED.items():
            if isinstance(said, dict) and self.rng.random() < 0.4:
                said[word] = self.rng.choice(values)
        if isinstance(labels, dict) and self.rng.random() < 0.5:
            labels[self.rng.choice(_QUEUE_LABELS)] = self.rng.choice("abc")
        if self.rng.random() < 0.1:
            of = self.rng.choice(({"resourceClaimName": "a"}, {"resourceClaimTemplateName": "t"}))
            pod["spec"]["resourceClaims"] = [{"name": "c", **of}]
        self.target.show(pod, "DELETED" if self.rng.random() < 0.1 else "ADDED")

    def _explain(self) -> None:
        for entry in list(self.target.engine.queue.gangs()):
            for pod in entry.unit.pods:
                found = domains_answer(self.target.engine, pod, nodes=True)
                list(domain_lines(found.get("computeDomains", [])))
