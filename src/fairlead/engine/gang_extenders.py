"""Gangs whose pods an HTTP extender is asked about, before they are tried.

Each pod is asked about by itself, as kube-scheduler does, and the gang is tried when all answers
are there: a pod goes only where the extenders accept it, and gets their points. The gang is in no
pool meanwhile, and other units go on. An answer counts for one attempt.
"""

from collections.abc import Callable, Mapping
from functools import partial

from fairlead.cluster.cluster import Cluster
from fairlead.cluster.extended_rows import ExtendedMembers, ExtendedRows
from fairlead.engine.extender_questions import PodQuestion
from fairlead.engine.extender_stage import ExtenderStage
from fairlead.engine.instructions import AskExtenders
from fairlead.model.pods import Pod, PodRequest
from fairlead.placement.place import Placement
from fairlead.queue.entries import Entry
from fairlead.queue.units import Gang

#: Pods of one gang that are asked about at a time: the others leave room for other units.
_MOST_ASKED = 8
#: Pods of a gang that is asked about, and nodes of all its answers together.
MOST_PODS = 256
_MOST_KNOWN = 256_000


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
        concerned = [pod for pod in gang.pods if self._stage.concerns(pod)]
        if len(concerned) > MOST_PODS:  # those that can go without are placed without
            concerned = [pod for pod in concerned if self._stage.must_be_asked(pod)]
        self._questions = [self._stage.question(entry, pod) for pod in concerned]
        self._members = self._cluster.extended_members = None

    @property
    def are_asked(self) -> bool:
        """Whether a question about the gang was answered."""
        return any(each.rounds for each in self._questions)

    @property
    def concern_it(self) -> bool:
        return bool(self._questions)

    @property
    def problem(self) -> str:
        """Why the gang cannot be asked about although it must be."""
        count = len(self._questions)
        if count <= MOST_PODS:
            return ""
        name = self._stage.must_be_asked(self._questions[0].pod)
        return (
            f"the extender {name} would have to be asked about {count} pods of the gang, which is "
            f"done for {MOST_PODS} at most; make the gang smaller, or set managedResources or "
            "ignorable for the extender"
        )

    def ask(self, entry: Entry, held: Mapping[str, str]) -> list[AskExtenders] | None:
        """What to ask before the gang is tried; None: all of it is answered.

        `held`: nodes that are held for its pods, by uid. Until all answers are there the gang must
        be left alone.
        """
        if not self.error:
            rounds = max(1, *(each.rounds for each in self._questions))
            made = self._asked(entry, rounds, held)
            if made is not None:
                return made
        self._use(PodQuestion.accepted_rows)
        return None

    def _asked(
        self, entry: Entry, rounds: int, held: Mapping[str, str]
    ) -> list[AskExtenders] | None:
        """Some questions, until each pod had so many; None if there is nothing more to ask."""
        made: dict[str, AskExtenders] = {}
        for question in [each for each in self._questions if each.rounds < rounds]:
            placement, also = self._placements[question.pod.scheduler], _node(held, question.pod)
            if not self._stage.has_more_to_ask(question, placement, also):
                question.rounds = rounds
                continue
            if len(made) == _MOST_ASKED or not (
                asked := self._stage.ask(question, placement, also)
            ):
                break
            made[question.pod.uid] = asked
        else:
            if not made:
                return None
        for question in self._questions:
            if question.rounds and question.pod.uid not in made:
                self._stage.keep(question)
        if not made:
            self._stage.later(entry)
        return list(made.values())

    @property
    def error(self) -> str:
        """Of an extender that must be asked and gave no answer."""
        return next((each.error for each in self._questions if each.error), "")

    def ask_more(self, entry: Entry) -> list[AskExtenders] | None:
        """The gang found no nodes: about nodes that fit and were not asked about, if there are any.

        If there are none, pods may be evicted from all nodes that no extender has refused.
        """
        if sum(each.known for each in self._questions) < _MOST_KNOWN:
            rounds = 1 + max(each.rounds for each in self._questions)
            made = self._asked(entry, rounds, {})
            if made is not None:
                return made
        if any(each.refused for each in self._questions):
            self._stage.refused(entry, min(each.asked_at for each in self._questions))
        self._use(PodQuestion.rows_not_refused)
        return None

    # -- during the attempt ------------------------------------------------------------------

    def _use(self, rows: Callable[[PodQuestion, Cluster], ExtendedRows]) -> None:
        by_uid = {each.pod.uid: each for each in self._questions}
        self._members = ExtendedMembers(
            {uid: partial(rows, each, self._cluster) for uid, each in by_uid.items()},
            self._requests,
        )
        self._cluster.extended_members = self._members

    def _requests(self) -> dict[PodRequest, list[str]]:
        found: dict[PodRequest, list[str]] = {}
        for each in self._questions:
            request = self._placements[each.pod.scheduler].settled_request(each.pod)
            found.setdefault(request, []).append(each.pod.uid)
        return found

    def resume(self) -> None:
        """The gang is gone on with in another turn."""
        self._cluster.extended_members = self._members


def _node(held: Mapping[str, str], pod: Pod) -> tuple[str, ...]:
    return (held[pod.uid],) if pod.uid in held else ()
