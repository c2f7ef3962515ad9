"""A scheduler without a cluster: objects in as a watch would tell them, decisions out.

Everything is real but the API server: the decoders, the mirror, the engine and its containment,
what is written for binds and events. It keeps what an API server would, as raw JSON.
"""

import contextlib
import json
from collections.abc import Callable, Iterator
from random import Random
from typing import Any, cast

import msgspec

from builders import SCHEDULER
from fairlead.apps.config import config as configs
from fairlead.apps.config import kube_scheduler
from fairlead.apps.config.profiles import built_in
from fairlead.apps.run.claim_watches import ClaimWatches
from fairlead.apps.run.containment import Containment
from fairlead.apps.run.watches import Watches
from fairlead.cluster.checking import wrong_nodes
from fairlead.engine import events
from fairlead.engine.engine import Engine
from fairlead.engine.instructions import (
    AnnounceFailure,
    AttemptCrashed,
    Bind,
    Evict,
    Instruction,
    Prepare,
)
from fairlead.kube.access import reviews
from fairlead.kube.admission.admission_handler import AdmissionHandler
from fairlead.kube.admission.class_reviews import ClassReviews
from fairlead.kube.admission.review import BadReview
from fairlead.kube.bind_encoder import DialectEncoder
from fairlead.kube.claims.kinds import CLAIM_KINDS, COMPUTE_DOMAINS, TAINT_RULES
from fairlead.kube.errors import ApiError
from fairlead.kube.extender.extender_handler import ExtenderHandler
from fairlead.kube.extender.wire import BadExtenderArgs, read_bind
from fairlead.kube.failures import Failures
from fairlead.kube.http.client import Client
from fairlead.kube.http.reply import UNREADABLE, Reply
from fairlead.kube.leadership import epochs
from fairlead.kube.leadership.election import Terms
from fairlead.kube.leadership.lease import LeaseClient
from fairlead.kube.mirror.position import OutOfStep
from fairlead.kube.mirror.reflector import Reflector
from fairlead.kube.version import parse_version
from fairlead.kube.writes.annotations import problem_with_binding
from fairlead.kube.writes.binder import encode_binding
from fairlead.kube.writes.event_objects import failed_event
from fairlead.model.behaviour import KNOWN
from fairlead.model.errors import ConfigError, FairleadError
from fairlead.model.pods import Pod
from fairlead.model.service_classes import GpuTerms, ServiceClass
from fairlead.placement.profile import Profile
from fairlead.plugins.registry import Registry
from fuzz.objects import GPU_MIB, GPUS, KINDS, Json, node, pod
from raw_audit import given_twice

_GPU = "nvidia.com/gpu"
#: One with terms about GPUs, by name or by PriorityClass.
_CLASSES = (
    ServiceClass("0.5", 60.0, gpus=GpuTerms(quiet=0.5, neighbours=0.0, packed=True)),
    ServiceClass("b", 60.0, priority_classes=frozenset({"high"})),
)
_NO_CLIENT = cast(Client, None)  # nothing here connects
_LEASES = LeaseClient(_NO_CLIENT, Terms())
_EPOCHS = epochs.EpochClient(_NO_CLIENT, Terms(), lambda: True)
_RIGHT = reviews.Right("list", "pods")
_PLUGINS = Registry()
_FOLDERS = {kind: path.replace("/namespaces/{namespace}", "") for kind, (path, _) in KINDS.items()}


class Found(AssertionError):
    """Something that an object must not do."""


class _Noted(Failures):
    """Takes down every unexpected error."""

    def __init__(self) -> None:
        super().__init__()
        self.errors: list[tuple[str, str, Exception]] = []

    def note(self, doing: str, about: str, error: Exception) -> str:
        self.counts[doing] += 1
        self.errors.append((doing, about, error))
        return f"internal error: {error!r}"


