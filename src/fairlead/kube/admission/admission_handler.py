"""Answers the API server's two reviews of new pods and containers."""

from collections.abc import Callable, Mapping
from dataclasses import field, replace

import msgspec

from fairlead.kube.admission import injection, review
from fairlead.kube.admission.bounds import TooMuch, check_size
from fairlead.kube.admission.class_reviews import ClassReviews
from fairlead.kube.admission.gpu_resources import Added, resource_steps
from fairlead.kube.admission.literals import literal_for
from fairlead.kube.admission.queue_reviews import QueueReviews
from fairlead.kube.admission.review import BadReview, Review
from fairlead.kube.admission.validation import problem_with
from fairlead.kube.codec import decode_pod
from fairlead.kube.http.reply import UNREADABLE
from fairlead.kube.nesting import of_any_depth
from fairlead.model.data_sets import DATA, read_data
from fairlead.model.errors import FairleadError
from fairlead.model.gpus import Isolation
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.pods import Pod
from fairlead.model.start_times import missed


class _Spec(msgspec.Struct, rename="camel", gc=False):
    scheduler_name: str = ""


class _Pod(msgspec.Struct, gc=False):
    spec: _Spec


_pods = msgspec.json.Decoder(_Pod)


@dataclass(frozen=True, slots=True)
class AdmissionAnswer:
    """What to send back, and one word for the metrics."""

    body: bytes
    outcome: str
    #: It is about queues, of which newer ones may not be known yet.
    in_doubt: bool = False


@dataclass(frozen=True, slots=True)
class AdmissionHandler:
    """Answers for pods that name one of these schedulers; other pods pass unchanged.

    Raises BadReview if the request cannot be answered.
    """

    schedulers: frozenset[str]
    literal: Callable[[Pod], str | None] = literal_for
    #: The isolation of shares that demand none, by scheduler.
    isolation: Mapping[str, Isolation] = field(default_factory=dict)
    queues: QueueReviews = field(default_factory=QueueReviews)
    classes: ClassReviews = field(default_factory=ClassReviews)
    #: As the scheduler reads pods: by the dialects that are on.
    decode: Callable[[bytes], Pod] = decode_pod
    #: To which pods requests for the parts of their GPUs are added.
    gpu_resources: Added = "none"

    def mutate(self, body: bytes) -> AdmissionAnswer:
        asked = review.read_review(body)
        concerned = asked.creates_pod or asked.before is not None
        return self._answered(asked, self._injected if concerned else None)

    def validate(self, body: bytes) -> AdmissionAnswer:
        asked = review.read_review(body)
        if asked.describes_queue:
            return self._checked_queue(asked)
        return self._answered(asked, self._checked if asked.creates_pod else None)

    def _answered(
        self, asked: Review, answer: Callable[[Review, Pod], AdmissionAnswer] | None
    ) -> AdmissionAnswer:
        """`answer` is None for objects that are not checked."""

        def answered(raw: bytes) -> AdmissionAnswer:
            pod = self._ours(raw) if answer else None
            if pod is None or answer is None:
                return AdmissionAnswer(review.allow(asked), "untouched")
            return answer(replace(asked, object=raw), pod)

        try:
            # The server may pass over a webhook that cannot read the object.
            return of_any_depth(answered)(asked.object)
        except TooMuch as error:
            return AdmissionAnswer(review.refuse(asked, str(error)), "refused")
        except (*UNREADABLE, FairleadError) as error:
            raise BadReview(f"the object of the AdmissionReview is not a pod: {error}") from error

    def _injected(self, asked: Review, pod: Pod) -> AdmissionAnswer:
        if asked.before is not None:
            of_any_depth(check_size)(asked.before)
        # An invalid pod is refused by the validating webhook.
        literal = None if pod.problem else self.literal(pod)
        default = self.isolation.get(pod.scheduler)
        steps = injection.patch(asked.object, literal, asked.before, default)
        if asked.before is None:
            steps += resource_steps(asked.object, pod, self.gpu_resources)
        return AdmissionAnswer(review.allow(asked, steps), "injected" if steps else "untouched")

    def _checked(self, asked: Review, pod: Pod) -> AdmissionAnswer:
        problem = problem_with(pod)
        if problem:
            return AdmissionAnswer(review.refuse(asked, problem), "refused")
        if problem := self.queues.problem_with_pod(pod):
            return AdmissionAnswer(review.refuse(asked, problem), "refused", in_doubt=True)
        wrong = pod.run_time.problem if pod.run_time else ""
        warnings = (
            pod.misspelt,
            wrong,
            *_start_warnings(pod),
            _data_warning(pod),
            *self.classes.warnings(pod),
        )
        return AdmissionAnswer(review.allow(asked, warnings=warnings), "allowed")

    def _checked_queue(self, asked: Review) -> AdmissionAnswer:
        def checked(raw: bytes) -> str:
            check_size(raw, "queue")
            return self.queues.problem_with_queue(raw)

        try:
            problem = of_any_depth(checked)(asked.object)
        except TooMuch as error:
            return AdmissionAnswer(review.refuse(asked, str(error)), "refused")
        except UNREADABLE as error:
            raise BadReview(f"the object of the AdmissionReview is not a queue: {error}") from error
        if problem:
            return AdmissionAnswer(review.refuse(asked, problem), "refused", in_doubt=True)
        return AdmissionAnswer(review.allow(asked), "allowed")

    def _ours(self, pod: bytes) -> Pod | None:
        if _pods.decode(pod).spec.scheduler_name not in self.schedulers:
            return None
        check_size(pod)
        return self.decode(pod)


def _data_warning(pod: Pod) -> str:
    """Why the data that it names is not counted; empty if it is."""
    try:
        read_data(pod.annotations.get(DATA, ""), pod.namespace)
    except FairleadError as error:
        return f"{DATA} is ignored: {error}"
    return ""


def _start_warnings(pod: Pod) -> tuple[str, ...]:
    """What it says about its start without effect, and a deadline that cannot be met."""
    if pod.start is None:
        return ()
    run_s = pod.run_time.expected_s if pod.run_time else None
    return pod.start.problem, missed(pod.start, run_s, pod.start.created_s)
