"""One request's answers for every node, kept up to date at the cost of what changed.

A view holds a row of booleans for each filter, a row of numbers for each score, and their total.
After a placement only one node differs, and only rules that read what a placement changes are
asked again, about that node alone. So a burst of equal pods costs little more than its binds.
Cluster filters (`plugins.api.ClusterFilter`) and relative scores (`plugins.api.RelativeScore`) are
asked about all nodes again.
"""

from collections import OrderedDict
from collections.abc import Hashable
from functools import reduce
from math import isfinite
from operator import add, or_
from typing import Any, NoReturn, TypeVar

import numpy as np

from fairlead.cluster.arrays import NodeMask, NodeScores, RowPick
from fairlead.cluster.aspects import EVERYTHING, Aspect
from fairlead.cluster.changes import ANYWHERE, NEVER, Bits
from fairlead.cluster.cluster import Cluster
from fairlead.cluster.columns import ALWAYS
from fairlead.cluster.nodes import Nodes
from fairlead.model.errors import PluginFault
from fairlead.model.extended import has_class
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.nodes import GPU
from fairlead.model.pods import PodRequest
from fairlead.placement.profile import Profile
from fairlead.placement.verdicts import TriedEviction
from fairlead.plugins.api import (
    AnyScore,
    ClusterFilter,
    Filter,
    PreFilter,
    RelativeScore,
    Score,
    concerns,
)

REFUSED = -np.inf
_PRESENCE = int(Aspect.PRESENCE)

A = TypeVar("A", NodeMask, NodeScores)

# Beyond this many changed rows one call for all of them is cheaper than a call for each.
_FEW = 3


@dataclass(frozen=True, slots=True)
class _Readers:
    """Rules and scores by their place, and how much a score counts."""

    filters: list[tuple[int, Filter]]
    rates: list[tuple[int, Score, float]]


