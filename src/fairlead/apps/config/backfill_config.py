"""The part of the configuration about planned starts and backfill."""

from typing import Annotated

import msgspec

from fairlead.base.durations import DurationError, length_s
from fairlead.model.backfill import BackfillMode, BackfillTerms, FillerRule
from fairlead.model.errors import ConfigError

_DEFAULTS = BackfillTerms()


class BackfillConfig(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    #: For how many waiting units a start is planned.
    mode: BackfillMode = BackfillMode.NONE
    #: Units with a planned start, at most, if the mode is conservative.
    depth: Annotated[int, msgspec.Meta(ge=1, le=1000)] = _DEFAULTS.depth
    #: How far ahead starts are planned.
    window: str = "24h"
    #: Ends that are so near to each other count as one.
    resolution: str = "1m"
    #: Added to the run time of a unit that starts early.
    margin: str = "0s"
    #: Whether estimates count where there is no bound.
    estimates: bool = True
    #: How long a running pod is taken to run of which nothing is known; empty: for ever.
    unknown_run_time: str = ""
    #: How long room is held after the planned start, at most.
    hold_for: str = "1h"
    #: Which units of lower priority may start for any time, and are evicted at the planned start.
    fillers: FillerRule = FillerRule.MARKED
    #: Whether units are evicted that started before a planned one by their word, and run longer.
    evict_overruns: bool = True

    def terms(self) -> BackfillTerms:
        """Raises ConfigError for a time that is none."""
        unknown = self.unknown_run_time
        unknown_s = _time("unknownRunTime", unknown) if unknown else None
        if unknown_s is not None and unknown_s < 1.0:
            raise ConfigError("backfill.unknownRunTime: it must be at least 1s")
        return BackfillTerms(
            mode=self.mode,
            depth=self.depth,
            window_s=_time("window", self.window),
            resolution_s=_time("resolution", self.resolution),
            margin_s=_time("margin", self.margin),
            estimates=self.estimates,
            unknown_s=unknown_s,
            hold_s=_time("holdFor", self.hold_for),
            fillers=self.fillers,
            evicts_overruns=self.evict_overruns,
        )


def _time(key: str, text: str) -> float:
    try:
        return length_s(text)
    except DurationError as error:
        raise ConfigError(f"backfill.{key}: {error}") from error
