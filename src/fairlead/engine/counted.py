"""Counted resources, as the engine sees them: which pods wait because too few are left.

Nothing of this exists before there is such an object, or a pod that asks for one.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace

from fairlead.cluster.aspects import Aspect
from fairlead.cluster.cluster import Cluster
from fairlead.cluster.counted_book import CountedBook
from fairlead.cluster.counted_books import CountedBooks
from fairlead.engine import counted_messages
from fairlead.engine.counted_statuses import CountedStatuses
from fairlead.engine.instructions import Instruction
from fairlead.engine.requeuer import Requeuer
from fairlead.model.counted import CountedResource
from fairlead.model.pods import Pod
from fairlead.placement.place import Placement
from fairlead.placement.verdicts import Placed, Refused
from fairlead.queue.queue import SchedulingQueue
from fairlead.queue.quota import QuotaRefusal
from fairlead.queue.units import Gang, Unit

#: More have no effect.
MOST_RESOURCES = 500
#: Each node may be on every layer, and each pod with GPUs is charged for every resource of GPUs:
#: what is beyond these is invalid.
MOST_LAYERS = 1024
MOST_OF_GPUS = 32

#: What can make other nodes usable for a pod whose layers have too little left.
_NODES = Aspect.PRESENCE | Aspect.LABELS | Aspect.TAINTS | Aspect.ALLOCATABLE | Aspect.USAGE


class CountedResources:
    def __init__(
        self,
        cluster: Cluster,
        queue: SchedulingQueue,
        placements: Mapping[str, Placement],
        requeuer: Requeuer,
        utc_s: Callable[[float], float],
    ) -> None:
        self._cluster = cluster
        self._queue = queue
        self._placements = placements
        self._requeuer = requeuer
        self._statuses = CountedStatuses(utc_s)
        #: Objects beyond the limit, which take the place of one that goes; as many again at most.
        self._beyond: dict[str, CountedResource] = {}

    @property
    def is_active(self) -> bool:
        return self._cluster.counted is not None

    @property
    def books(self) -> CountedBooks:
        assert self._cluster.counted is not None
        return self._cluster.counted

    def begin(self) -> None:
        """There is such an object, or a pod asks for one, which need not exist."""
        if self._cluster.counted is None:
            self._cluster.counted = CountedBooks(self._cluster, self._free)
            self._requeuer.counted = self
            self._requeuer.sort_again()

    def _free(self, name: str) -> None:
        """Waiting units may be admitted that were not before."""
        key = _key(name)
        if key in self._queue.held_back:
            self._requeuer.freed.add(key)

    # -- what the API server shows -----------------------------------------------------------

    def seen(self, spec: CountedResource, now: float) -> None:
        self.begin()
        books = self.books
        before = books.books.get(spec.name)
        if before is None and len(books.books) >= MOST_RESOURCES:
            if spec.name in self._beyond or len(self._beyond) < MOST_RESOURCES:
                self._beyond[spec.name] = spec
            return
        if problem := self._too_many(spec):
            spec = CountedResource(spec.name, problem=problem)
        if before is not None and spec.problem:  # what GPUs are charged for still has its limit
            spec = replace(before.spec, problem=spec.problem)
        if before is not None and _same(before.spec, spec):
            before.spec = spec
        else:
            books.put_resource(spec)
        self._statuses.refresh(books.books[spec.name], now)
        self._free(spec.name)

    def _too_many(self, spec: CountedResource) -> str:
        """Why the object has no effect beside the others; "" if it has."""
        others = [book.spec for name, book in self.books.books.items() if name != spec.name]
        if len(spec.layers) + sum(len(other.layers) for other in others) > MOST_LAYERS:
            return f"with it, all CountedResources together have more than {MOST_LAYERS:,} layers"
        if spec.per_gpu and sum(bool(other.per_gpu) for other in others) >= MOST_OF_GPUS:
            return f"more than {MOST_OF_GPUS} CountedResources have spec.perGpu"
        return ""

    def gone(self, name: str, now: float) -> None:
        if not self.is_active or self._beyond.pop(name, None) is not None:
            return
        self.books.remove_resource(name)
        self._statuses.forget(name)
        self._free(name)
        if self._beyond and len(self.books.books) < MOST_RESOURCES:
            self.seen(self._beyond.pop(next(iter(self._beyond))), now)

    # -- which units may start ---------------------------------------------------------------

    def class_of(self, unit: Unit) -> str:
        """What makes a difference and is not part of a request."""
        asks = {(pod.counted.asked, pod.namespace) for pod in unit.pods if pod.counted is not None}
        return f"|{sorted(asks)}" if asks else ""

    def beyond(self, pod: Pod, found: Placed | Refused | None = None) -> QuotaRefusal | None:
        """Why the pod waits whatever the nodes; with a refusal, whether layers are the reason."""
        if isinstance(found, Placed) or not self.books.concerns(pod):
            return None
        if found is not None:
            return self.beyond_layers(pod)
        if problem := self._problem(pod):
            return problem
        for book, amount in self.books.needs(pod):
            if refusal := self._over(book, amount, pod.namespace):
                return refusal
        return None

    def beyond_layers(self, pod: Pod) -> QuotaRefusal | None:
        """Why the pod waits although nodes fit it: all of them are covered by full layers."""
        if self.books.rows(pod) is None:
            return None
        with self.books.ignored():
            if not self._placements[pod.scheduler].fits(pod):
                return None
        if self._placements[pod.scheduler].fits(pod):
            return None
        needs = sorted(self.books.needs(pod), key=lambda each: not each[0].spec.layers)
        book, amount = needs[0]
        key = _key(book.spec.name)
        if book.spec.layers:
            refusal = counted_messages.too_few_on_layers(book, amount, pod.namespace, key)
        else:  # it depends on the model of its GPUs how much it needs
            amount = self.books.least_beyond(book, pod)
            refusal = counted_messages.too_few(book, amount, pod.namespace, key)
        return replace(refusal, woken_by=_NODES)

    def said_of_all(self, pod: Pod, refused: Refused) -> Refused:
        """The refusal with what is said of all nodes, not only of those with enough left."""
        if not self.books.concerns(pod) or refused.eviction is not None:
            return refused
        with self.books.ignored():
            whole = self._placements[pod.scheduler].place(pod, evicts=False)
        return (
            replace(refused, nodes=whole.nodes, reasons=whole.reasons)
            if isinstance(whole, Refused)
            else refused
        )

    def why(self, pod: Pod) -> QuotaRefusal | None:
        """Why a pending pod waits, or the gang that it belongs to; for those who only look."""
        entry = self._queue.get(pod.uid)
        if entry is not None and isinstance(entry.unit, Gang) and entry.unit.pods:
            refusal = self.beyond_gang(entry.unit)
            if refusal is not None:
                return refusal
        return self.beyond(pod) or self.beyond_layers(pod)

    def beyond_gang(self, gang: Gang) -> QuotaRefusal | None:
        """Why too few of its pods can be started together: all of them have theirs, or none."""
        pods, needed = gang.pods, max(1, gang.needed)
        concerned = [pod for pod in pods if self.books.concerns(pod)]
        if not concerned:
            return None
        problems = [problem for pod in concerned if (problem := self._problem(pod))]
        if len(pods) - len(problems) < needed:
            return problems[0]
        asked: dict[str, list[int]] = {}
        for pod in concerned:
            for book, amount in self.books.needs(pod):
                asked.setdefault(book.spec.name, []).append(amount)
        for name, amounts in asked.items():
            without = len(pods) - len(amounts)
            least = sum(sorted(amounts)[: max(0, needed - without)])
            if refusal := self._over(self.books.books[name], least, concerned[0].namespace):
                return refusal
        return None

    def _problem(self, pod: Pod) -> QuotaRefusal | None:
        """Why the pod cannot have what it asks for, however much is left."""
        for needed, _ in self.books.needs(pod) if self.books.partial else ():
            if needed.uncharged:
                return counted_messages.not_counted(needed.spec.name, _key(needed.spec.name))
        for name, amount in pod.counted.asked if pod.counted else ():
            book, key = self.books.books.get(name), _key(name)
            if name in self._beyond:
                return counted_messages.beyond_limit(name, key, MOST_RESOURCES)
            if book is None:
                return counted_messages.not_found(name, key)
            if book.spec.problem:
                return counted_messages.invalid(book.spec, key)
            if book.spec.namespaces is not None and pod.namespace not in book.spec.namespaces:
                return counted_messages.not_allowed(name, pod.namespace, key)
            if book.spec.total is not None and amount > book.spec.total:
                return counted_messages.too_few(book, amount, pod.namespace, key)
        return None

    def _over(self, book: CountedBook, amount: int, namespace: str) -> QuotaRefusal | None:
        free = book.free
        if free is None or amount <= free or not amount:
            return None
        return counted_messages.too_few(book, amount, namespace, _key(book.spec.name))

    # -- what time brings about --------------------------------------------------------------

    def due_s(self) -> float | None:
        if not self.is_active:
            return None
        return 0.0 if self.books.partial else self._statuses.due_s(self.books.books.values())

    def tend(self, now: float) -> list[Instruction]:
        if not self.is_active or self.books.partial:
            return []  # numbers that are not whole are not shown
        made, freed = self._statuses.tend(self.books.books.values(), now)
        for name in freed:
            self._free(name)
        return made


def _key(name: str) -> str:
    """In place of a queue: units wait for a change of this resource."""
    return f"counted/{name}"


def _same(before: CountedResource, spec: CountedResource) -> bool:
    """Whether the object says the same, whatever its status."""
    return replace(before, measured=None) == replace(spec, measured=None)
