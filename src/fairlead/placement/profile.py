"""A profile: the opinions that decide where pods of one scheduler name go."""

from dataclasses import dataclass, field

from fairlead.plugins.api import Filter, Opinion, Picker, Plugin, marks_of


@dataclass(frozen=True, slots=True, eq=False)
class Profile:
    """Filters in order (a node counts under the first that refuses it) and weighted scores."""

    name: str
    filters: tuple[Filter, ...]
    scores: tuple[tuple[Opinion, float], ...] = ()
    #: Without a picker the highest score wins, and among equals the first node.
    picker: Picker | None = None
    #: Pod labels and annotations that some plugin reads.
    marks: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        found = dict.fromkeys(mark for plugin in self.plugins for mark in marks_of(plugin))
        object.__setattr__(self, "marks", tuple(found))

    @property
    def plugins(self) -> tuple[Plugin, ...]:
        picker = (self.picker,) if self.picker else ()
        return (*self.filters, *(score for score, _ in self.scores), *picker)
