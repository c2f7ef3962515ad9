"""What units of queues may be started now: by limits, of their queue and of all above it.

Only resources that a limit lists are limited. A unit of several pods is admitted as one sum.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import UTC, datetime
from math import inf

from fairlead.cluster.aspects import NOTHING
from fairlead.cluster.tenants import Tenants
from fairlead.model.gangs import GangSpec
from fairlead.model.gpus import Grant
from fairlead.model.pods import Amounts, Pod, PodRequest
from fairlead.model.queue_amounts import shown_amount
from fairlead.model.queues import GPUS, GPUS_OF_MODEL, PastUse, Period, QueueSpec
from fairlead.queue.quota import QuotaRefusal
from fairlead.queue.quotas.admitted import AdmittedGangs
from fairlead.queue.quotas.asks import asked_together
from fairlead.queue.quotas.names import QueueNames
from fairlead.queue.quotas.not_lent import NotLent
from fairlead.queue.quotas.past_use import exhausted, period_end
from fairlead.queue.quotas.shape import queue_name
from fairlead.queue.quotas.sums import TreeSums, amount_of
from fairlead.queue.quotas.tree import QueueTree
from fairlead.queue.quotas.unit_order import ORDERED_WAITING

LIMIT, NOT_FOUND, CLOSED = "QueueLimit", "QueueNotFound", "QueueClosed"
NOT_ALLOWED, INVALID, BUDGET = "QueueNotAllowed", "QueueInvalid", "QueueBudget"
KEPT = "QueueGuarantee"

#: In place of a key: the wait may end whenever the tree changes.
ANY_QUEUE = ""

#: What a queue is charged beside what its pods use.
_Charged = Callable[[str], Counter[str]]


class QueuePolicy:
    """Answers from the tree and from what is used."""

    def __init__(
        self,
        tree: QueueTree,
        names: QueueNames,
        used: TreeSums,
        charge_of: Callable[[PodRequest], Amounts],
        admitted: AdmittedGangs,
        past_of: Callable[[str], PastUse | None],
        charge_on: Callable[[Pod, str, Grant | None], Amounts],
        not_lent: NotLent,
    ) -> None:
        self._not_lent = not_lent
        self._tree = tree
        self._names = names
        self._used = used
        self._charge_of = charge_of
        self._admitted = admitted
        self._past_of = past_of
        self._charge_on = charge_on
        #: By queue: it and those above it, if they restrict anything. Of this revision of the tree.
        self._restricting: dict[str, tuple[QueueSpec, ...]] = {}
        self._revision = -1

    def tenant_of(self, pod: Pod) -> str:
        return self._names.of(pod)

    def class_of(self, pod: Pod) -> str:
        """Where only some namespaces may use the queue, they are told apart."""
        key = self._names.of(pod)
        specs = (self._tree.get(each) for each in self._tree.lineage(key))
        if any(spec is not None and spec.namespaces is not None for spec in specs):
            return f"{key} {pod.namespace}{self._waiting_order(key)}"
        return key + self._waiting_order(key)

    def _waiting_order(self, key: str) -> str:
        """Units of a class wait by one order."""
        spec = self._tree.get(key)
        return f" by {spec.order}" if spec is not None and spec.order in ORDERED_WAITING else ""

    def admits(self, pod: Pod, tenants: Tenants) -> QuotaRefusal | None:
        key = self._names.of(pod)
        if not key and not pod.gang:
            return None
        return self._contradicts(pod) or self._admits_pod(key, pod, self._charge_of(pod.request))

    def admits_on(self, pod: Pod, node: str, grant: Grant | None) -> QuotaRefusal | None:
        """Limits of models: which model a pod gets is known only with its node."""
        limiting = self._limiting_models(pod)
        charge = self._charge_on(pod, node, grant) if limiting else ()
        models = {name: amount for name, amount in charge if name.startswith(GPUS_OF_MODEL)}
        return self._over_models(limiting, models) if models else None

    def models_beyond(self, pod: Pod, models: Iterable[str]) -> list[str]:
        limiting, gpus = self._limiting_models(pod), dict(self._charge_of(pod.request)).get(GPUS, 0)
        return [
            model
            for model in models
            if self._over_models(limiting, {GPUS_OF_MODEL + model: gpus}) is not None
        ]

    def _limiting_models(self, pod: Pod) -> list[QueueSpec]:
        if not self._tree.limiting_models:
            return []
        lineage = self._tree.lineage(self._names.of(pod))
        keys = (key for key in lineage if key in self._tree.limiting_models)
        return [spec for key in keys if (spec := self._tree.get(key)) is not None]

    def _over_models(
        self, limiting: Iterable[QueueSpec], models: Mapping[str, int]
    ) -> QuotaRefusal | None:
        refusals = (self._over_limit(spec, models, None) for spec in limiting)
        return next((refusal for refusal in refusals if refusal is not None), None)

    def admits_some(self, pods: Collection[Pod], needed: int) -> QuotaRefusal | None:
        """As one sum: of each resource the least that so many of the pods request.

        Pods of one gang that name different queues are only admitted singly.
        """
        first = next(iter(pods))
        if refusal := self._contradicts(first):
            return refusal
        if len({self._names.of(pod) for pod in pods}) != 1:
            return None
        asked = asked_together((pod.request for pod in pods), needed, self._charge_of)
        return self._admits_pod(self._names.of(first), first, asked)

    def admits_gang(self, spec: GangSpec, queue: str, asked: Amounts) -> QuotaRefusal | None:
        """Whether a gang that has no pods yet may have them."""
        return self._admits(queue, namespace_of(spec), asked, spec.key, has_pods=False)

    def _contradicts(self, pod: Pod) -> QuotaRefusal | None:
        problem = self._names.contradiction(pod) if pod.gang else ""
        return _refusal(INVALID, problem, ANY_QUEUE) if problem else None

    def _admits_pod(self, key: str, pod: Pod, asked: Amounts) -> QuotaRefusal | None:
        return self._admits(key, pod.namespace, asked, pod.gang.gang if pod.gang else "")

    def _admits(
        self, key: str, namespace: str, asked: Amounts, gang: str, *, has_pods: bool = True
    ) -> QuotaRefusal | None:
        if not key:
            return None
        if self._revision != self._tree.revision:
            self._restricting.clear()
            self._revision = self._tree.revision
        specs = self._restricting.get(key)
        if specs is None:
            if refusal := self._takes_none(key):
                return refusal
            specs = self._restricting[key] = self._restricting_above(key)
        if not specs:
            return None
        charged = self._charged(gang, has_pods=has_pods) if self._admitted else None
        more = dict(asked)
        for spec in specs:
            if refusal := self._refuses(spec, namespace, more, charged):
                return refusal
        return None

    def _takes_none(self, key: str) -> QuotaRefusal | None:
        """Why no unit of this queue is admitted."""
        if key not in self._tree:
            return self._unknown(key)
        if problem := self._tree.problem(key):
            return _refusal(INVALID, problem, ANY_QUEUE)
        return self._is_inner(key)

    def _restricting_above(self, key: str) -> tuple[QueueSpec, ...]:
        specs = filter(None, map(self._tree.get, self._tree.lineage(key)))
        kept = self._tree.not_lent_below
        return tuple(spec for spec in specs if _restricts(spec) or kept(spec.parent))

    def _is_inner(self, key: str) -> QuotaRefusal | None:
        spec = self._tree.get(key)
        if spec is None or not spec.leaves_only or not self._tree.children(key):
            return None
        message = (
            f"queue {spec.name} has queues beneath it, and takes no pods of its own; "
            "name one of those"
        )
        return _refusal(INVALID, message, ANY_QUEUE)

    def _unknown(self, key: str) -> QuotaRefusal:
        problem = self._names.problem(key)
        message = problem or (
            f"the queue {queue_name(key)} does not exist; create it or name another queue"
        )
        return _refusal(NOT_FOUND, message, ANY_QUEUE if problem else key)

    def _refuses(
        self, spec: QueueSpec, namespace: str, asked: Mapping[str, int], charged: _Charged | None
    ) -> QuotaRefusal | None:
        if spec.closed:
            message = f"queue {spec.name} is closed: it starts no more pods"
            return _refusal(CLOSED, message, spec.key)
        if spec.namespaces is not None and namespace not in spec.namespaces:
            message = f"pods of namespace {namespace} may not use queue {spec.name}"
            return _refusal(NOT_ALLOWED, message, spec.key)
        if spec.budgets and (refusal := self._over_budget(spec, asked)):
            return refusal
        if spec.limit and (refusal := self._over_limit(spec, asked, charged)):
            return refusal
        return self._kept_for_others(spec, asked, charged) if self._not_lent else None

    def _kept_for_others(
        self, spec: QueueSpec, asked: Mapping[str, int], charged: _Charged | None
    ) -> QuotaRefusal | None:
        used = self._used.of(spec.key)
        if charged is not None:
            used = used + charged(spec.key)
        for name, amount in asked.items():
            kept = self._not_lent.is_kept_from(spec.key, name) if amount else 0
            most = self._not_lent.most(spec.key, name) if kept else inf
            if (has := amount_of(used, name)) + amount > most:
                message = (
                    f"queue {spec.name} may use at most {shown_amount(name, int(most))} {name}, "
                    f"because {shown_amount(name, kept)} are kept for other queues: "
                    f"{shown_amount(name, has)} used, {shown_amount(name, amount)} requested"
                )
                return _refusal(KEPT, message, spec.key)
        return None

    def _over_budget(self, spec: QueueSpec, asked: Mapping[str, int]) -> QuotaRefusal | None:
        """Only pods with GPUs are held back, until the day or the month is over."""
        past = self._past_of(spec.key) if GPUS in asked else None
        budget = exhausted(spec.budgets, past) if past else None
        if past is None or budget is None:
            return None
        hours = past.day_hours if budget.period is Period.DAY else past.month_hours
        period, end_s = budget.period.lower(), period_end(budget.period, past.at_s)
        end = datetime.fromtimestamp(end_s, UTC)
        message = (
            f"queue {spec.name} has a budget of {budget.gpu_hours:g} GPU-hours a {period}: "
            f"{hours:.1f} used; the next {period} begins at {end:%Y-%m-%dT%H:%M}Z"
        )
        return _refusal(BUDGET, message, spec.key)

    def _over_limit(
        self, spec: QueueSpec, asked: Mapping[str, int], charged: _Charged | None
    ) -> QuotaRefusal | None:
        used = self._used.of(spec.key)
        if charged is not None:
            used = used + charged(spec.key)
        for name, limit in spec.limit:
            wanted = amount_of(asked, name)
            if wanted and (has := amount_of(used, name)) + wanted > limit:
                message = (
                    f"queue {spec.name} has a limit of {shown_amount(name, limit)} {name}: "
                    f"{shown_amount(name, has)} used, {shown_amount(name, wanted)} requested"
                )
                return QuotaRefusal(LIMIT, message, NOTHING, spec.key, name, limit, has, wanted)
        return None

    def _charged(self, gang: str, *, has_pods: bool) -> _Charged:
        """What queues are charged for other gangs that were admitted and have no nodes yet."""
        sums = self._admitted.firm if has_pods else self._admitted.sums
        queue, own = self._admitted.of(gang, has_pods=has_pods)
        lineage = self._tree.lineage(queue)

        def charged(key: str) -> Counter[str]:
            found = Counter(sums.of(key))
            found.subtract(dict(own) if key in lineage else {})
            return found

        return charged


def _restricts(spec: QueueSpec) -> bool:
    return spec.closed or spec.namespaces is not None or bool(spec.budgets or spec.limit)


def namespace_of(spec: GangSpec) -> str:
    return spec.name.partition("/")[0]


def _refusal(reason: str, message: str, queue: str) -> QuotaRefusal:
    return QuotaRefusal(reason, message, NOTHING, queue)
