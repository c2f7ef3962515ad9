"""Findings about a file: a key, and a sentence that says what to do about it."""

from collections.abc import Mapping, Sequence
from dataclasses import field

from fairlead.apps.config.election_options import ElectionOptions
from fairlead.apps.config.extender_terms import ExtenderPlan
from fairlead.model.behaviour import Behaviour
from fairlead.model.lazy_dataclass import dataclass
from fairlead.placement.profile import Profile


@dataclass(frozen=True, slots=True)
class Finding:
    """About one key, written as a path such as `profiles[0].plugins.score.enabled[1]`."""

    key: str
    text: str

    def __str__(self) -> str:
        return f"{self.key}: {self.text}" if self.key else self.text


@dataclass(frozen=True, slots=True)
class Translation:
    """Another scheduler's configuration in our terms: profiles by scheduler name, as far as
    they could be made, what cannot be honoured, and what has no effect.
    """

    profiles: Mapping[str, Profile]
    problems: list[Finding] = field(default_factory=list)
    notes: list[Finding] = field(default_factory=list)
    electing: ElectionOptions = field(default_factory=ElectionOptions)
    #: Versions of Kubernetes where it cannot be used, each with what cannot be honoured there.
    refused_with: Mapping[Behaviour, Sequence[Finding]] = field(default_factory=dict)
    #: HTTP extenders that are asked.
    extenders: tuple[ExtenderPlan, ...] = ()
