"""Queues of YuniKorn, such as `root.research.team`.

YuniKorn has no objects for queues: it reads them from a ConfigMap. Where the configuration names
that ConfigMap, it is read. Otherwise the names mean queues of our own kind that are called the
same: a Queue `root.research` applies to pods that name `root.research` in YuniKorn's words.
"""

from typing import ClassVar

from fairlead.kube.queues.api import QueueDefaults
from fairlead.model.queues import QueueSpec

_ROOT = "root"


class YunikornQueues(QueueDefaults):
    name: ClassVar[str] = "yunikorn"
    label_keys: ClassVar[tuple[str, ...]] = ("yunikorn.apache.org/queue",)
    annotation_keys: ClassVar[tuple[str, ...]] = ("yunikorn.apache.org/queue",)
    ignores_case: ClassVar[bool] = True

    def __init__(self, config_map: tuple[str, str] | None = None) -> None:
        """`config_map`: namespace and name of the ConfigMap that lists the queues."""
        self.config_map = config_map


def yunikorn_key(spec: QueueSpec) -> str:
    """The key under which YuniKorn's words name this queue of ours; empty if they do not."""
    is_named = spec.name == _ROOT or spec.name.startswith(f"{_ROOT}.")
    return f"{YunikornQueues.name}/{spec.name}" if is_named else ""


def yunikorn_alias(spec: QueueSpec) -> QueueSpec:
    """A queue without limits of its own beneath the one that it stands for."""
    return QueueSpec(
        yunikorn_key(spec), parent=spec.key, order=spec.order, created_s=spec.created_s
    )
