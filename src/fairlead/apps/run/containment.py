"""No object ends the process: what breaks is one object's failure, and the rest goes on.

An exception in the engine may leave what is booked half-changed. So the node that it was about is
not used, and the engine is built again from what the watches hold, at once the first time and ever
less often after that. An object that breaks it twice is left out until its author changes it, and
one that is changed and breaks it again and again is left out in any case, each for ten minutes.
"""

from collections.abc import Awaitable, Callable, Mapping
from hashlib import blake2b

import structlog

from fairlead.apps.supervising import CALM_S, FIRST_PAUSE_S, LONGEST_PAUSE_S, supervise
from fairlead.engine import events
from fairlead.engine.attempts import Attempt
from fairlead.engine.engine import Engine
from fairlead.engine.instructions import AnnounceFailure, AttemptCrashed, Decline, Instruction
from fairlead.engine.reasons import SCHEDULER_ERROR
from fairlead.kube.failures import Failures
from fairlead.model.data_sets import NodeData
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.pods import Pod

log = structlog.get_logger(__name__)

#: How often an object may break the engine unchanged, and at all, and how long it is left out then.
_STRIKES = 2
_STRIKES_IN_ALL = 5
_ASIDE_S = 600.0
#: Objects that are remembered to have broken it: the newest.
_REMEMBERED = 1024

_Name = tuple[str, str]


@dataclass(slots=True)
class _Struck:
    #: A hash of it: objects may be large.
    content: str
    #: Times in a row with this content, and with any.
    count: int
    in_all: int
    until_s: float

    @property
    def is_out(self) -> bool:
        return self.count >= _STRIKES or self.in_all >= _STRIKES_IN_ALL


class Containment:
    """Hands events to the engine, and takes in what it raises."""

    def __init__(self, engine: Engine, failures: Failures) -> None:
        self._engine = engine
        self.failures = failures
        self._struck: dict[_Name, _Struck] = {}
        self._due_s: float | None = None
        self._rebuilt_s = float("-inf")
        self._pause_s = 0.0
        self.rebuilds = 0
        #: Whether the engine is being built again just now.
        self.is_rebuilding = False

    def handle(self, event: events.Event, now: float) -> list[Instruction]:
        """What the engine makes of the event; never raises."""
        try:
            if self._struck and self._is_aside(event, now):
                return self._do_without(event, now)
            return self._engine.handle(event, now=now)
        except Exception as error:
            return self._failed(event, error, now)

    def decide(self, now: float) -> Attempt | None:
        """The engine's next attempt, or None if no pod is due; never raises."""
        try:
            return self._engine.decide(now=now)
        except Exception as error:
            self.failures.note("deciding", "the queue", error)
            self._ask_for_rebuild(now)
            return None

    def attempt_crashed(self, broken: AttemptCrashed, now: float) -> None:
        """An attempt to place a pod failed half-way."""
        pod = broken.pod
        self.failures.note("deciding", pod.key, broken.error)
        self._distrust(broken.node, pod.key, now)
        self._strike(events.PodSeen(pod), now)
        if self._is_aside(events.PodSeen(pod), now):
            self.handle(events.PodGone(pod), now)

    async def supervise(self, name: str, run: Callable[[], Awaitable[None]]) -> None:
        """Runs a part of the program, and again after a while if it breaks."""
        await supervise(self.failures, name, run)

    # -- objects that are left out -----------------------------------------------------------

    def leaves_out(self, pod: Pod, now: float) -> bool:
        return bool(self._struck) and self._is_aside(events.PodSeen(pod), now)

    def left_out(self) -> int:
        """How many objects are left out now."""
        return sum(struck.is_out for struck in self._struck.values())

    def _is_aside(self, event: events.Event, now: float) -> bool:
        found = self._struck.get(_name_of(event))
        if found is None or not found.is_out or type(event) not in _SEEN:
            return False
        if now >= found.until_s:
            del self._struck[_name_of(event)]
            return False
        return found.in_all >= _STRIKES_IN_ALL or found.content == _content_of(event)

    def _do_without(self, event: events.Event, now: float) -> list[Instruction]:
        """Nothing new goes where an object is that we cannot count."""
        match event:
            case events.PodSeen(pod) if pod.node:
                return self._engine.handle(events.NodeDistrusted(pod.node, pod.key), now=now)
            case events.NodeSeen(node):
                cause = f"node/{node.name}"
                return self._engine.handle(events.NodeDistrusted(node.name, cause), now=now)
        return []

    def _failed(self, event: events.Event, error: Exception, now: float) -> list[Instruction]:
        kind, about = _name_of(event)
        said = self.failures.note(_DOING.get(type(event), "reading"), about or kind, error)
        self._strike(event, now)
        match event:
            case events.PodSeen(pod):
                held = self._engine.cluster.holdings.get(pod.uid)
                for node in {pod.node, held.node if held else ""}:
                    self._distrust(node, pod.key, now)
                if not pod.node and pod.scheduler:
                    return [AnnounceFailure(pod, SCHEDULER_ERROR, said)]
            case events.NodeSeen(node):
                self._distrust(node.name, f"node/{node.name}", now)
            case events.NodeChosen(pod):
                return [Decline(pod, said)]
        return []

    def _distrust(self, node: str, cause: str, now: float) -> None:
        if not node:
            return
        try:
            self._engine.handle(events.NodeDistrusted(node, cause), now=now)
        except Exception as error:
            self.failures.note("distrusting", node, error)

    def _strike(self, event: events.Event, now: float) -> None:
        self._ask_for_rebuild(now)
        if type(event) not in _SEEN:
            return
        name, content = _name_of(event), _content_of(event)
        known = self._struck.pop(name, None) or _Struck(content, 0, 0, 0.0)
        count = known.count + 1 if known.content == content else 1
        struck = self._struck[name] = _Struck(content, count, known.in_all + 1, now + _ASIDE_S)
        if len(self._struck) > _REMEMBERED:
            del self._struck[next(iter(self._struck))]
        if struck.is_out:
            log.error("object left out until it changes, or for ten minutes", object=name[1])

    # -- building the engine again -----------------------------------------------------------

    def _ask_for_rebuild(self, now: float) -> None:
        if self._due_s is None:
            self._due_s = max(now, self._rebuilt_s + self._pause_s)

    def rebuild_is_due(self, now: float) -> bool:
        return self._due_s is not None and now >= self._due_s

    def rebuild_begins(self, now: float) -> None:
        calm = now - self._rebuilt_s > CALM_S
        self._pause_s = FIRST_PAUSE_S if calm else min(2 * self._pause_s, LONGEST_PAUSE_S)
        self._due_s = None
        self.rebuilds += 1
        self.is_rebuilding = True
        self._engine.forget()

    def rebuild_ends(self, now: float) -> None:
        self._rebuilt_s = now
        self.is_rebuilding = False
        log.warning("engine built again after an internal error", rebuilds=self.rebuilds)

    @property
    def standing(self) -> str:
        """What to say about it beside that we are well; empty when nothing broke lately."""
        left_out = self.left_out()
        if self._due_s is None and not left_out:
            return ""
        waiting = "; the engine is to be built again" if self._due_s is not None else ""
        return f"internal errors: {left_out} objects are left out{waiting}; see the log"


