"""Three of the extender's four verbs. The fourth, bind, needs the API server."""

from fairlead.engine.engine import Engine
from fairlead.engine.extender_queries import ExtenderQueries
from fairlead.kube.admission.bounds import TooMuch, check_size
from fairlead.kube.codec import decode_pod
from fairlead.kube.extender import wire
from fairlead.kube.extender.wire import BadExtenderArgs, OfferedVictims
from fairlead.kube.http.reply import UNREADABLE
from fairlead.kube.nesting import of_any_depth
from fairlead.model.errors import FairleadError
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.pods import Pod


@dataclass(frozen=True, slots=True)
class ExtenderHandler:
    """Answers from what the engine knows now. Raises BadQuestion if there is nothing to answer."""

    engine: Engine

    def filter(self, body: bytes) -> "FilterQuery":
        asked = wire.read_nodes(body)
        return FilterQuery(self.engine, asked, self._pod(asked.pod))

    def prioritize(self, body: bytes) -> bytes:
        asked = wire.read_nodes(body)
        scores = self._queries.prioritize(self._pod(asked.pod), asked.names)
        return wire.encode_priorities(asked.names, scores)

    def preempt(self, body: bytes) -> bytes:
        asked = wire.read_victims(body)
        pod = self._pod(asked.pod)
        if not self._queries.concerns(pod):
            return wire.encode_victims(asked.offered)
        offered = {node: victims.uids for node, victims in asked.offered.items()}
        found = self._queries.preempt(pod, offered)
        return wire.encode_victims(
            {
                node: OfferedVictims(
                    tuple(victim.uid for victim in eviction.victims_by_node[node]),
                    eviction.violations,
                )
                for node, eviction in found.items()
            }
        )

    @property
    def _queries(self) -> ExtenderQueries:
        assert self.engine.extender_queries is not None
        return self.engine.extender_queries

    def _pod(self, raw: bytes) -> Pod:
        try:
            return of_any_depth(self._checked_pod)(raw)
        except TooMuch as error:
            raise BadExtenderArgs(str(error)) from error
        except (*UNREADABLE, FairleadError) as error:
            raise BadExtenderArgs(f"Pod is not a pod: {error}") from error

    def _checked_pod(self, raw: bytes) -> Pod:
        check_size(raw)
        return decode_pod(raw, self.engine.cluster.behaviour)


@dataclass(frozen=True, slots=True)
class FilterQuery:
    """A decoded filter request. It can be answered again after a change."""

    engine: Engine
    asked: wire.ExtenderArgs
    pod: Pod

    @property
    def uid(self) -> str:
        return self.pod.uid

    def answer(self) -> tuple[bool, bytes]:
        """Whether any node fits, and the answer."""
        assert self.engine.extender_queries is not None
        result = self.engine.extender_queries.filter_nodes(self.pod, self.asked.names)
        return bool(result.passed), wire.encode_filter_result(self.asked, result)
