"""The part of the configuration about gangs: which APIs are read."""

import msgspec

from fairlead.kube.gangs.kai import GROUPED, KaiGangs
from fairlead.kube.gangs.registry import DIALECTS, NAMES, GangDialects
from fairlead.model.errors import ConfigError


class GangsConfig(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    #: Dialects whose words and objects are not read; their pods are ordinary ones.
    disabled: list[str] = msgspec.field(default_factory=list)
    #: Scheduler names that KAI's podgrouper serves: their pods wait until it has grouped them.
    grouped: list[str] = msgspec.field(default_factory=lambda: list(GROUPED))

    def dialects(self) -> GangDialects:
        """Those that are on. Raises ConfigError for a name that is none."""
        for name in self.disabled:
            if name not in NAMES:
                raise ConfigError(
                    f"gangs.disabled has {name[:64]!r}, which is not a dialect of gangs; "
                    f"the dialects are {', '.join(NAMES)}"
                )
        on = (each for each in DIALECTS if each.name not in self.disabled)
        return GangDialects(
            KaiGangs(self.grouped) if isinstance(each, KaiGangs) else each for each in on
        )
