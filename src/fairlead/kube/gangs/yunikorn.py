"""Task groups of YuniKorn: a gang in the annotations of its pods.

YuniKorn reserves its room with pods that do nothing and replaces them later. That is not needed
here: the gang is placed in one decision. In a Spark application only the driver carries the task
groups, and it creates the executors; so it starts when there is room for all of them.
"""

from typing import ClassVar

import msgspec

from fairlead.kube.gangs.api import GangDefaults, PodWords
from fairlead.kube.gangs.limits import amounts_of, minimum_of, name_of
from fairlead.kube.gangs.ranks import rank_in_labels
from fairlead.model.errors import FairleadError
from fairlead.model.gangs import MOST_GROUPS, GangSpec, Group, Membership
from fairlead.model.quantities import LARGEST
from fairlead.model.sizes import remembered

_PREFIX = "yunikorn.apache.org/"
TASK_GROUPS, TASK_GROUP = f"{_PREFIX}task-groups", f"{_PREFIX}task-group-name"
APP_ID = f"{_PREFIX}app-id"
_SPARK = "spark-app-selector"
#: Labels that name the application, in the order in which YuniKorn reads them.
_APP_LABELS = (APP_ID, "applicationId", _SPARK)


class _TaskGroup(msgspec.Struct, rename="camel", gc=False, frozen=True):
    name: str = ""
    min_member: int | None = None
    min_resource: dict[str, str | int] | None = None


_task_groups = msgspec.json.Decoder(list[_TaskGroup])


class Yunikorn(GangDefaults):
    name: ClassVar[str] = "yunikorn"
    annotation_keys: ClassVar[tuple[str, ...]] = (TASK_GROUPS, TASK_GROUP)

    def membership(self, pod: PodWords) -> Membership | None:
        text, group = pod.annotations.get(TASK_GROUPS), pod.annotations.get(TASK_GROUP)
        if text is None and group is None:
            return None
        key = f"{self.name}/{pod.namespace}/{_application(pod)}"
        if _SPARK in pod.labels:
            return Membership(key, spec=None if text is None else _by_sum(key, text))
        if group is None:
            raise FairleadError(f"it has {TASK_GROUPS}, but not {TASK_GROUP}; add its own group")
        spec = None if text is None else _by_count(key, text)
        return Membership(key, name_of(TASK_GROUP, group), rank_in_labels(pod), spec)


def _application(pod: PodWords) -> str:
    found = (pod.labels.get(key) for key in _APP_LABELS)
    name = next(filter(None, found), None) or pod.annotations.get(APP_ID, "")
    if not name:
        raise FairleadError(f"it has a task group, but no label {APP_ID}; add it")
    return name_of(APP_ID, name)


@remembered(4 << 20)
def _by_count(key: str, text: str) -> GangSpec:
    """Every task group with its minimum."""
    leaves = tuple(
        Group(name_of(f"{TASK_GROUPS}: name", each.name), _least(each)) for each in _decoded(text)
    )
    if len({leaf.name for leaf in leaves}) != len(leaves):
        raise FairleadError(f"{TASK_GROUPS} has two groups of one name; give each its own name")
    return GangSpec(key, _whole(sum(leaf.minimum for leaf in leaves)), groups=leaves)


@remembered(4 << 20)
def _by_sum(key: str, text: str) -> GangSpec:
    """The room of all task groups, for a pod that creates the others."""
    total: dict[str, int] = {}
    for each in _decoded(text):
        for name, amount in amounts_of(f"{TASK_GROUPS}: minResource", each.min_resource or {}):
            total[name] = min(LARGEST, total.get(name, 0) + _least(each) * amount)
    return GangSpec(key, 1, least_resources=tuple(sorted(total.items())))


def _decoded(text: str) -> list[_TaskGroup]:
    try:
        found = _task_groups.decode(text)
    except (msgspec.DecodeError, RecursionError, ValueError) as error:
        raise FairleadError(f"{TASK_GROUPS} cannot be read: {error}") from error
    if not found or len(found) > MOST_GROUPS:
        raise FairleadError(f"{TASK_GROUPS} has {len(found)} groups; write 1 to {MOST_GROUPS}")
    return found


def _least(group: _TaskGroup) -> int:
    return minimum_of(f"{TASK_GROUPS}: minMember", group.min_member)


def _whole(count: int) -> int:
    return minimum_of(f"the sum of minMember in {TASK_GROUPS}", count)
