"""Slices, device classes, resource claims and taint rules: watched as long as they are served."""

from collections.abc import Iterator
from functools import partial
from typing import cast

import structlog

from fairlead.apps.run.object_watches import FedWatches
from fairlead.apps.run.served_kinds import KindWatch
from fairlead.engine import events
from fairlead.kube.claims.kinds import CLAIM_KINDS, CLAIMS
from fairlead.kube.mirror.changes import Change, Deleted, Undecodable, Upserted
from fairlead.model.claims import ClaimObject, ResourceClaim

log = structlog.get_logger(__name__)


class ClaimWatches(FedWatches):
    def _watches(self) -> Iterator[KindWatch]:
        for kind, decode in CLAIM_KINDS.items():
            not_served = partial(self._not_served, kind.plural)
            yield KindWatch(kind.plural, kind, decode, self._on_change, not_served)

    def get(self, key: str) -> ResourceClaim | None:
        """The claim "namespace/name" as it was last seen."""
        served = self._kinds.get(CLAIMS.plural)
        found = served.reflector.objects.get(key) if served else None
        return cast("ResourceClaim | None", found)

    def written(self, claim: ResourceClaim) -> None:
        """The API server answered a write with the claim.

        What is written was shown before. If it is not any more, the answer is late: it is gone.
        """
        shown = self.get(claim.key)
        if shown is not None and shown.uid == claim.uid:
            self._feed(events.ClaimObjectSeen(claim))

    def _not_served(self, what: str, key: str) -> None:
        served = self._kinds.get(what)
        if served is not None:
            self._feed(events.ClaimObjectGone(served.reflector.objects[key]))

    def _on_change(self, change: Change[ClaimObject]) -> None:
        match change:
            case Upserted(seen):
                if seen.problem:
                    log.warning("object of claims cannot be used", **_named(seen))
                self._feed(events.ClaimObjectSeen(seen))
            case Deleted(gone):
                self._feed(events.ClaimObjectGone(gone))
            case Undecodable():
                log.error("object of claims cannot be read", key=change.key, error=change.error)
            case _:
                return


def _named(seen: ClaimObject) -> dict[str, str]:
    return {"what": type(seen).__name__, "key": seen.key, "why": seen.problem}
