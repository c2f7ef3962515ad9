"""The part of the configuration about the decision log: where it goes, and how large it may be."""

from pathlib import Path

import msgspec

from fairlead.apps.decision_log.log_writer import LogPlan
from fairlead.model import quantities
from fairlead.model.errors import ConfigError, QuantityError

DEFAULT_SIZE = "256Mi"
_LEAST_BYTES = 1 << 20


class DecisionLogConfig(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    #: Empty: no log is kept.
    directory: str = ""
    size: str = DEFAULT_SIZE

    def plan(self, directory: Path | None = None, size: str = "") -> LogPlan | None:
        """With what the command line says in place of it; raises ConfigError for an odd size."""
        chosen = directory or (Path(self.directory) if self.directory else None)
        return LogPlan(chosen, _bytes(size or self.size)) if chosen else None


def _bytes(text: str) -> int:
    try:
        found = quantities.amount(quantities.MEMORY, text)
    except QuantityError as error:
        raise ConfigError(f"the size of the decision log is not a quantity: {error}") from error
    if found < _LEAST_BYTES:
        raise ConfigError(f"the decision log needs a size of at least 1Mi, not {text}")
    return found