#: Events by which an object is shown, and can be left out.
_SEEN = (
    events.PodSeen,
    events.NodeSeen,
    events.NamespaceSeen,
    events.SelectorSeen,
    events.StorageSeen,
    events.ClaimObjectSeen,
    events.BudgetSeen,
    events.GangSeen,
    events.QueueSeen,
    events.AdvanceSeen,
    events.CountedSeen,
    events.DataSeen,
    events.InventorySeen,
    events.NodeRequestSeen,
    events.TopologySeen,
    events.HyperNodeSeen,
    events.OwnerRunTimeSeen,
)

_DOING = {
    events.BindDone: "binding",
    events.BindFailed: "binding",
    events.Prepared: "binding volumes",
    events.PrepareFailed: "binding volumes",
    events.EvictionEnded: "evicting",
    events.NodeChosen: "answering",
}


def _name_of(event: events.Event) -> _Name:
    """The kind of event, and which object it is about: empty if it is about none."""
    match event:
        case events.PodSeen(pod) | events.PodGone(pod) | events.NodeChosen(pod):
            about = pod.key
        case events.NodeSeen(node):
            about = node.name
        case events.SelectorSeen(kind, namespace, name):
            about = f"{kind} {namespace}/{name}"
        case (
            events.StorageSeen(seen)
            | events.StorageGone(seen)
            | events.ClaimObjectSeen(seen)
            | events.ClaimObjectGone(seen)
        ):
            about = f"{type(seen).__name__} {seen.key}"
        case events.BudgetSeen(budget):
            about = budget.key
        case events.GangSeen(spec):
            about = spec.key
        case events.QueueSeen(queue):
            about = queue.key
        case events.AdvanceSeen(reservation):
            about = reservation.name
        case events.CountedSeen(resource):
            about = resource.name
        case events.DataSeen(data):
            about = data.node if isinstance(data, NodeData) else data.key
        case events.InventorySeen(node_name, source):
            about = f"{source} {node_name}"
        case events.NodeRequestSeen(key) | events.TopologySeen(key) | events.OwnerRunTimeSeen(key):
            about = key
        case events.NamespaceSeen(name) | events.NodeGone(name) | events.HyperNodeSeen(name):
            about = name
        case _:
            about = ""
    return type(event).__name__, about


def _content_of(event: events.Event) -> str:
    """A hash of what the author wrote; of pods and nodes not the status, which we write."""
    match event:
        case events.PodSeen(pod):
            return str(hash((pod.uid, pod.node, pod.generation, _words(pod.labels),
                             _words(pod.annotations))))  # fmt: skip
        case events.NodeSeen(node):
            return str(hash((node.allocatable, node.taints, _words(node.labels),
                             _words(node.annotations))))  # fmt: skip
    return blake2b(repr(event).encode(), digest_size=16).hexdigest()


def _words(pairs: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(pairs.items()))
