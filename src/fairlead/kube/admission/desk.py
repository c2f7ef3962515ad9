"""The two questions that the API server asks about new pods and containers, answered."""

from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from fairlead.kube.admission import injection, review
from fairlead.kube.admission.bounds import TooMuch, check_size
from fairlead.kube.admission.literals import literal_for
from fairlead.kube.admission.review import BadReview, Review
from fairlead.kube.admission.validation import problem_with
from fairlead.kube.codec import decode_pod
from fairlead.kube.http.reply import UNREADABLE
from fairlead.model.errors import FairleadError
from fairlead.model.pods import Pod


class _Spec(msgspec.Struct, rename="camel", gc=False):
    scheduler_name: str = ""


class _Pod(msgspec.Struct, gc=False):
    spec: _Spec


_pods = msgspec.json.Decoder(_Pod)


@dataclass(frozen=True, slots=True)
class Answer:
    """What to send back, and one word for the metrics."""

    body: bytes
    outcome: str


@dataclass(frozen=True, slots=True)
class Desk:
    """Answers for pods that name one of these schedulers; everybody else passes untouched.

    Raises BadReview when there is nothing that could be answered.
    """

    schedulers: frozenset[str]
    literal: Callable[[Pod], str | None] = literal_for

    def mutate(self, body: bytes) -> Answer:
        asked = review.read_review(body)
        concerned = asked.creates_pod or asked.before is not None
        return self._answered(asked, self._injected if concerned else None)

    def validate(self, body: bytes) -> Answer:
        asked = review.read_review(body)
        return self._answered(asked, self._checked if asked.creates_pod else None)

    def _answered(self, asked: Review, answer: Callable[[Review, Pod], Answer] | None) -> Answer:
        """None: there is nothing to say."""
        try:
            pod = self._ours(asked.object) if answer else None
            if pod is None or answer is None:
                return Answer(review.allow(asked), "untouched")
            return answer(asked, pod)
        except TooMuch as error:
            return Answer(review.refuse(asked, str(error)), "refused")
        except (*UNREADABLE, FairleadError) as error:
            raise BadReview(f"the object of the AdmissionReview is not a pod: {error}") from error

    def _injected(self, asked: Review, pod: Pod) -> Answer:
        # A pod that makes no sense is refused by the other question, in its own words.
        literal = None if pod.problem else self.literal(pod)
        steps = injection.patch(asked.object, literal, asked.before)
        return Answer(review.allow(asked, steps), "injected" if steps else "untouched")

    def _checked(self, asked: Review, pod: Pod) -> Answer:
        problem = problem_with(pod)
        if problem:
            return Answer(review.refuse(asked, problem), "refused")
        return Answer(review.allow(asked, warning=pod.misspelt), "allowed")

    def _ours(self, pod: bytes) -> Pod | None:
        if _pods.decode(pod).spec.scheduler_name not in self.schedulers:
            return None
        check_size(pod)
        return decode_pod(pod)
