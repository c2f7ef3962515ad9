"""An extender in a configuration, as kube-scheduler has it. An unknown key is an error."""

import msgspec


class Strict(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """Keys in camel case, and no others."""


class ManagedResource(Strict):
    name: str = ""
    ignored_by_scheduler: bool = False


class ExtenderTLS(Strict):
    insecure: bool = False
    server_name: str = ""
    cert_file: str = ""
    key_file: str = ""
    ca_file: str = msgspec.field(default="", name="caFile")
    cert_data: str = ""
    key_data: str = ""
    ca_data: str = msgspec.field(default="", name="caData")


class Extender(Strict):
    url_prefix: str = ""
    filter_verb: str = ""
    preempt_verb: str = ""
    prioritize_verb: str = ""
    weight: int = 0
    bind_verb: str = ""
    enable_https: bool = msgspec.field(default=False, name="enableHTTPS")
    tls_config: ExtenderTLS | None = None
    http_timeout: str | int = ""
    node_cache_capable: bool = False
    managed_resources: tuple[ManagedResource, ...] = ()
    ignorable: bool = False