class View:
    """Call `refresh` before reading; nothing here looks at the cluster by itself."""

    def __init__(self, profile: Profile, request: PodRequest, cluster: Cluster) -> None:
        self._profile = profile
        self.request = request
        #: What it asks of GPUs, if the profile chooses them.
        self.chosen_gpus = profile.chosen_gpus(request.gpu_request)
        #: Devices of a class are its GPUs on nodes where no device plugin offers any.
        self.gets_devices = bool(request.claims) and has_class(request.claims, GPU)
        #: Resources that it asks for and that have a column only while pods do.
        self.rare = tuple(name for name, _ in request.resources if name not in ALWAYS)
        self._cluster = cluster
        self._work = cluster.work
        #: A rule that the request does not concern reads nothing.
        self._filter_reads = [
            int(rule.reads) | _PRESENCE if concerns(rule, request) else 0
            for rule in profile.filters
        ]
        #: Rules that look around, with their place and what they read; not asked row by row.
        self._cluster_filters: list[tuple[int, Bits, ClusterFilter]] = []
        for index, rule in profile.cluster_filters.items():
            self._cluster_filters.append((index, self._filter_reads[index], rule))
            self._filter_reads[index] = 0
        #: What rules and scores that are asked row by row read.
        self._row_reads = reduce(or_, self._filter_reads, 0)
        self._pre_filters = [rule for rule in profile.pre_filters if concerns(rule, request)]
        self._pre_filter_reads = reduce(or_, (int(rule.reads) for rule in self._pre_filters), 0)
        #: Scores by row, and scores that compare, with their place and what they read.
        self._rates = [
            (i, int(s.reads) | _PRESENCE, s)
            for i, s in profile.rates.items()
            if concerns(s, request)
        ]
        self._relative_scores = [
            (i, int(s.reads) | _PRESENCE, s)
            for i, s in profile.relative_scores.items()
            if concerns(s, request)
        ]
        for _, _, score in self._rates:
            self._row_reads |= int(score.reads)
        self._weights = [weight for _, weight in profile.scores]
        #: Who is asked again when these aspects of a row change.
        self._readers: dict[tuple[Bits, Bits], _Readers] = {}
        self._mark = NEVER
        #: Rules that look around and that had something to say when last asked.
        self._speaking: set[int]
        #: Scores that compare and that applied when last asked: those of others are all zero.
        self._ranking: set[int]
        self.allowed: NodeMask  # (filters, rows)
        self._scores: NodeScores  # (scores, rows), each times its weight
        self.total: NodeScores  # (rows,) with `REFUSED` where any filter refuses
        self._left: NodeMask  # (rows,) that the ranks were last asked about
        #: Why no node will do, whatever the filters say of each; mostly nothing.
        self.pre_filter_message = ""
        #: The rule that says so.
        self.pre_filter_rule: PreFilter | None = None
        #: What was answered to pods like this one, by whatever else it depended on; void as soon
        #: as anything changes.
        self.answers: dict[Hashable, Any] = {}
        #: Results of trial evictions for pods like this one, by row; void when the row changes.
        self.tried: dict[int, TriedEviction] = {}
        #: How many of the nodes in question a search for victims that was cut short got through.
        self.searched = 0

    def speaks(self, index: int) -> bool:
        """Whether a rule about the whole cluster has something against a node."""
        return index in self._speaking

    def refresh(self) -> None:
        log = self._cluster.changes
        if log.mark == self._mark:
            return
        self.answers.clear()
        changed = log.since(self._mark)
        self._forget_tried(changed)
        if changed is None:
            self._start_over()
            aspects = int(EVERYTHING)
        else:
            aspects = reduce(or_, changed.values())
            self._follow(changed)
        if self._cluster_filters:
            self._look_around(aspects)
        if self._relative_scores:
            self._compare(aspects)
        if aspects & self._pre_filter_reads:
            self._ask_pre_filters()
        self._mark = log.mark

    @property
    def left(self) -> NodeMask:
        """The nodes that every filter allows."""
        return self.total > REFUSED

    def added(self, row: int) -> dict[str, float]:
        """What each score adds to the total of the row."""
        found = self._scores[:, row]
        names = (score.name for score, _ in self._profile.scores)
        return dict(zip(names, found.tolist(), strict=True))

    def without(self, refused: NodeMask) -> NodeScores:
        """The totals if these nodes were refused as well: relative scores may shift."""
        left = self.left & ~refused
        nodes, several = self._cluster.nodes, np.count_nonzero(left) > 1
        shifting = [
            (index, rank)
            for index, _, rank in self._relative_scores
            if several and rank.applies_as_score(self.request, nodes)
        ]
        if not shifting:
            return np.where(left, self.total, REFUSED)
        scores = self._scores.copy()
        for index, rank in shifting:
            scores[index] = self._ranked(index, rank, nodes, left)
        totals: NodeScores = np.where(left, scores.sum(axis=0), REFUSED)
        return totals

    def _start_over(self) -> None:
        rows = self._cluster.columns.size
        self.allowed = np.ones((len(self._profile.filters), rows), dtype=np.bool_)
        self._speaking, self._ranking = set(), set()
        self._scores = np.zeros((len(self._profile.scores), rows), dtype=np.float64)
        self.total = np.full(rows, REFUSED)
        self._left = np.zeros(rows, dtype=np.bool_)
        self._update(slice(0, rows), EVERYTHING)

    def _forget_tried(self, changed: dict[int, Bits] | None) -> None:
        if changed is None or ANYWHERE in changed:
            self.tried.clear()
        elif self.tried:
            for row in changed:
                self.tried.pop(row, None)

    def _follow(self, changed: dict[int, Bits]) -> None:
        asked_of_all = changed.pop(ANYWHERE, 0) & self._row_reads
        if asked_of_all:
            self._update(slice(0, len(self.total)), asked_of_all)
        if len(changed) <= _FEW:
            for row, aspects in changed.items():
                self._update(slice(row, row + 1), aspects, asked_of_all)
        else:
            rows = np.fromiter(changed, dtype=np.intp, count=len(changed))
            self._update(rows, reduce(or_, changed.values()), asked_of_all)

    def _look_around(self, changed: Bits) -> None:
        nodes = self._cluster.nodes
        stale = False
        for index, reads, rule in self._cluster_filters:
            if not changed & reads:
                continue
            if rule.applies(self.request, nodes):
                self._work.ask(len(nodes))
                self.allowed[index] = _checked(rule, rule.allows(self.request, nodes), nodes)
                self._speaking.add(index)
                stale = True
            elif index in self._speaking:
                self.allowed[index] = True
                self._speaking.discard(index)
                stale = True
        if stale:
            self._sum_up(slice(0, len(self.total)), nodes)

    def _compare(self, changed: Bits) -> None:
        nodes = self._cluster.nodes
        left = self.total > REFUSED
        if not left.any():
            self._left = left
            return
        others = not np.array_equal(left, self._left)
        stale = False
        for index, reads, rank in self._relative_scores:
            if not (others or changed & reads):
                continue
            if rank.applies_as_score(self.request, nodes):
                self._work.ask(len(nodes))
                self._scores[index] = self._ranked(index, rank, nodes, left)
                self._ranking.add(index)
                stale = True
            elif index in self._ranking:
                self._scores[index] = 0.0
                self._ranking.discard(index)
                stale = True
        self._left = left
        if stale:
            self._sum_up(slice(0, len(self.total)), nodes)

    def _ask_pre_filters(self) -> None:
        nodes = self._cluster.nodes
        self.pre_filter_message, self.pre_filter_rule = "", None
        for rule in self._pre_filters:
            if message := rule.pre_filter(self.request, nodes):
                self.pre_filter_message, self.pre_filter_rule = message, rule
                return

    def _ranked(self, index: int, rank: RelativeScore, nodes: Nodes, left: NodeMask) -> NodeScores:
        return self._weights[index] * _checked(rank, rank.rank(self.request, nodes, left), nodes)

    def _update(self, pick: RowPick, aspects: Bits, asked_of_all: Bits = 0) -> None:
        """Rules that read an aspect of `asked_of_all` know these rows already.

        To ask them again would take a look at devices that ends in the middle (LookUnfinished)
        back to its beginning, in each turn.
        """
        nodes = Nodes(self._cluster.columns, pick)
        request, readers = self.request, self._reading(aspects, asked_of_all)
        asked = len(readers.filters) + len(readers.rates)
        self._work.asks += asked
        self._work.rows += asked * len(nodes)
        for index, rule in readers.filters:
            self.allowed[index, pick] = _checked(rule, rule.allows(request, nodes), nodes)
        for index, score, weight in readers.rates:
            answer = _checked(score, score.rate(request, nodes), nodes)
            self._scores[index, pick] = weight * answer
        self._sum_up(pick, nodes)

    def _reading(self, aspects: Bits, without: Bits) -> "_Readers":
        found = self._readers.get((aspects, without))
        if found is None:
            filters = [
                (i, rule)
                for i, (rule, reads) in enumerate(
                    zip(self._profile.filters, self._filter_reads, strict=True)
                )
                if aspects & reads and not without & reads
            ]
            rates = [
                (i, score, self._weights[i])
                for i, reads, score in self._rates
                if aspects & reads and not without & reads
            ]
            found = self._readers[aspects, without] = _Readers(filters, rates)
        return found

    def _sum_up(self, pick: RowPick, nodes: Nodes) -> None:
        if len(nodes) == 1:
            self._sum_up_one(nodes.row)
            return
        passed = self.allowed[:, pick].all(axis=0) & nodes.present()
        total = self._scores[:, pick].sum(axis=0)
        if not np.isfinite(total).all():
            self._refuse_scores()
        self.total[pick] = np.where(passed, total, REFUSED)

    def _sum_up_one(self, row: int) -> None:
        """The same for the most frequent case, in plain numbers and in the same order."""
        total: float = reduce(add, self._scores[:, row].tolist(), 0.0)
        if not isfinite(total):
            self._refuse_scores()
        present = self._cluster.columns.present.item(row)
        passed = present and all(self.allowed[:, row].tolist())
        self.total[row] = total if passed else REFUSED

    def _refuse_scores(self) -> NoReturn:
        found = ((score, self._scores[i]) for i, (score, _) in enumerate(self._profile.scores))
        wrong = (score for score, rated in found if not np.isfinite(rated).all())
        _refuse_score(next(wrong, self._profile.scores[0][0]))


