"""What a simulated cluster did over time, in a bounded number of points."""

from dataclasses import field

from fairlead.model.lazy_dataclass import dataclass

_MOST = 1024


@dataclass(frozen=True, slots=True)
class SimMoment:
    at_s: float
    used_gpus: float
    waiting_jobs: int


@dataclass(slots=True)
class SimSeries:
    """The last state of each interval; intervals become twice as long when there are too many."""

    points: list[SimMoment] = field(default_factory=list)
    _every_s: float = 0.0

    def note(self, at_s: float, used_gpus: float, waiting_jobs: int) -> None:
        moment = SimMoment(at_s, used_gpus, waiting_jobs)
        if len(self.points) > 1 and at_s - self.points[-2].at_s <= self._every_s:
            self.points[-1] = moment
            return
        self.points.append(moment)
        if len(self.points) > _MOST:
            self._every_s = 2 * (at_s - self.points[0].at_s) / _MOST
            self.points = self.points[::2]
