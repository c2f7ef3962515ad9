"""The status of the objects of queues: what a queue uses, where users of its API look."""

from dataclasses import replace

from fairlead.kube.http.paths import in_namespace, named
from fairlead.kube.queues.api import Json, QueueDialect, QueueKind, QueueObject, QueueStanding
from fairlead.kube.queues.registry import decode_queue
from fairlead.kube.writes.event_objects import shortened
from fairlead.kube.writes.object_status import ObjectStatusWriter, decoded_status
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.queues import QueueStatus

#: As the API server allows for the message of a condition.
_LONGEST_MESSAGE_BYTES = 8192


@dataclass(frozen=True, slots=True)
class ServedQueues:
    """A kind of queues that is served, in the version in which it is read."""

    dialect: QueueDialect
    kind: QueueKind
    version: str

    @property
    def full_name(self) -> str:
        return self.kind.full_name

    def path(self, seen: QueueObject) -> str:
        root, plural = f"/apis/{self.kind.group}/{self.version}", self.kind.plural
        folder = in_namespace(root, seen.namespace, plural) if seen.namespace else None
        return named(folder or f"{root}/{plural}", seen.name)

    def tail(self, body: Json) -> str:
        return "/status"

    def read(self, raw: bytes) -> QueueObject:
        return decode_queue(self.dialect, raw, with_long_status=True)

    def body(self, seen: QueueObject, status: QueueStatus, now: str) -> Json | None:
        standing = QueueStanding(decoded_status(seen), seen.generation)
        changed = self.dialect.status(standing, status, now)
        return {"status": changed} if changed else None


class QueueStatusWriter(ObjectStatusWriter[QueueObject, QueueStatus]):
    """Writes the newest status of each queue."""

    def put(self, served: ServedQueues, seen: QueueObject, status: QueueStatus) -> None:
        """Has the status written some time, unless a newer one comes first."""
        problem = shortened(status.problem, _LONGEST_MESSAGE_BYTES)
        self.submit(seen.spec.key, served, seen, replace(status, problem=problem))
