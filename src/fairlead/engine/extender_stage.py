"""Pods that an HTTP extender is asked about, between two attempts to place them.

An attempt that finds a node ends with a question about the nodes that fit. The answer makes the
next attempt, which takes one of the nodes that the extenders accept, if it still fits. The pod is
in no pool meanwhile, and other pods go on. Pods that no extender is interested in are not delayed.
Gangs are asked about pod by pod before they are tried: see `gang_extenders.py`.
"""

from collections import deque
from collections.abc import Sequence
from itertools import islice
from typing import Protocol

import numpy as np

from fairlead.cluster.arrays import NodeMask
from fairlead.cluster.cluster import Cluster
from fairlead.engine.extender_questions import ExtenderFailed, PodQuestion
from fairlead.engine.instructions import AskExtenders
from fairlead.model.http_extenders import ExtenderAnswer, ExtenderTerms
from fairlead.model.pods import Pod
from fairlead.placement.place import Placement
from fairlead.placement.verdicts import Placed, Refused, Verdict
from fairlead.queue.entries import Entry, Pool
from fairlead.queue.queue import SchedulingQueue
from fairlead.queue.quota import QuotaRefusal
from fairlead.queue.units import Gang, Unit

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


class ExtenderStage:
    def __init__(
        self, cluster: Cluster, queue: SchedulingQueue, extenders: Sequence[ExtenderTerms]
    ) -> None:
        self._cluster = cluster
        self._queue = queue
        self._extenders = extenders
        #: Questions under way, those that are answered, and units that wait for their turn.
        self._asked: dict[str, PodQuestion] = {}
        self._answered: dict[str, PodQuestion] = {}
        self._ready: deque[Entry] = deque()
        self._later: deque[Entry] = deque()
        #: Units that an extender refused when they were last tried, by key.
        self._refused: set[str] = set()
        #: A unit that was refused after an extender was asked, and how often the cluster had
        #: improved when it was first asked.
        self._last: tuple[Entry, int] | None = None

    def concerns(self, pod: Pod) -> bool:
        return any(each.concerns(pod) for each in self._extenders)

    def must_be_asked(self, pod: Pod) -> str:
        """An extender without which the pod is not placed; empty: there is none."""
        strict = (each for each in self._extenders if not each.ignorable and each.concerns(pod))
        return next((each.name for each in strict), "")

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
        self.begin(pod.uid)
        question = self.question(entry, pod)
        if question.error:
            raise ExtenderFailed(question.error)
        if question.accepted:
            self._cluster.extended = question.accepted_rows(self._cluster)
            if not isinstance(found := place(evicts=False), Refused):
                return found
        self._cluster.extended = question.rows_not_refused(self._cluster)
        found = place(evicts=evicts)
        if isinstance(found, Placed):
            asked = self.ask(question, placement)
            if asked is None:
                self._later.append(entry)
            return asked
        if question.refused and isinstance(found, Refused):
            self.refused(entry, question.asked_at)
        return found

    def begin(self, key: str) -> None:
        """A unit is tried."""
        self._refused.discard(key)

    def refused(self, entry: Entry, asked_at: int) -> None:
        """The unit is refused, and an extender is one of the reasons."""
        self._refused.add(entry.unit.key)
        self._last = entry, asked_at

    def end(self) -> None:
        """The attempt is over."""
        self._cluster.extended = self._cluster.extended_members = None
        (entry, asked_at), self._last = self._last or (None, 0), None
        if entry is None or entry.pool is not Pool.WAITING:
            return
        if self._cluster.improved.count > asked_at:
            # What changed after the question may change the answer, and wakes the pod no more.
            self._queue.postpone(entry, "ScheduleAttemptFailure")

    # -- questions ---------------------------------------------------------------------------

    def question(self, entry: Entry, pod: Pod) -> PodQuestion:
        """What was answered about the pod since it was last tried, or an empty one."""
        question = self._answered.pop(pod.uid, None)
        if question is None or question.pod.request != pod.request:
            return PodQuestion(pod, entry, self._cluster.improved.count)
        return question

    def keep(self, question: PodQuestion) -> None:
        """It is answered, and the unit is not decided yet."""
        self._answered[question.pod.uid] = question

    def ask(
        self, question: PodQuestion, placement: Placement, also: Sequence[str] = ()
    ) -> AskExtenders | None:
        """None: too many are asked about. `also`: nodes to ask about whether or not they fit."""
        if len(self._asked) >= _MOST_ASKED:
            return None
        self._asked[question.pod.uid] = question
        self._answered.pop(question.pod.uid, None)
        asked = self._nodes_to_ask(question, placement, also)
        concerned = tuple(each.name for each in self._extenders if each.concerns(question.pod))
        return AskExtenders(question.pod, asked, concerned)

    def has_more_to_ask(
        self, question: PodQuestion, placement: Placement, also: Sequence[str] = ()
    ) -> bool:
        """Whether there are nodes for the pod that were not asked about."""
        if not also and question.known < np.count_nonzero(placement.view(question.pod).left):
            return True
        return bool(self._rows_to_ask(question, placement, also).any())

    def _rows_to_ask(
        self, question: PodQuestion, placement: Placement, also: Sequence[str]
    ) -> NodeMask:
        nodes, left = self._cluster.nodes, placement.view(question.pod).left
        known = nodes.named(question.refused) | nodes.named(question.accepted)
        return (left | nodes.named(also) if also else left) & ~known

    def _nodes_to_ask(
        self, question: PodQuestion, placement: Placement, also: Sequence[str]
    ) -> tuple[str, ...]:
        """Of the nodes that fit, those that no extender has answered about; the best, if many."""
        nodes, pod = self._cluster.nodes, question.pod
        rows = np.flatnonzero(self._rows_to_ask(question, placement, also))
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
            if not any(each.entry is question.entry for each in self._asked.values()):
                self._ready.append(question.entry)
        self._forget_gone()

    def later(self, entry: Entry) -> None:
        """The unit is tried again when more may be asked about."""
        self._later.append(entry)

    def next_ready(self, now: float) -> Entry | None:
        """The next unit that is tried again."""
        while self._ready or (self._later and len(self._asked) < _MOST_ASKED):
            entry = (self._ready or self._later).popleft()
            if not self._is_pending(entry):
                continue
            if entry.unit.is_ready:
                return entry
            self._queue.finish(entry, now=now)  # pods of the gang have left meanwhile
        return None

    def _is_pending(self, entry: Entry) -> bool:
        """Whether the unit is still to be placed: it may have been deleted, or bound by others."""
        key = entry.unit.key
        known = self._queue.gang(key) if isinstance(entry.unit, Gang) else self._queue.get(key)
        return known is entry and entry.pool is Pool.NONE

    def _forget_gone(self) -> None:
        if len(self._refused) > _MANY_REFUSED + 2 * len(self._queue.uids()):
            known = self._queue
            self._refused = {key for key in self._refused if key in known or known.gang(key)}
        if len(self._answered) > _MANY_REFUSED:
            self._answered = {u: q for u, q in self._answered.items() if u in self._queue}
