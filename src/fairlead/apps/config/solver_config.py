"""`solver:` of a profile: gangs that find no nodes, or dearer ones than they could, are planned.

solver:
  budget: 500ms
  improves: true
"""

import msgspec

from fairlead.base.durations import seconds
from fairlead.model.errors import ConfigError
from fairlead.model.solver import SolverTerms

_LEAST_S, _MOST_S = 0.05, 10.0


class SolverConfig(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    budget: str = "500ms"
    improves: bool = True

    def terms(self) -> SolverTerms:
        budget_s = seconds(self.budget)
        if budget_s is None or not _LEAST_S <= budget_s <= _MOST_S:
            raise ConfigError(f"solver: budget is {self.budget!r}; write a time from 50ms to 10s")
        return SolverTerms(budget_s, self.improves)