def _refuse_score(score: AnyScore) -> NoReturn:
    raise PluginFault(f"{score.name} returned no number")


def _checked(plugin: Filter | AnyScore, answer: A, nodes: Nodes) -> A:
    """A single number would quietly be taken for every node."""
    shape = answer.shape if isinstance(answer, np.ndarray) else np.asarray(answer).shape
    if shape != (len(nodes),):
        raise PluginFault(f"{plugin.name} must return one answer for each of {len(nodes)} nodes")
    return answer


#: Of the views of one profile: what their rows take, and what their requests take.
VIEW_BYTES = 128 << 20
_FEWEST_VIEWS, _MOST_VIEWS = 64, 2048
#: What a view takes besides its rows.
_VIEW_WEIGHT = 8192
_REQUEST_BYTES = 16 << 20


class Views:
    """The views of one profile, the least recently used of them forgotten first.

    Two bounds: what their rows take, and what the requests themselves take.
    """

    def __init__(self, profile: Profile, cluster: Cluster, bytes_kept: int | None = None) -> None:
        self.profile = profile
        self._cluster = cluster
        self._columns = cluster.columns
        self._bytes_kept = bytes_kept or VIEW_BYTES
        self._views: OrderedDict[PodRequest, View] = OrderedDict()
        self._request_bytes = 0

    def of(self, request: PodRequest) -> View:
        """The up-to-date view of a request."""
        view = self._views.get(request)
        if view is None:
            view = self._views[request] = View(self.profile, request, self._cluster)
            self._request_bytes += request.weight_bytes
            self._forget_some()
        else:
            self._views.move_to_end(request)
        if view.rare or self._columns.missed:
            self._cluster.ask_for(view.rare)
        view.refresh()
        return view

    def _forget_some(self) -> None:
        while len(self._views) > self.most or (
            self._request_bytes > _REQUEST_BYTES and len(self._views) > 1
        ):
            request, _ = self._views.popitem(last=False)
            self._request_bytes -= request.weight_bytes

    @property
    def most(self) -> int:
        """As many views as fit into the bytes; each costs a few numbers for every node."""
        return min(_MOST_VIEWS, max(_FEWEST_VIEWS, self._bytes_kept // self._weight_bytes))

    @property
    def _weight_bytes(self) -> int:
        """Of one view, without its request."""
        each = len(self.profile.filters) + 8 * (len(self.profile.scores) + 1)
        return _VIEW_WEIGHT + each * self._cluster.columns.size

    @property
    def bytes(self) -> int:
        return len(self._views) * self._weight_bytes + self._request_bytes
