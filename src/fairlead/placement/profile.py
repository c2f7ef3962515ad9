"""A profile: the opinions that decide where pods of one scheduler name go."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import reduce
from operator import or_

from fairlead.cluster.aspects import Aspect
from fairlead.model.gpus import GpuAsk
from fairlead.model.pods import Side
from fairlead.placement.cards import CardPolicy
from fairlead.plugins.api import (
    ChoosesCards,
    Filter,
    Foresees,
    LooksAround,
    Narrows,
    Opinion,
    Picker,
    Plugin,
    Rank,
    Score,
    Vetoes,
    depends_on_pods,
    marks_of,
    sides_of,
)
from fairlead.plugins.gpu_fit import GpuFit
from fairlead.plugins.gpus_counted import GpusCounted
from fairlead.plugins.scheduling_map import SchedulingMap

_MORE_THAN_AMOUNTS = Aspect.PORTS | Aspect.PODS | Aspect.VOLUMES | Aspect.DEVICES
ABOUT_PODS = Aspect.USAGE | _MORE_THAN_AMOUNTS


@dataclass(frozen=True, slots=True, eq=False)
class Profile:
    """Filters in order (a node counts under the first that refuses it) and weighted scores."""

    name: str
    filters: tuple[Filter, ...]
    scores: tuple[tuple[Opinion, float], ...] = ()
    #: Without a picker the highest score wins, and among equals the first node.
    picker: Picker | None = None
    #: How shares of a card find their card, unless a score chooses.
    cards: CardPolicy = CardPolicy.PACK
    #: May pods of lower priority be evicted to make room?
    preempts: bool = True
    #: Pod labels and annotations that some plugin reads.
    marks: tuple[str, ...] = field(init=False)
    #: Filters, by their place, that look around; and that look at pods.
    around: Mapping[int, LooksAround] = field(init=False)
    #: Of the former, those that can tell what evicting pods would change.
    foresees: Mapping[int, Foresees] = field(init=False)
    about_pods: frozenset[int] = field(init=False)
    #: Of the latter, those that see more than how much is taken on the node.
    by_pods: frozenset[int] = field(init=False)
    #: Filters that speak before any node is looked at.
    vetoing: tuple[Vetoes, ...] = field(init=False)
    narrowing: tuple[Narrows, ...] = field(init=False)
    #: Scores, by their place, that go by row; and that compare.
    rates: Mapping[int, Score] = field(init=False)
    ranks: Mapping[int, Rank] = field(init=False)
    #: Sides of the pod that some plugin looks at, as a plain number.
    sides: int = field(init=False)

    #: The rule about single cards; without it they are only counted.
    gpu_fit: GpuFit | None = field(init=False)
    #: Does it send pods where their scheduling map says?
    follows_maps: bool = field(init=False)

    def __post_init__(self) -> None:
        fits = (rule for rule in self.filters if isinstance(rule, GpuFit))
        object.__setattr__(self, "gpu_fit", next(fits, None))
        follows = any(isinstance(rule, SchedulingMap) for rule in self.filters)
        object.__setattr__(self, "follows_maps", follows)
        sides = [sides_of(rule, as_filter=True) for rule in self.filters]
        sides += [sides_of(score) for score, _ in self.scores]
        sides += [sides_of(self.picker)] if self.picker else []
        object.__setattr__(self, "sides", int(reduce(or_, sides, Side(0))))
        found = dict.fromkeys(mark for plugin in self.plugins for mark in marks_of(plugin))
        object.__setattr__(self, "marks", tuple(found))
        rules = list(enumerate(self.filters))
        around = {index: rule for index, rule in rules if isinstance(rule, LooksAround)}
        object.__setattr__(self, "around", around)
        foresees = {index: rule for index, rule in rules if isinstance(rule, Foresees)}
        object.__setattr__(self, "foresees", foresees)
        about_pods = frozenset(
            index for index, rule in rules if rule.reads & ABOUT_PODS and depends_on_pods(rule)
        )
        object.__setattr__(self, "about_pods", about_pods)
        by_pods = frozenset(i for i in about_pods if self.filters[i].reads & _MORE_THAN_AMOUNTS)
        object.__setattr__(self, "by_pods", by_pods)
        self._sort_out()

    def _sort_out(self) -> None:
        """Asking a plugin what it can do is slow, and views are made all the time."""
        vetoing = tuple(rule for rule in self.filters if isinstance(rule, Vetoes))
        if not (self.gpu_fit and self.follows_maps):
            vetoing = (GpusCounted(self.grants_cards, self.follows_maps), *vetoing)
        narrowing = tuple(rule for rule in self.filters if isinstance(rule, Narrows))
        opinions = [(index, opinion) for index, (opinion, _) in enumerate(self.scores)]
        rates = {index: opinion for index, opinion in opinions if not isinstance(opinion, Rank)}
        ranks = {index: opinion for index, opinion in opinions if isinstance(opinion, Rank)}
        object.__setattr__(self, "vetoing", vetoing)
        object.__setattr__(self, "narrowing", narrowing)
        object.__setattr__(self, "rates", rates)
        object.__setattr__(self, "ranks", ranks)

    @property
    def grants_cards(self) -> bool:
        """Does it choose cards, or only count them?"""
        return self.gpu_fit is not None

    def chosen_cards(self, ask: GpuAsk | None) -> GpuAsk | None:
        """The ask as far as this profile goes with it; None where it does not choose cards."""
        if ask is None or ask.map_slot is not None:
            return ask if self.follows_maps else None
        return self.gpu_fit.understood(ask) if self.gpu_fit else None

    @property
    def card_chooser(self) -> ChoosesCards | None:
        """Who says which card a share goes to."""
        return next((score for score, _ in self.scores if isinstance(score, ChoosesCards)), None)

    @property
    def plugins(self) -> tuple[Plugin, ...]:
        picker = (self.picker,) if self.picker else ()
        return (*self.filters, *(score for score, _ in self.scores), *picker)
