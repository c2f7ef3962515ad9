"""A forecast of prices or of carbon intensity: what it says for which time, and where it ends."""

from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.start_times import Window

#: More values of one forecast are not used: ten days in steps of five minutes.
MOST_SPANS = 2880
#: A value beyond this is an error.
HIGHEST = 1e6


@dataclass(frozen=True, slots=True)
class Forecast:
    """Times are in seconds since 1970."""

    window: Window
    source: str = ""
    unit: str = ""
    #: From when, until when, which value: in order, without overlap; what is between is unknown.
    spans: tuple[tuple[float, float, float], ...] = ()
    #: Its sources were not asked yet.
    awaited: bool = False


@dataclass(frozen=True, slots=True)
class ChosenStart:
    """The start with the best mean over a run, and what the first possible start has."""

    start_s: float
    mean: float
    first_mean: float
