"""The part of the configuration about consolidation: whether, when and how much is moved."""

from typing import Annotated

import msgspec

from fairlead.base.durations import DurationError, length_s
from fairlead.model.consolidation import RECREATING, ConsolidationTerms, MoveLimits
from fairlead.model.errors import ConfigError

_DEFAULTS = ConsolidationTerms()


class ConsolidationConfig(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    enabled: bool = False
    #: A unit must have waited so long.
    after: str = "5m"
    moves_per_hour: Annotated[int, msgspec.Meta(ge=0, le=10_000)] = _DEFAULTS.moves_per_hour
    gpu_seconds_per_hour: Annotated[float, msgspec.Meta(ge=0)] = _DEFAULTS.gpu_seconds_per_hour
    #: A unit is not moved before it has run for so long.
    min_run_time: str = "10m"
    #: The waiting unit's GPUs for so long are what moves gain; they must lose less.
    horizon: str = "1h"
    #: How long places are held.
    hold_for: str = "10m"
    #: Kinds of controllers whose pods are moved: those that create them again.
    owners: list[str] = msgspec.field(default_factory=lambda: sorted(RECREATING))

    def terms(self) -> ConsolidationTerms:
        """Raises ConfigError for a time that is none."""
        limits = MoveLimits(
            least_run_s=_time("minRunTime", self.min_run_time),
            horizon_s=_time("horizon", self.horizon),
            most_moves=self.moves_per_hour,
            most_gpu_seconds=self.gpu_seconds_per_hour,
            owners=frozenset(self.owners),
        )
        return ConsolidationTerms(
            enabled=self.enabled,
            after_s=_time("after", self.after),
            moves_per_hour=self.moves_per_hour,
            gpu_seconds_per_hour=self.gpu_seconds_per_hour,
            held_s=_time("holdFor", self.hold_for),
            limits=limits,
        )


def _time(key: str, text: str) -> float:
    try:
        return length_s(text)
    except DurationError as error:
        raise ConfigError(f"consolidation.{key}: {error}") from error
