"""What a simulation found: one record for each job, and what the cluster did over time."""

from dataclasses import field

from fairlead.model.lazy_dataclass import dataclass
from fairlead.sim.virtual.jobs import JobRecord
from fairlead.sim.virtual.meter import GpuMeter
from fairlead.sim.virtual.series import SimSeries


@dataclass(slots=True)
class SimResult:
    #: By name of the job, in the order in which they were given.
    records: dict[str, JobRecord] = field(default_factory=dict)
    meter: GpuMeter = field(default_factory=GpuMeter)
    #: GPUs that are free and of no use to a typical pod, as a part of all; None: not measured.
    unusable: float | None = None
    series: SimSeries = field(default_factory=SimSeries)
    #: Events that the engine was given, and attempts that it made.
    events: int = 0
    decisions: int = 0
    #: Jobs that ended.
    done: int = 0

    @property
    def jobs(self) -> list[JobRecord]:
        """Without those that ran when it began."""
        return [record for record in self.records.values() if not record.was_running]

    @property
    def ended(self) -> list[JobRecord]:
        return [record for record in self.jobs if record.end_s is not None]

    @property
    def never_started(self) -> list[JobRecord]:
        return [record for record in self.jobs if record.start_s is None]
