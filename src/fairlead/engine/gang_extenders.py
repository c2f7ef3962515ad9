"""Gangs whose pods an HTTP extender is asked about, before they are tried.

Each pod is asked about by itself, as kube-scheduler does, and the gang is tried when all answers
are there: a pod goes only where the extenders accept it, and gets their points. The gang is in no
pool meanwhile, and other units go on. An answer counts for one attempt.
"""

from collections.abc import Mapping

import numpy as np

from fairlead.cluster.arrays import NodeMask
from fairlead.cluster.cluster import Cluster
from fairlead.cluster.extended_rows import ExtendedMembers, ExtendedRows
from fairlead.engine.extender_questions import PodQuestion
from fairlead.engine.extender_stage import ExtenderStage
from fairlead.engine.instructions import AskExtenders
from fairlead.model.pods import Pod, PodRequest
from fairlead.placement.place import Placement
from fairlead.queue.entries import Entry
from fairlead.queue.units import Gang


class GangExtenders:
    def __init__(
        self, cluster: Cluster, placements: Mapping[str, Placement], stage: ExtenderStage
    ) -> None:
        self._cluster = cluster
        self._placements = placements
        self._stage = stage
        #: Of the gang that is tried: what was answered about its pods.
        self._questions: list[PodQuestion] = []
        #: What holds for its pods until it is decided.
        self._members: ExtendedMembers | None = None

    # -- before the attempt ------------------------------------------------------------------

    def begin(self, entry: Entry, gang: Gang) -> None:
        """The gang is tried. Answers count for this attempt only."""
        self._stage.begin(gang.key)
        concerned = (pod for pod in gang.pods if self._stage.concerns(pod))
        self._questions = [self._stage.question(entry, pod) for pod in concerned]
        self._members = self._cluster.extended_members = None

    @property
    def are_asked(self) -> bool:
        """Whether a question about the gang was answered."""
        return any(each.is_answered for each in self._questions)

    @property
    def concern_it(self) -> bool:
        return bool(self._questions)

    def ask(self, entry: Entry, held: Mapping[str, str]) -> list[AskExtenders] | None:
        """What to ask before the gang is tried; None: all of it is answered.

        `held`: nodes that are held for its pods, by uid. Until all answers are there the gang must
        be left alone.
        """
        if not self.error:
            for each in self._questions:
                each.is_answered = each.is_answered or not self._unknown(each, held)
            if not all(each.is_answered for each in self._questions):
                open_ = [each for each in self._questions if not each.is_answered]
                return self._asked(entry, open_, held)
        self._use({each.pod.uid: each.accepted_rows(self._cluster) for each in self._questions})
        return None

    def _asked(
        self, entry: Entry, open_: list[PodQuestion], held: Mapping[str, str]
    ) -> list[AskExtenders]:
        for question in self._questions:
            if question.is_answered:
                self._stage.keep(question)
        made = []
        for question in open_:
            placement = self._placements[question.pod.scheduler]
            asked = self._stage.ask(question, placement, _node(held, question.pod))
            if asked is None:
                break
            made.append(asked)
        if not made:
            self._stage.later(entry)
        return made

    @property
    def error(self) -> str:
        """Of an extender that must be asked and gave no answer."""
        return next((each.error for each in self._questions if each.error), "")

    def ask_more(self, entry: Entry) -> list[AskExtenders]:
        """The gang found no nodes: about nodes that fit and were not asked about, if there are any.

        If there are none, pods may be evicted from all nodes that no extender has refused.
        """
        if more := [each for each in self._questions if self._unknown(each, {})]:
            return self._asked(entry, more, {})
        if any(each.refused for each in self._questions):
            self._stage.refused(entry, min(each.asked_at for each in self._questions))
        self._use({each.pod.uid: each.rows_not_refused(self._cluster) for each in self._questions})
        return []

    def _unknown(self, question: PodQuestion, held: Mapping[str, str]) -> bool:
        """Whether there are nodes for the pod that were not asked about."""
        placement, also = self._placements[question.pod.scheduler], _node(held, question.pod)
        return bool(self._stage.nodes_to_ask(question, placement, also))

    # -- during the attempt ------------------------------------------------------------------

    def _use(self, by_uid: dict[str, ExtendedRows]) -> None:
        by_request: dict[PodRequest, NodeMask] = {}
        for question in self._questions:
            pod, rows = question.pod, by_uid[question.pod.uid].rows
            request = self._placements[pod.scheduler].settled_request(pod)
            known = by_request.get(request)
            by_request[request] = rows if known is None else np.logical_and(known, rows)
        self._members = ExtendedMembers(by_uid, by_request) if by_uid else None
        self._cluster.extended_members = self._members

    def resume(self) -> None:
        """The gang is gone on with in another turn."""
        self._cluster.extended_members = self._members


def _node(held: Mapping[str, str], pod: Pod) -> tuple[str, ...]:
    return (held[pod.uid],) if pod.uid in held else ()
