"""A kind that is not served everywhere, watched as the scheduler watches it."""

import contextlib
import json

from fairlead.apps.run.served_kinds import KindWatch
from fairlead.kube.mirror.position import OutOfStep
from fairlead.kube.mirror.reflector import Reflector
from fuzz.objects import Json
from fuzz.target import _NO_CLIENT, Target


class Watched:
    def __init__(self, target: Target, watch: KindWatch) -> None:
        decode, path = target._strict(watch.decode), watch.kind.path(watch.kind.versions[0])
        self.watch = watch
        self._reflector = Reflector(_NO_CLIENT, path, decode, watch.on_change)
        self._version = 100

    @property
    def objects(self) -> dict[str, object]:
        return dict(self._reflector.objects)

    def show(self, obj: Json, name: str, namespace: str = "", change: str = "ADDED") -> None:
        """The API server chooses the version, and checks names."""
        self._version += 1
        meta = obj.get("metadata")
        known = {"name": name, "uid": f"uid-{name}", "resourceVersion": str(self._version)}
        space = {"namespace": namespace} if namespace else {}
        obj = {**obj, "metadata": {**(meta if isinstance(meta, dict) else {}), **known, **space}}
        with contextlib.suppress(OutOfStep):
            self._reflector._feed.apply(json.dumps({"type": change, "object": obj}).encode())

    def is_removed(self) -> None:
        """The kind is not served any more."""
        for key in self.objects:
            self.watch.on_gone(key)
        self._reflector = Reflector(
            _NO_CLIENT, self._reflector.path, self._reflector._feed._decode, self.watch.on_change
        )
