"""The format `kubescheduler.config.k8s.io/v1`, typed. A key that it does not have is an error.

A null means the same as leaving the key out, as for kube-scheduler; `without_nulls` sees to it.
"""

import re
from collections.abc import Iterator
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from fairlead.apps.config.extender_format import Extender, ExtenderTLS, ManagedResource, Strict

API_GROUP = "kubescheduler.config.k8s.io"
API_VERSION = f"{API_GROUP}/v1"
KIND = "KubeSchedulerConfiguration"

Int32 = Annotated[int, msgspec.Meta(ge=-(1 << 31), lt=1 << 31)]


class Enabled(Strict):
    name: str
    weight: Int32 = 0


class PluginSet(Strict):
    enabled: tuple[Enabled, ...] = ()
    disabled: tuple[Enabled, ...] = ()


class Plugins(Strict):
    pre_enqueue: PluginSet = msgspec.field(default_factory=PluginSet)
    queue_sort: PluginSet = msgspec.field(default_factory=PluginSet)
    pre_filter: PluginSet = msgspec.field(default_factory=PluginSet)
    filter: PluginSet = msgspec.field(default_factory=PluginSet)
    post_filter: PluginSet = msgspec.field(default_factory=PluginSet)
    pre_score: PluginSet = msgspec.field(default_factory=PluginSet)
    score: PluginSet = msgspec.field(default_factory=PluginSet)
    reserve: PluginSet = msgspec.field(default_factory=PluginSet)
    permit: PluginSet = msgspec.field(default_factory=PluginSet)
    pre_bind: PluginSet = msgspec.field(default_factory=PluginSet)
    bind: PluginSet = msgspec.field(default_factory=PluginSet)
    post_bind: PluginSet = msgspec.field(default_factory=PluginSet)
    placement_generate: PluginSet = msgspec.field(default_factory=PluginSet)
    placement_score: PluginSet = msgspec.field(default_factory=PluginSet)
    #: Since 1.37; before, even an empty one is an unknown key.
    pod_group_post_filter: PluginSet | UnsetType = UNSET
    multi_point: PluginSet = msgspec.field(default_factory=PluginSet)

    def by_point(self) -> Iterator[tuple[str, PluginSet]]:
        """Every extension point as it is spelt in the file, multiPoint among them."""
        for attribute, key in zip(
            self.__struct_fields__, self.__struct_encode_fields__, strict=True
        ):
            yield key, getattr(self, attribute) or PluginSet()


class PluginConfig(Strict):
    name: str
    args: dict[str, Any] = msgspec.field(default_factory=dict)


class KubeSchedulerProfile(Strict):
    scheduler_name: str | None = None
    percentage_of_nodes_to_score: Int32 | None = None
    plugins: Plugins = msgspec.field(default_factory=Plugins)
    plugin_config: tuple[PluginConfig, ...] = ()


class LeaderElection(Strict):
    #: Unset, it is true for kube-scheduler; for us it is true in a pod.
    leader_elect: bool | None = None
    lease_duration: str = "15s"
    renew_deadline: str = "10s"
    retry_period: str = "2s"
    resource_lock: str = "leases"
    resource_name: str = ""
    resource_namespace: str = ""


class ClientConnection(Strict):
    kubeconfig: str = ""
    accept_content_types: str = ""
    content_type: str = ""
    qps: float = 0
    burst: Int32 = 0


class Configuration(Strict):
    api_version: Literal["kubescheduler.config.k8s.io/v1"]
    kind: Literal["KubeSchedulerConfiguration"]
    parallelism: Int32 = 16
    leader_election: LeaderElection = msgspec.field(default_factory=LeaderElection)
    client_connection: ClientConnection = msgspec.field(default_factory=ClientConnection)
    enable_profiling: bool = True
    enable_contention_profiling: bool = True
    percentage_of_nodes_to_score: Int32 = 0
    pod_initial_backoff_seconds: int = 1
    pod_max_backoff_seconds: int = 10
    profiles: tuple[KubeSchedulerProfile, ...] = ()
    extenders: tuple[Extender, ...] = ()
    delay_cache_until_active: bool = False


_INDEX = re.compile(r"\[[^]]*\]")
_POINTS = dict.fromkeys(Plugins.__struct_encode_fields__, PluginSet)
_STRUCTS: dict[str, type[msgspec.Struct]] = {
    "$": Configuration,
    "leaderElection": LeaderElection,
    "clientConnection": ClientConnection,
    "profiles": KubeSchedulerProfile,
    "plugins": Plugins,
    **_POINTS,
    "enabled": Enabled,
    "disabled": Enabled,
    "pluginConfig": PluginConfig,
    "extenders": Extender,
    "tlsConfig": ExtenderTLS,
    "managedResources": ManagedResource,
}


def last_key(path: str) -> str:
    """Of "$.profiles[0]" it is "profiles"."""
    return _INDEX.sub("", path).rpartition(".")[2]


def keys_at(path: str) -> tuple[str, ...]:
    """The keys that are known at a place such as "$.profiles[0].plugins"."""
    place = last_key(path) or "$"
    return _STRUCTS.get(place, Configuration).__struct_encode_fields__


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: without_nulls(v) for k, v in value.items() if v is not None}
    if isinstance(value, list):
        return [without_nulls(item) for item in value]
    return value
