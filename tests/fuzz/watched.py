"""A kind that is not served everywhere, watched as the scheduler watches it."""

import contextlib
import json
from typing import Any

from fairlead.apps.run.node_requests import NodeRequestCare
from fairlead.apps.run.optional_kinds import OptionalKinds
from fairlead.apps.run.served_kinds import KindWatch
from fairlead.kube.gangs import registry as gangs
from fairlead.kube.mirror.position import OutOfStep
from fairlead.kube.mirror.reflector import Reflector
from fairlead.kube.queues import registry as queues
from fuzz.objects import Json
from fuzz.target import _NO_CLIENT, Target

_NOTHING: Any = None


def optional_watches(target: Target) -> dict[str, KindWatch]:
    """Of the scheduler, by the full name of the kind."""
    supervise = target.containment.supervise
    care = NodeRequestCare(_NO_CLIENT, *[_NOTHING] * 4, supervise, lambda: True)
    kinds = OptionalKinds(
        _NO_CLIENT, _NOTHING, target.feed, supervise, ["s"], gangs.ALL, queues.QueueDialects(),
        care, lambda: None, counts_data=True,
    )  # fmt: skip
    parts = (*kinds._all.values(), care)
    watches = (watch for part in parts for watch in part._kinds._watches.values())
    return {watch.kind.full_name: watch for watch in watches}


class Watched:
    def __init__(self, target: Target, watch: KindWatch) -> None:
        decode, path = target._strict(watch.decode), watch.kind.path(watch.kind.versions[0])
        self.watch = watch
        self._reflector = Reflector(_NO_CLIENT, path, decode, watch.on_change)
        self._version = 100

    @property
    def objects(self) -> dict[str, object]:
        return dict(self._reflector.objects)

    def show(self, obj: Json, name: str, namespace: str = "", change: str = "ADDED") -> bytes:
        """The API server chooses the version, and checks names. Returns the object as it has it."""
        self._version += 1
        meta = obj.get("metadata")
        known = {"name": name, "uid": f"uid-{name}", "resourceVersion": str(self._version)}
        space = {"namespace": namespace} if namespace else {}
        obj = {**obj, "metadata": {**(meta if isinstance(meta, dict) else {}), **known, **space}}
        with contextlib.suppress(OutOfStep):
            self._reflector._feed.apply(json.dumps({"type": change, "object": obj}).encode())
        return json.dumps(obj).encode()

    def is_removed(self) -> None:
        """The kind is not served any more."""
        for key in self.objects:
            self.watch.on_gone(key)
        self._reflector = Reflector(
            _NO_CLIENT, self._reflector.path, self._reflector._feed._decode, self.watch.on_change
        )
