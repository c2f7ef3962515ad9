"""Three of the four questions, answered at once. The fourth, bind, needs the API server."""

from dataclasses import dataclass

from fairlead.engine.adviser import Adviser
from fairlead.engine.engine import Engine
from fairlead.kube.admission.bounds import TooMuch, check_size
from fairlead.kube.codec import decode_pod
from fairlead.kube.extender import wire
from fairlead.kube.extender.wire import BadQuestion, Victims
from fairlead.kube.http.reply import UNREADABLE
from fairlead.model.errors import FairleadError
from fairlead.model.pods import Pod


@dataclass(frozen=True, slots=True)
class Desk:
    """Answers from what the engine knows now. Raises BadQuestion if there is nothing to answer."""

    engine: Engine

    def filter(self, body: bytes) -> "Sifting":
        asked = wire.read_nodes(body)
        return Sifting(self.engine, asked, self._pod(asked.pod))

    def prioritize(self, body: bytes) -> bytes:
        asked = wire.read_nodes(body)
        scores = self._adviser.rate(self._pod(asked.pod), asked.names)
        return wire.told_scores(asked.names, scores)

    def preempt(self, body: bytes) -> bytes:
        asked = wire.read_victims(body)
        pod = self._pod(asked.pod)
        if not self._adviser.concerns(pod):
            return wire.told_victims(asked.offered)
        offered = {node: victims.uids for node, victims in asked.offered.items()}
        found = self._adviser.evict(pod, offered)
        return wire.told_victims({
            node: Victims(tuple(pod.uid for pod in eviction.victims), eviction.violations)
            for node, eviction in found.items()
        })  # fmt: skip

    @property
    def _adviser(self) -> Adviser:
        assert self.engine.adviser is not None
        return self.engine.adviser

    def _pod(self, raw: bytes) -> Pod:
        try:
            check_size(raw)
            return decode_pod(raw, self.engine.cluster.behaviour)
        except TooMuch as error:
            raise BadQuestion(str(error)) from error
        except (*UNREADABLE, FairleadError) as error:
            raise BadQuestion(f"Pod is not a pod: {error}") from error


@dataclass(frozen=True, slots=True)
class Sifting:
    """A question of filter that was read, and can be answered again after a change."""

    engine: Engine
    asked: wire.NodesAsked
    pod: Pod

    @property
    def uid(self) -> str:
        return self.pod.uid

    def answer(self) -> tuple[bool, bytes]:
        """Whether any node fits, and the answer."""
        assert self.engine.adviser is not None
        advice = self.engine.adviser.sift(self.pod, self.asked.names)
        return bool(advice.passed), wire.told_nodes(self.asked, advice)
