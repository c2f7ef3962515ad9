"""One named reading: a query to a Prometheus server, and which of its values are used."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field

import msgspec

from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.named_readings import MOST_VALUES, ReadingTerms, SeenReading
from fairlead.telemetry.sources.api import SourceFault
from fairlead.telemetry.sources.fetch import FetchLimits
from fairlead.telemetry.sources.prometheus_api import PrometheusServer, QuerySample, in_slices

#: About 20,000 samples with the labels of an exporter.
_MOST_BYTES = 8 << 20
#: A value beyond this is an error; sums of values within it are finite.
_LARGEST = 1e15
_labels = msgspec.json.Decoder(dict[str, str])
#: Where the configuration names no label: the first of these that a sample has.
NODE_LABELS = ("node", "Hostname", "kubernetes_node", "nodename", "instance")
GPU_LABELS = ("UUID", "uuid", "gpu_uuid", "GPU_UUID")
_MOST_SHOWN = 6
#: Names of labels that are looked at to show these.
_MOST_LABELS = 100


@dataclass(frozen=True, slots=True)
class ReadingPlan:
    """One reading as it was configured."""

    terms: ReadingTerms
    url: str
    query: str
    #: The label of samples that names the node or the GPU; empty: one of the usual ones.
    label: str = ""
    #: Values outside of this are not used.
    lowest: float = -math.inf
    highest: float = math.inf
    #: Smaller changes are not passed on.
    step: float = 0.0
    token_file: str = ""
    ca_file: str = ""
    timeout_s: float = 5.0
    every_s: float = 15.0
    max_age_s: float = 300.0


@dataclass(slots=True)
class ReadingStatus:
    """How a reading does."""

    #: When values were last taken, on the monotonic clock; None: never.
    taken_s: float | None = None
    rejected: Counter[str] = field(default_factory=Counter)
    #: Why nothing, or not all, of it is used; empty if all is.
    problem: str = ""


class ReadingSource:
    """Raises nothing: what goes wrong is in `status`, and its values end when they are too old."""

    def __init__(self, plan: ReadingPlan) -> None:
        self.plan = plan
        self.status = ReadingStatus()
        self._sent: dict[str, float] = {}
        self._due_s = 0.0
        limits = FetchLimits(plan.timeout_s, _MOST_BYTES)
        self._server = PrometheusServer(
            plan.url, limits, token_file=plan.token_file, ca_file=plan.ca_file
        )

    async def take(self, now_s: float) -> SeenReading | None:
        """What changed, if it was due; None if nothing did."""
        if now_s >= self._due_s:
            self._due_s = now_s + self.plan.every_s
            try:
                values = await self._values()
            except SourceFault as fault:
                self.status.problem = str(fault)
            else:
                self.status.taken_s = now_s
                return self._changed(values)
        taken_s = self.status.taken_s
        if self._sent and taken_s is not None and now_s - taken_s > self.plan.max_age_s:
            self.status.problem = f"too old: {self.status.problem or 'nothing came'}"
            return self._changed({})
        return None

    def _changed(self, values: Mapping[str, float]) -> SeenReading | None:
        step, sent = self.plan.step, self._sent
        news = {
            key: value
            for key, value in values.items()
            if key not in sent or (value != sent[key] and abs(value - sent[key]) >= step)
        }
        gone = tuple(key for key in sent if key not in values)
        if not news and not gone:
            return None
        self._sent = {key: news.get(key, sent.get(key, value)) for key, value in values.items()}
        return SeenReading(self.plan.terms, news, gone)

    async def _values(self) -> dict[str, float]:
        samples = await self._server.raw_samples(self.plan.query)
        if not samples:
            raise SourceFault("the query has no result; does its metric still have this name?")
        found, rejected = await self._read(samples)
        if len(samples) > MOST_VALUES:
            rejected["too many"] += len(samples) - MOST_VALUES
        self.status.rejected += rejected
        said = ", ".join(f"{count} {why}" for why, count in sorted(rejected.items()))
        self.status.problem = f"values that are not used: {said}" if rejected else ""
        return found

    async def _read(self, samples: Sequence[msgspec.Raw]) -> tuple[dict[str, float], Counter[str]]:
        rejected: Counter[str] = Counter()
        found: dict[str, float] = {}
        labels: set[str] = set()
        async for sample in in_slices(samples, MOST_VALUES):
            metric = _decoded(sample)
            if len(labels) < _MOST_LABELS:
                labels.update(metric)
            key, value = self._key(metric), _number(sample.value[1])
            why = self._fault(key, value, found)
            if why:
                rejected[why] += 1
            else:
                found[key] = value
        if "without the label" in rejected and not found:
            raise SourceFault(_renamed(self.plan, labels))
        return found, rejected

    def _key(self, metric: Mapping[str, str]) -> str:
        by_gpu = self.plan.terms.by_gpu
        usual = GPU_LABELS if by_gpu else NODE_LABELS
        names = (self.plan.label,) if self.plan.label else usual
        key = next((metric[name] for name in names if metric.get(name)), "")
        return key if by_gpu else key.partition(":")[0]

    def _fault(self, key: str, value: float, found: Mapping[str, float]) -> str:
        if not key:
            return "without the label"
        if not math.isfinite(value):
            return "not a number"
        if abs(value) > _LARGEST or not self.plan.lowest <= value <= self.plan.highest:
            return "out of range"
        return "for a key that has one already" if key in found else ""


def _decoded(sample: QuerySample) -> dict[str, str]:
    try:
        return _labels.decode(sample.metric)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return {}


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def _renamed(plan: ReadingPlan, labels: Iterable[str]) -> str:
    there = ", ".join(sorted(labels)[:_MOST_SHOWN]) or "none"
    what = "UUID of a GPU" if plan.terms.by_gpu else "node"
    label = f"the label {plan.label}" if plan.label else f"a label with the {what}"
    return f"no sample has {label}; there are: {there}; set label in the configuration"
