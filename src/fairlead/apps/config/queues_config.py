"""The part of the configuration about queues: which APIs are read, and how."""

import math

import msgspec

from fairlead.base.names import is_subdomain
from fairlead.kube.queues.api import QueueDialect
from fairlead.kube.queues.kai import KaiQueues
from fairlead.kube.queues.registry import DIALECTS, NAMES, QueueDialects
from fairlead.kube.queues.yunikorn import YunikornQueues
from fairlead.model.errors import ConfigError


class KaiQueuesConfig(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """What KAI reads from the arguments of its plugins, and not from queues."""

    reclaimer_saturation_multiplier: float = 1.0

    def queues(self) -> KaiQueues:
        """Raises ConfigError for a multiplier below 1."""
        found = self.reclaimer_saturation_multiplier
        if not (math.isfinite(found) and found >= 1.0):
            raise ConfigError(
                f"queues.kai.reclaimerSaturationMultiplier is {found:g}; write 1 or more"
            )
        return KaiQueues(found)


class YunikornQueuesConfig(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """Where YuniKorn's queues are listed."""

    config_map: str = ""

    def queues(self) -> YunikornQueues:
        """Raises ConfigError for what is not a namespace and a name."""
        if not self.config_map:
            return YunikornQueues()
        namespace, slash, name = self.config_map.partition("/")
        if not slash or not is_subdomain(namespace) or not is_subdomain(name):
            raise ConfigError(
                f"queues.yunikorn.configMap is {self.config_map[:64]!r}; write a namespace and a "
                "name such as yunikorn/yunikorn-configs"
            )
        return YunikornQueues((namespace, name))


class QueuesConfig(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    #: Dialects whose words and objects are not read; their pods have no queue.
    disabled: list[str] = msgspec.field(default_factory=list)
    kai: KaiQueuesConfig = msgspec.field(default_factory=KaiQueuesConfig)
    yunikorn: YunikornQueuesConfig = msgspec.field(default_factory=YunikornQueuesConfig)

    def dialects(self) -> QueueDialects:
        """Those that are on. Raises ConfigError for a name that is none."""
        for name in self.disabled:
            if name not in NAMES:
                raise ConfigError(
                    f"queues.disabled has {name[:64]!r}, which is not a dialect of queues; "
                    f"the dialects are {', '.join(NAMES)}"
                )
        on = (each for each in DIALECTS if each.name not in self.disabled)
        return QueueDialects(map(self._configured, on))

    def _configured(self, dialect: QueueDialect) -> QueueDialect:
        if dialect.name == YunikornQueues.name:
            return self.yunikorn.queues()
        return self.kai.queues() if dialect.name == KaiQueues.name else dialect
