"""`goals.classes:` of the configuration: how long units of a kind may wait.

goals:
  classes:
    - {name: interactive, wait: 2m, target: 95%, window: 28d, queues: [notebooks]}
    - {name: batch, wait: 8h, priorityClasses: [batch]}
    - {name: chat, wait: 1m, gpus: {quiet: 40%, neighbours: none}}
    - {name: small, wait: 1h, gpus: {quiet: 70%, packed: true}}
"""

from collections.abc import Sequence
from typing import Annotated

import msgspec

from fairlead.base.durations import seconds
from fairlead.base.names import label_value_problems
from fairlead.model.errors import ConfigError
from fairlead.model.service_classes import LONGEST_WINDOW_S, MOST_CLASSES, GpuTerms, ServiceClass

_DAY_S = 86_400.0
_HOUR_S = 3600.0
_Names = Annotated[list[str], msgspec.Meta(max_length=1000)]


class GpuTermsConfig(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    #: Its pods get GPUs that are busy for less than this share of the time.
    quiet: str | float | None = None
    #: Others join its pods on GPUs below this; `none`: never.
    neighbours: str | float | None = None
    #: Its pods share GPUs with each other first.
    packed: bool = False

    def terms(self) -> GpuTerms:
        alone = self.neighbours == "none"
        neighbours = 0.0 if alone else _level("neighbours", self.neighbours)
        return GpuTerms(_level("quiet", self.quiet), neighbours, self.packed)


class ServiceClassConfig(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    name: str
    #: Units are to start within this time.
    wait: str
    #: For this share of them, over this time.
    target: str | float = "95%"
    window: str = "28d"
    queues: _Names = msgspec.field(default_factory=list)
    priority_classes: _Names = msgspec.field(default_factory=list)
    #: Pods of these namespaces may name it; without the key, all may.
    namespaces: _Names | None = None
    #: Which GPUs its pods get, and which pods may join them there.
    gpus: GpuTermsConfig | None = None

    def service_class(self) -> ServiceClass:
        if not self.name or label_value_problems(self.name):
            raise ConfigError(
                f"name is {self.name[:64]!r}; write letters, digits and - within 63 characters"
            )
        return ServiceClass(
            name=self.name,
            wait_goal_s=_length_s("wait", self.wait, 1.0, LONGEST_WINDOW_S),
            target=_share(self.target),
            window_s=_length_s("window", self.window, _HOUR_S, LONGEST_WINDOW_S),
            queues=frozenset(self.queues),
            priority_classes=frozenset(self.priority_classes),
            namespaces=None if self.namespaces is None else frozenset(self.namespaces),
            gpus=None if self.gpus is None else self.gpus.terms(),
        )


def service_classes(found: Sequence[ServiceClassConfig]) -> tuple[ServiceClass, ...]:
    if len(found) > MOST_CLASSES:
        raise ConfigError(f"goals: there are {len(found)} classes; {MOST_CLASSES} are possible")
    made = []
    for number, each in enumerate(found):
        try:
            made.append(each.service_class())
        except ConfigError as error:
            raise ConfigError(f"goals: class {number + 1}: {error}") from error
    names = [each.name for each in made]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise ConfigError(f"goals: two classes have the name {twice[0]!r}; rename one")
    return tuple(made)


def _length_s(key: str, text: str, least_s: float, most_s: float) -> float:
    days = text.removesuffix("d")
    whole = days != text and days.isascii() and days.isdigit() and len(days) < 4
    found = _DAY_S * int(days) if whole else seconds(text)
    if found is None or not least_s <= found <= most_s:
        raise ConfigError(
            f"{key} is {text[:32]!r}; write a time such as 2m, 8h or 28d, between {least_s:g} s "
            f"and {most_s / _DAY_S:g} days"
        )
    return found


def _share(said: str | float) -> float:
    """As a share of one; 95% and 0.95 are the same."""
    found = _part(said)
    if found is None or not 0.5 <= found <= 0.9999:
        raise ConfigError(f"target is {said!r}; write a share such as 95%, between 50% and 99.99%")
    return found


def _level(key: str, said: str | float | None) -> float | None:
    """How busy a GPU is, as a share of one."""
    found = None if said is None else _part(said)
    if said is not None and (found is None or not 0.05 <= found <= 1):
        more = ", or none" if key == "neighbours" else ""
        raise ConfigError(
            f"gpus: {key} is {said!r}; write how busy a GPU may be, such as 40%, between 5% and "
            f"100%{more}"
        )
    return found


def _part(said: str | float) -> float | None:
    """95% and 0.95 are the same; None: it is neither."""
    if isinstance(said, float):
        return said
    percent = said.strip().removesuffix("%")
    written = percent != said and percent.replace(".", "", 1).isdigit() and percent.isascii()
    return float(percent) / 100 if written else None