class Target:
    def __init__(self, rng: Random, profile: Profile | None = None) -> None:
        profile = profile or built_in(SCHEDULER)
        self.failures = _Noted()
        encode = DialectEncoder(lambda: 0, failures=self.failures)
        self.engine = Engine({SCHEDULER: profile}, extender_profile=profile, encode=encode)
        self.engine.handle(events.ServiceClassesSeen(_CLASSES), now=0.0)
        self.containment = Containment(self.engine, self.failures)
        self.watches = Watches(
            _NO_CLIENT,
            self.engine,
            self.feed,
            lambda: None,
            self._on_unreadable,
            with_selectors=True,
        )
        self.mirrors: tuple[Reflector[Any], ...] = (*self.watches.all, *self._claim_mirrors())
        self._reflectors: dict[str, Reflector[Any]] = {each.path: each for each in self.mirrors}
        for each in self.mirrors:
            each._feed._decode = self._strict(each._feed._decode)
        self._rng = rng
        self._now = 1000.0
        self._version = 100
        self.pods: dict[str, Json] = {}  # by uid, as the API server has them
        self.bound: dict[str, Json] = {}  # those that were bound by us
        self.told: dict[str, Json] = {}  # what was written with their binds
        self._binding: set[str] = set()
        self.refused: list[str] = []
        for name, words in (("sane-0", {}), ("gpus-0", {"fairlead.dev/inventory": GPUS})):
            self.show(_sane_node(name, words))

    def _claim_mirrors(self) -> Iterator[Reflector[Any]]:
        watches = ClaimWatches(_NO_CLIENT, self.feed, self.containment.supervise)
        for kind, decode in CLAIM_KINDS.items():
            if kind not in (TAINT_RULES, COMPUTE_DOMAINS):  # not served by default
                yield Reflector(_NO_CLIENT, kind.path("v1"), decode, watches._on_change)

    # -- what an API server shows ------------------------------------------------------------

    def show(self, obj: Json, change: str = "ADDED") -> Json:
        """An object as if it was accepted: the server names it and counts its versions."""
        self._version += 1
        meta = obj["metadata"] if isinstance(obj.get("metadata"), dict) else {}
        kind = obj["kind"]
        meta |= {"resourceVersion": str(self._version), "name": meta.get("name") or "x"}
        if kind == "Pod":
            obj = self._as_update(obj, meta)
        meta.setdefault("uid", f"uid-{self._version}")
        if "{namespace}" in KINDS[kind][0]:
            meta["namespace"] = "default"
        obj = {**obj, "metadata": meta}
        line = json.dumps({"type": change, "object": obj}).encode()
        try:
            self._reflectors[_FOLDERS[kind]]._feed.apply(line)
        except OutOfStep:
            return obj  # the watch begins again: nothing is lost
        if kind == "Pod" and change == "DELETED":
            self.pods.pop(meta["uid"], None)
            self.bound.pop(meta["uid"], None)
        elif kind == "Pod":
            self.pods[meta["uid"]] = obj
        return obj

    def _as_update(self, obj: Json, meta: Json) -> Json:
        """Of a pod that is there only labels and annotations change, and not who has which GPU."""
        same = (uid for uid, raw in self.pods.items() if raw["metadata"]["name"] == meta["name"])
        uid = meta.get("uid") or next(same, None)
        if uid not in self.pods or obj is self.pods[uid]:
            return obj
        meta["uid"], words = uid, meta.get("annotations")
        if isinstance(words, dict | None):
            meta["annotations"] = {**(words or {}), **self.told.get(uid, {})}
        spec = obj if uid in self._binding else self.pods[uid]
        return {**obj, "spec": spec.get("spec")}

    def feed(self, event: events.Event) -> None:
        self._now += 0.01
        for made in self.containment.handle(event, self._now):
            self._perform(made)

    def decide(self, times: int) -> None:
        for _ in range(times):
            self._now += 2.0
            attempt = self.containment.decide(self._now)
            for made in attempt.instructions if attempt else ():
                self._perform(made)

    def _strict(self, decode: Callable[[bytes], Any]) -> Callable[[bytes], Any]:
        """A decoder may refuse what no API server would accept, in the ways meant for that."""

        def strict(raw: bytes) -> Any:
            try:
                return decode(raw)
            except (*UNREADABLE, FairleadError):
                raise
            except Exception as error:
                self.failures.errors.append(("reading", raw.decode()[:2000], error))
                raise

        return strict

    def _on_unreadable(self, key: str, _: Pod | None, error: Exception) -> None:
        self.failures.counts["reading"] += 1
        if not isinstance(error, ValueError):  # what is undecodable is told as a ValueError
            self.failures.errors.append(("reading", key, error))

    # -- what is done about it ---------------------------------------------------------------

    def _perform(self, made: Instruction) -> None:
        match made:
            case Bind():
                self._bind(made)
            case Prepare(pod=waiting):
                self.feed(events.PrepareFailed(waiting.uid, "no volumes here"))
            case Evict(pod=waiting):
                for victim in made.victims:
                    if victim.uid in self.pods:
                        self.show(self.pods[victim.uid], "DELETED")
                self.feed(events.EvictionEnded(waiting.uid, ""))
            case AnnounceFailure(waiting, _, message):
                msgspec.json.encode(failed_event(waiting, message, "host", 0))
                self.refused.append(f"{waiting.key}: {message}")
                if "plugin failed" in message:
                    self.failures.errors.append(("deciding", waiting.key, Found(message)))
            case AttemptCrashed():
                self.failures.errors.append(("deciding", made.pod.key, made.error))

    def _bind(self, bind: Bind) -> None:
        uid, told = bind.pod.uid, dict(bind.annotations)
        if problem := problem_with_binding(bind.node, told):
            self.feed(events.BindFailed(uid, events.BindProblem.DENIED, problem))
            return
        encode_binding(bind)
        if uid not in self.pods or self._rng.random() < 0.1:
            self.feed(events.BindFailed(uid, events.BindProblem.UNAVAILABLE, "not now"))
            return
        raw = json.loads(json.dumps(self.pods[uid]))
        raw["spec"]["nodeName"] = bind.node
        raw["metadata"]["annotations"] = {**(raw["metadata"].get("annotations") or {}), **told}
        self.told[uid] = told
        self.feed(events.BindDone(uid))
        if self._rng.random() < 0.3:  # the watch is late
            self.show(self.pods[uid], "MODIFIED")
        self._binding.add(uid)
        self.bound[uid] = self.show(raw, "MODIFIED")
        self._binding.discard(uid)

    # -- other ways in -----------------------------------------------------------------------

    def review(self, review: Json) -> None:
        handler = AdmissionHandler(frozenset({SCHEDULER}), classes=ClassReviews.of(_CLASSES))
        body = json.dumps(review).encode()
        for ask in (handler.mutate, handler.validate):
            try:
                json.loads(ask(body).body)
            except BadReview:
                continue

    def question(self, question: Json) -> None:
        body, handler = json.dumps(question).encode(), ExtenderHandler(self.engine)
        for ask in (
            lambda body: handler.filter(body).answer()[1],
            handler.prioritize,
            handler.preempt,
        ):
            try:
                json.loads(ask(body))
            except BadExtenderArgs:
                continue
        try:
            read_bind(body)
        except BadExtenderArgs:
            return

    def lease(self, raw: Json) -> None:
        try:
            _LEASES._read(Reply(200, json.dumps(raw).encode()))
        except ApiError:
            return

    def reply(self, raw: Json) -> None:
        """As the answer to each question to which it could be one."""
        answer = Reply(200, json.dumps(raw).encode())
        parse_version(answer.body)
        epochs._is_served(answer)
        with contextlib.suppress(ApiError):
            _EPOCHS._read(answer)
        with contextlib.suppress(*UNREADABLE):
            found = msgspec.json.decode(answer.body, type=reviews._TokenReview)
            msgspec.json.encode(reviews._spec(reviews._user(found.status.user), _RIGHT))
        with contextlib.suppress(*UNREADABLE):
            msgspec.json.decode(answer.body, type=reviews._AccessReview)

    def configure(self, raw: Json, *, strict: bool = False) -> None:
        text = json.dumps(raw)
        with contextlib.suppress(*() if strict else (ConfigError,)):
            if kube_scheduler.translate(text, _PLUGINS, KNOWN[-1]) is None:
                configs.build_profiles(configs.parse(text).profiles, _PLUGINS)

    # -- what must hold ----------------------------------------------------------------------

    def check(self) -> None:
        """No unexpected error, no GPU given twice, and a plain pod is placed."""
        if self.failures.errors:
            doing, about, error = self.failures.errors[0]
            raise Found(f"{doing} {about}: {error!r}") from error
        self._audit()
        for gone in list(self.pods.values()):
            self.show(gone, "DELETED")
        for name in self.engine.cluster.row_of:
            if wrong := wrong_nodes(self.engine.cluster, [name]):
                raise Found(f"the ledger of {wrong} is wrong")
        self._place_a_plain_pod()

    def _audit(self) -> None:
        """From raw JSON, and of what we bound: what others did is theirs."""
        bound = [raw for raw in self.bound.values() if raw["spec"]["nodeName"] == "gpus-0"]
        if twice := given_twice(bound, GPU_MIB):
            raise Found(f"a GPU was given twice: {twice}")
        taken = sum(
            int(container["resources"]["requests"][_GPU])
            for raw in self.bound.values()
            if raw["spec"]["nodeName"] == "sane-0"
            for container in raw["spec"].get("containers") or ()
            if isinstance(container, dict) and _is_plain(container)
        )
        if taken > 4:
            raise Found(f"{taken} of 4 GPUs were given")

    def _place_a_plain_pod(self) -> None:
        plain = pod()
        container = {"name": "c", "image": "x", "resources": {"requests": {_GPU: "1"}}}
        wanted = {"kubernetes.io/hostname": "sane-0"}
        plain["metadata"] = {"name": "plain", "uid": f"plain-{self._version}"}
        plain["spec"] = {"schedulerName": SCHEDULER, "containers": [container]}
        plain["spec"]["nodeSelector"] = wanted
        shown = self.show(plain)
        uid = shown["metadata"]["uid"]
        for _ in range(30):
            self.decide(2)
            if uid in self.bound:
                self.show(self.bound[uid], "DELETED")
                return
        raise Found(f"a plain pod is not placed: {self.refused[-1:]}")


def _is_plain(container: Json) -> bool:
    """Whether it asks for whole GPUs that are counted, by a number that anyone can read."""
    try:
        return str(container["resources"]["requests"][_GPU]).isdecimal()
    except (KeyError, TypeError):
        return False


def _sane_node(name: str, words: Json) -> Json:
    found = node()
    found["metadata"] = {
        "name": name, "annotations": words,
        "labels": {"kubernetes.io/hostname": name, "zone": "z1", "disk": "ssd"},
    }  # fmt: skip
    found["spec"] = {}
    return found
