"""The fields of a pod that are decoded; what makes up its request stays bytes."""

import msgspec
from msgspec import Raw

from fairlead.kube.codec.meta import Meta, StatusConditionWire
from fairlead.kube.pod_volumes import PodVolume


class ContainerWire(msgspec.Struct, rename="camel", gc=False):
    name: str = ""
    resources: Raw = Raw()
    ports: Raw = Raw()
    env: Raw = Raw()
    args: Raw = Raw()
    restart_policy: str | None = None
    image: str = ""
    restart_policy_rules: Raw = Raw()


class _Gate(msgspec.Struct, rename="camel", gc=False):
    name: str = ""


class _SchedulingGroup(msgspec.Struct, rename="camel", gc=False):
    pod_group_name: str = ""


class PodAffinityWire(msgspec.Struct, rename="camel", gc=False):
    node_affinity: Raw = Raw()
    pod_affinity: Raw = Raw()
    pod_anti_affinity: Raw = Raw()


class PodSpecWire(msgspec.Struct, rename="camel", gc=False):
    containers: list[ContainerWire] | None = None
    init_containers: list[ContainerWire] | None = None
    node_name: str = ""
    scheduler_name: str = ""
    priority: int | None = None
    priority_class_name: str = ""
    preemption_policy: str | None = None
    scheduling_gates: list[_Gate] | None = None
    node_selector: Raw = Raw()
    tolerations: Raw = Raw()
    affinity: PodAffinityWire | None = None
    overhead: Raw = Raw()
    resources: Raw = Raw()
    topology_spread_constraints: Raw = Raw()
    resource_claims: Raw = Raw()
    volumes: list[PodVolume] | None = None
    host_network: bool | None = None
    host_users: bool | None = None
    scheduling_group: _SchedulingGroup | None = None
    active_deadline_seconds: int | None = None


class _ContainerStatus(msgspec.Struct, rename="camel", gc=False):
    name: str = ""
    resources: Raw = Raw()
    allocated_resources: Raw = Raw()


class PodStatusWire(msgspec.Struct, rename="camel", gc=False):
    phase: str = ""
    nominated_node_name: str = ""
    start_time: str | None = None
    conditions: list[StatusConditionWire] | None = None
    container_statuses: list[_ContainerStatus] | None = None
    init_container_statuses: list[_ContainerStatus] | None = None
    resources: Raw = Raw()
    allocated_resources: Raw = Raw()
    resource_claim_statuses: Raw = Raw()
    extended_resource_claim_status: Raw = Raw()


class PodWire(msgspec.Struct, rename="camel", gc=False):
    metadata: Meta
    spec: PodSpecWire
    status: PodStatusWire = msgspec.field(default_factory=PodStatusWire)


decode = msgspec.json.Decoder(PodWire).decode
