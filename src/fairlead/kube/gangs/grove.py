"""PodGangs of Grove (scheduler.grove.io), read directly.

With the backends of KAI and Volcano the operator also creates their PodGroups, and the pods name
these, which then apply. It creates the pods of a gang with a gate, and lifts it when all are there.
"""

from typing import ClassVar

import msgspec

from fairlead.kube.gangs.api import GangDefaults, GangKind, Json, PodWords, Standing
from fairlead.kube.gangs.conditions import Condition, with_condition
from fairlead.kube.gangs.limits import minimum_of, name_of
from fairlead.kube.gangs.ranks import rank_in_labels
from fairlead.model.errors import FairleadError
from fairlead.model.gangs import (
    MOST_GROUPS,
    GangSpec,
    GangState,
    GangStatus,
    Group,
    Membership,
    TopologyRule,
)

POD_GANG = "grove.io/podgang"
CLIQUE = "grove.io/podclique"


class _Pack(msgspec.Struct, gc=False):
    required: str | None = None
    preferred: str | None = None


class _Topology(msgspec.Struct, rename="camel", gc=False):
    pack_constraint: _Pack | None = None


class _PodGroup(msgspec.Struct, rename="camel", gc=False):
    name: str = ""
    min_replicas: int = 0
    topology_constraint: _Topology | None = None


class _Config(msgspec.Struct, rename="camel", gc=False):
    name: str = ""
    pod_group_names: list[str] | None = None
    topology_constraint: _Topology | None = None


class _Spec(msgspec.Struct, rename="camel", gc=False):
    podgroups: list[_PodGroup] | None = None
    topology_constraint: _Topology | None = None
    topology_constraint_group_configs: list[_Config] | None = None


_specs = msgspec.json.Decoder(_Spec)


class Grove(GangDefaults):
    name: ClassVar[str] = "grove"
    label_keys: ClassVar[tuple[str, ...]] = (POD_GANG,)
    gives_way: ClassVar[bool] = True
    kind: ClassVar[GangKind | None] = GangKind(
        "scheduler.grove.io",
        ("v1alpha1",),
        "podgangs",
        "PodGang",
        "install the CustomResourceDefinitions of Grove",
    )

    def membership(self, pod: PodWords) -> Membership | None:
        if POD_GANG not in pod.labels:
            return None
        name = name_of(POD_GANG, pod.labels[POD_GANG])
        clique, rank = pod.labels.get(CLIQUE, ""), rank_in_labels(pod)
        return Membership(f"{self.name}/{pod.namespace}/{name}", clique, rank)

    def spec(self, key: str, spec: bytes) -> GangSpec:
        wire = _specs.decode(spec)
        found = wire.podgroups or []
        if len(found) > MOST_GROUPS:
            raise FairleadError(f"it has {len(found)} podgroups; the limit is {MOST_GROUPS}")
        leaves = {name_of("spec.podgroups.name", each.name): _leaf(each) for each in found}
        groups = _grouped(leaves, wire.topology_constraint_group_configs or [])
        return GangSpec(
            key,
            # All minimums are 0 while the operator updates its pods.
            max(1, sum(leaf.minimum for leaf in leaves.values())),
            groups=groups,
            topology=_rules(wire.topology_constraint),
        )

    def status(self, standing: Standing, status: GangStatus, now: str) -> Json | None:
        match status.state:
            case GangState.SCHEDULED:
                condition = Condition("Scheduled", "True", "Scheduled", "")
            case GangState.UNSCHEDULABLE:
                condition = Condition("Scheduled", "False", "Unschedulable", status.message)
            case GangState.INVALID:
                condition = Condition("Scheduled", "False", "SchedulerError", status.message)
            case _:
                return None
        return with_condition(standing.status, condition, now)


def _leaf(wire: _PodGroup) -> Group:
    field = f"spec.podgroups[{wire.name[:64]}].minReplicas"
    least = minimum_of(field, wire.min_replicas, least=0)
    return Group(wire.name, least, topology=_rules(wire.topology_constraint))


def _grouped(leaves: dict[str, Group], configs: list[_Config]) -> tuple[Group, ...]:
    """Leaves with a constraint in common become one group; each belongs to at most one."""
    left, groups = dict(leaves), list[Group]()
    for config in configs[:MOST_GROUPS]:
        name = f"groups/{config.name}"
        try:
            inner = tuple(left.pop(leaf) for leaf in config.pod_group_names or ())
        except KeyError as error:
            raise FairleadError(
                f"spec.topologyConstraintGroupConfigs names the podgroup {str(error)[:64]}, which "
                "is unknown or is in another one of them"
            ) from None
        groups.append(Group(name, len(inner), inner, topology=_rules(config.topology_constraint)))
    return (*groups, *left.values())


def _rules(topology: _Topology | None) -> tuple[TopologyRule, ...]:
    pack = (topology or _Topology()).pack_constraint or _Pack()
    levels = (pack.required, True), (pack.preferred, False)
    return tuple(TopologyRule(level, required=required) for level, required in levels if level)
