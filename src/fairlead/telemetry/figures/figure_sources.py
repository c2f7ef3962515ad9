"""One source of figures: a table, a label, a price sheet, or a query to a Prometheus server."""

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path

import msgspec

from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.node_figures import CAPACITY, LABEL, NAME, Figure, FigureList, FigureRule
from fairlead.telemetry.figures.checking import MOST_RULES, FigureCheck
from fairlead.telemetry.figures.price_sheet import read_price_sheet
from fairlead.telemetry.sources.api import SourceFault
from fairlead.telemetry.sources.fetch import FetchLimits
from fairlead.telemetry.sources.prometheus_api import PrometheusServer, QuerySample, in_slices

#: About 20,000 samples with the labels of an exporter.
_MOST_BYTES = 8 << 20
_labels = msgspec.json.Decoder(dict[str, str])

#: Labels of samples that name a node, the first that is there.
_NODE_LABELS = ("node", "Hostname", "kubernetes_node", "nodename", "instance")
_ZONE, _TYPE = "topology.kubernetes.io/zone", "node.kubernetes.io/instance-type"


@dataclass(frozen=True, slots=True)
class FigurePlan:
    """One source as it was configured."""

    figure: Figure
    kind: str
    name: str
    rules: tuple[FigureRule, ...] = ()
    label: str = ""
    file: str = ""
    url: str = ""
    query: str = ""
    token_file: str = ""
    ca_file: str = ""
    timeout_s: float = 5.0
    every_s: float = 60.0
    #: Older figures are not used; infinite for what does not age.
    max_age_s: float = 600.0
    #: Of samples that name one.
    currency: str = ""


@dataclass(slots=True)
class FigureStatus:
    """How a source does."""

    plan: FigurePlan
    #: When its figures were last taken, on the monotonic clock; None: never.
    taken_s: float | None = None
    rules: int = 0
    rejected: Counter[str] = field(default_factory=Counter)
    #: Why nothing, or not all, of it is used; empty if all is.
    problem: str = ""


class FigureSource:
    """Raises nothing: what goes wrong is in `status`, and its figures end when they are too old."""

    def __init__(self, plan: FigurePlan) -> None:
        self.plan = plan
        self.status = FigureStatus(plan)
        self._check = FigureCheck(plan.max_age_s)
        self._found = FigureList(plan.name, plan.rules, plan.label)
        self._due_s = 0.0
        #: Samples of the last answer that were too many to be read.
        self._left_out = 0
        self._server = (
            PrometheusServer(
                plan.url,
                FetchLimits(plan.timeout_s, _MOST_BYTES),
                token_file=plan.token_file,
                ca_file=plan.ca_file,
            )
            if plan.url
            else None
        )

    @property
    def is_fixed(self) -> bool:
        """Whether its figures never change, or are on the nodes."""
        return not (self._server or self.plan.file)

    def list(self, now_s: float) -> FigureList | None:
        """What it says; None if that is too old, or was never taken."""
        if self.is_fixed:
            return self._found
        taken_s = self.status.taken_s
        if taken_s is None or now_s - taken_s > self.plan.max_age_s:
            if taken_s is not None and "too old" not in self.status.problem:
                self.status.problem = f"too old: {self.status.problem or 'nothing came'}"
            return None
        return self._found

    async def take(self, now_s: float) -> None:
        """Takes figures if that is due."""
        if self.is_fixed or now_s < self._due_s:
            return
        self._due_s = now_s + self.plan.every_s
        try:
            told, age_s = await self._told()
        except SourceFault as fault:
            self.status.problem = str(fault)
            return
        rules, rejected = await self._check.used(told, now_s)
        if self._left_out:
            rejected["too many"] += self._left_out
        self.status.rejected += rejected
        self.status.rules, self.status.taken_s = len(rules), now_s - age_s
        words = ", ".join(f"{n} {why}" for why, n in sorted(rejected.items()))
        self.status.problem = f"figures that are not used: {words}" if rejected else ""
        self._found = FigureList(self.plan.name, rules)

    async def _told(self) -> tuple[Sequence[tuple[FigureRule, str]], float]:
        """What the source says, and how old that is."""
        if self.plan.file:
            told, changed_s = read_price_sheet(Path(self.plan.file))
            return told, max(0.0, time.time() - changed_s)
        assert self._server is not None
        samples = await self._server.raw_samples(self.plan.query)
        read = [self._rule(each) async for each in in_slices(samples, MOST_RULES)]
        found = [each for each in read if each is not None]
        if samples and not found:
            raise SourceFault("no sample of the query names a node, or they have another currency")
        self._left_out = max(0, len(samples) - MOST_RULES)
        return found, 0.0

    def _rule(self, sample: QuerySample) -> tuple[FigureRule, str] | None:
        try:
            labels = _labels.decode(sample.metric)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return None
        currency = labels.get("currency", self.plan.currency)
        match = _offering(labels) if self.plan.kind == "karpenter" else _node(labels)
        if match is None or currency.upper() != self.plan.currency.upper():
            return None
        return FigureRule(match, 0.0), sample.value[1]


def _node(labels: Mapping[str, str]) -> tuple[tuple[str, str], ...] | None:
    name = next((labels[key] for key in _NODE_LABELS if labels.get(key)), "")
    return ((NAME, name.partition(":")[0]),) if name else None


def _offering(labels: Mapping[str, str]) -> tuple[tuple[str, str], ...] | None:
    """Karpenter prices an instance type of a capacity type in a zone, not a node."""
    found = (labels.get("instance_type"), labels.get("capacity_type"), labels.get("zone"))
    type_, capacity, zone = found
    if not (type_ and capacity and zone):
        return None
    return ((CAPACITY, capacity), (LABEL + _TYPE, type_), (LABEL + _ZONE, zone))
