"""GPUs of pods that are gone, and whose processes may still run.

A pod that ends, or is deleted in the usual way, goes when its containers have ended. One that is
deleted by force is gone at once, and its processes go on. Where an agent says when they have ended,
what the pod held of GPUs is kept until then.
"""

from collections.abc import Iterator
from dataclasses import replace

from fairlead.model.gpus import Grant
from fairlead.model.holders import Holder, releasing_holder
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.pods import Pod


@dataclass(frozen=True, slots=True)
class Release:
    """What is kept of one pod that is gone."""

    pod: Pod
    node: str
    grant: Grant
    since_s: float

    @property
    def holder(self) -> Holder:
        return releasing_holder(self.pod.uid)

    @property
    def gpus(self) -> str:
        return ", ".join(sorted({use.uuid for use in self.grant.uses}))


class Releasing:
    """All of them, by the uid of the pod."""

    def __init__(self) -> None:
        self._kept: dict[str, Release] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def put(self, pod: Pod, node: str, grant: Grant, now_s: float) -> Release:
        """A device plugin that had not taken note of the pod has nothing to wait for any more."""
        kept = Release(pod, node, replace(grant, pending=False), now_s)
        self._kept[pod.uid] = kept
        return kept

    def get(self, uid: str) -> Release | None:
        return self._kept.get(uid)

    def pop(self, uid: str) -> Release | None:
        return self._kept.pop(uid, None)

    def on(self, node: str) -> Iterator[Release]:
        return (kept for kept in self._kept.values() if kept.node == node)

    def since(self, before_s: float) -> list[Release]:
        """Those kept since then or longer."""
        return [kept for kept in self._kept.values() if kept.since_s <= before_s]
