"""Pods that an HTTP extender is asked about, between two attempts to place them.

An attempt that finds a node ends with a question about the nodes that fit. The answer makes the
next attempt, which takes one of the nodes that the extenders accept, if it still fits. The pod is
in no pool meanwhile, and other pods go on. Pods that no extender is interested in are not delayed.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Protocol

import numpy as np

from fairlead.cluster.cluster import Cluster
from fairlead.cluster.extended_rows import ExtendedRows
from fairlead.engine.instructions import AskExtenders
from fairlead.model.errors import FairleadError
from fairlead.model.http_extenders import ExtenderAnswer, ExtenderTerms
from fairlead.model.pods import Pod
from fairlead.placement.place import Placement
from fairlead.placement.verdicts import Placed, Refused, Verdict
from fairlead.queue.entries import Entry, Pool
from fairlead.queue.queue import SchedulingQueue
from fairlead.queue.quota import QuotaRefusal
from fairlead.queue.units import Unit

#: Pods that are asked about at a time; the others are asked about when answers have come.
_MOST_ASKED = 16
#: Nodes of one question; the others are asked about if these are all refused.
_MOST_NODES = 1000
#: Refused pods that may have gone are forgotten when there are so many.
_MANY_REFUSED = 64

Found = Verdict | QuotaRefusal


class _Place(Protocol):
    """Places the pod by all other rules."""

    def __call__(self, *, evicts: bool) -> Found: ...


class ExtenderFailed(FairleadError):
    """An extender that is not ignorable gave no answer."""


@dataclass(slots=True)
class _Question:
    """What was asked about a pod so far, and answered."""

    pod: Pod
    entry: Entry
    #: How often the cluster had improved when it was first asked about.
    asked_at: int
    accepted: dict[str, float] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    unresolvable: set[str] = field(default_factory=set)
    error: str = ""

    def take(self, answer: ExtenderAnswer) -> None:
        self.error = answer.error
        self.accepted |= {node: answer.scores.get(node, 0.0) for node in answer.accepted}
        self.refused |= answer.refused
        self.unresolvable |= answer.unresolvable


class ExtenderStage:
    def __init__(
        self, cluster: Cluster, queue: SchedulingQueue, extenders: Sequence[ExtenderTerms]
    ) -> None:
        self._cluster = cluster
        self._queue = queue
        self._extenders = extenders
        #: Questions under way, those that are answered, and pods that wait for their turn.
        self._asked: dict[str, _Question] = {}
        self._answered: dict[str, _Question] = {}
        self._ready: deque[Entry] = deque()
        self._later: deque[Entry] = deque()
        #: Pods that an extender refused when they were last tried, by uid.
        self._refused: set[str] = set()
        #: The question that led to the last refusal.
        self._last: _Question | None = None

    def concerns(self, pod: Pod) -> bool:
        return any(each.concerns(pod) for each in self._extenders)

    def checked(self, pod: Pod) -> Pod:
        """A member of a gang that only an extender could place has a problem."""
        strict = [each for each in self._extenders if not each.ignorable and each.concerns(pod)]
        if not strict or pod.problem:
            return pod
        text = f"the extender {strict[0].name} is asked about single pods, not about gangs"
        return replace(pod, problem=f"{text}; remove the gang, or set managedResources for it")

    def class_of(self, unit: Unit) -> str:
        """An extender may answer differently about pods that are equal to all other rules."""
        return f"|{unit.key}" if unit.key in self._refused else ""

    # -- attempts ----------------------------------------------------------------------------

    def place(
        self, entry: Entry, placement: Placement, place: _Place, *, evicts: bool
    ) -> Found | AskExtenders | None:
        """A verdict; or what to ask before there is one; None: it is asked about later.

        What was answered counts for the rest of the attempt, until `end`.
        """
        pod = entry.unit.pod
        if not self.concerns(pod):
            return place(evicts=evicts)
        question = self._question(entry, pod)
        if question.error:
            raise ExtenderFailed(question.error)
        if question.accepted:
            self._cluster.extended = self._accepted(question)
            if not isinstance(found := place(evicts=False), Refused):
                return found
        self._cluster.extended = self._not_refused(question)
        found = place(evicts=evicts)
        if isinstance(found, Placed):
            return self._ask(question, placement)
        if question.refused and isinstance(found, Refused):
            self._refused.add(pod.uid)
            self._last = question
        return found

    def end(self) -> None:
        """The attempt is over."""
        self._cluster.extended = None
        question, self._last = self._last, None
        if question is None or question.entry.pool is not Pool.WAITING:
            return
        if self._cluster.improved.count > question.asked_at:
            # What changed after the question may change the answer, and wakes the pod no more.
            self._queue.postpone(question.entry, "ScheduleAttemptFailure")

    def _question(self, entry: Entry, pod: Pod) -> _Question:
        self._refused.discard(pod.uid)
        question = self._answered.pop(pod.uid, None)
        if question is None or question.pod.request != pod.request:
            return _Question(pod, entry, self._cluster.improved.count)
        return question

    def _accepted(self, question: _Question) -> ExtendedRows:
        row_of, scores = self._cluster.row_of, np.zeros(self._cluster.columns.size)
        for node, points in question.accepted.items():
            if node in row_of:
                scores[row_of[node]] = points
        return ExtendedRows(self._cluster.nodes.named(question.accepted), scores)

    def _not_refused(self, question: _Question) -> ExtendedRows:
        row_of = self._cluster.row_of
        reasons = {row_of[node]: t for node, t in question.refused.items() if node in row_of}
        unresolvable = (row_of[node] for node in question.unresolvable if node in row_of)
        rows = ~self._cluster.nodes.named(question.refused)
        return ExtendedRows(rows, None, reasons, frozenset(unresolvable))

    def _ask(self, question: _Question, placement: Placement) -> AskExtenders | None:
        if len(self._asked) >= _MOST_ASKED:
            self._later.append(question.entry)
            return None
        self._asked[question.pod.uid] = question
        asked = self._nodes_to_ask(question, placement)
        concerned = tuple(each.name for each in self._extenders if each.concerns(question.pod))
        return AskExtenders(question.pod, asked, concerned)

    def _nodes_to_ask(self, question: _Question, placement: Placement) -> tuple[str, ...]:
        """Of the nodes that fit, those that no extender has answered about; the best, if many."""
        nodes, pod = self._cluster.nodes, question.pod
        known = nodes.named(question.refused) | nodes.named(question.accepted)
        rows = np.flatnonzero(placement.view(pod).left & ~known)
        if len(rows) > _MOST_NODES:
            best = np.argsort(-placement.totals(pod)[rows], kind="stable")
            rows = rows[best]
        found = nodes.at(rows).objects()
        return tuple(islice((node.name for node in found if node), _MOST_NODES))

    # -- answers -----------------------------------------------------------------------------

    def answered(self, uid: str, answer: ExtenderAnswer) -> None:
        question = self._asked.pop(uid, None)
        if question is not None and self._is_pending(question.entry):
            question.take(answer)
            self._answered[uid] = question
            self._ready.append(question.entry)
        self._forget_gone()

    def next_ready(self) -> Entry | None:
        """The next pod that is tried again."""
        while self._ready or (self._later and len(self._asked) < _MOST_ASKED):
            entry = (self._ready or self._later).popleft()
            if self._is_pending(entry):
                return entry
        return None

    def _is_pending(self, entry: Entry) -> bool:
        """Whether the pod is still to be placed: it may have been deleted, or bound by others."""
        return self._queue.get(entry.unit.key) is entry and entry.pool is Pool.NONE

    def _forget_gone(self) -> None:
        if len(self._refused) > _MANY_REFUSED + 2 * len(self._queue.uids()):
            self._refused = {uid for uid in self._refused if uid in self._queue}
        if len(self._answered) > _MANY_REFUSED:
            self._answered = {u: q for u, q in self._answered.items() if u in self._queue}
