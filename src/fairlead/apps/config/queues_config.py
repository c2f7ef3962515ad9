"""The part of the configuration about queues: which APIs are read."""

import msgspec

from fairlead.kube.queues.registry import DIALECTS, NAMES, QueueDialects
from fairlead.model.errors import ConfigError


class QueuesConfig(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    #: Dialects whose words and objects are not read; their pods have no queue.
    disabled: list[str] = msgspec.field(default_factory=list)

    def dialects(self) -> QueueDialects:
        """Those that are on. Raises ConfigError for a name that is none."""
        for name in self.disabled:
            if name not in NAMES:
                raise ConfigError(
                    f"queues.disabled has {name[:64]!r}, which is not a dialect of queues; "
                    f"the dialects are {', '.join(NAMES)}"
                )
        return QueueDialects(each for each in DIALECTS if each.name not in self.disabled)
