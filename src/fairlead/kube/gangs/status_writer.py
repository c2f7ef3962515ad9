"""The status of the objects of gangs: what became of a gang, where users of its API look."""

from dataclasses import replace

from fairlead.kube.gangs.api import GangDialect, GangKind, GangObject, Json, Standing
from fairlead.kube.gangs.registry import decode_object
from fairlead.kube.http.paths import in_namespace, named
from fairlead.kube.writes.event_objects import shortened
from fairlead.kube.writes.object_status import ObjectStatusWriter, decoded_status
from fairlead.model.gangs import GangStatus
from fairlead.model.lazy_dataclass import dataclass

#: As the API server allows for the message of a condition.
_LONGEST_MESSAGE_BYTES = 8192


@dataclass(frozen=True, slots=True)
class ServedKind:
    """A kind of object that is served, in the version in which it is read."""

    dialect: GangDialect
    kind: GangKind
    version: str

    @property
    def full_name(self) -> str:
        return self.kind.full_name

    def path(self, seen: GangObject) -> str:
        root = f"/apis/{self.kind.group}/{self.version}"
        return named(in_namespace(root, seen.namespace, self.kind.plural), seen.name)

    def tail(self, body: Json) -> str:
        return "/status" if self.kind.has_status_subresource and "status" in body else ""

    def read(self, raw: bytes) -> GangObject:
        return decode_object(self.dialect, raw, with_long_status=True)

    def body(self, seen: GangObject, status: GangStatus, now: str) -> Json | None:
        standing = Standing(decoded_status(seen), seen.generation, self.version)
        return self.dialect.status(standing, status, now)


class GangStatusWriter(ObjectStatusWriter[GangObject, GangStatus]):
    """Writes the newest status of each gang."""

    def put(self, served: ServedKind, seen: GangObject, status: GangStatus) -> None:
        """Has the status written some time, unless a newer one comes first."""
        message = shortened(status.message, _LONGEST_MESSAGE_BYTES)
        self.submit(seen.spec.key, served, seen, replace(status, message=message))
