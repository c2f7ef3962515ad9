"""Profiles that a simulation can place jobs with."""

from fairlead.apps.config import profiles
from fairlead.model.errors import ConfigError
from fairlead.placement.profile import Profile
from fairlead.plugins.api import Score
from fairlead.plugins.registry import FILTERS, Registry
from fairlead.sim.virtual.policies.policy import FIRST_FIT


def placement_profile(name: str) -> Profile:
    """A built-in profile, one score, or "first-fit": the first node with room."""
    if name in profiles.NAMES:
        return profiles.built_in(name)
    filters = tuple(kind() for kind in FILTERS)
    if name == FIRST_FIT:
        return Profile(name, filters)
    score = Registry().find(name)()
    if not isinstance(score, Score):
        raise ConfigError(f"{name} is no score; --placement takes a profile, a score or first-fit")
    return Profile(name, filters, ((score, 1.0),))
