"""All policies of the simulator by name."""

from collections.abc import Mapping

from fairlead.model.errors import ConfigError
from fairlead.sim.virtual.policies.deadlines import DEADLINE, SLACK, SLACK_EASY
from fairlead.sim.virtual.policies.fifo import FIFO
from fairlead.sim.virtual.policies.fifo_easy import FIFO_EASY
from fairlead.sim.virtual.policies.fifo_strict import FIFO_STRICT
from fairlead.sim.virtual.policies.policy import SimPolicy
from fairlead.sim.virtual.policies.short_first import SHORT_FIRST
from fairlead.sim.virtual.policies.sjf import SJF
from fairlead.sim.virtual.policies.srsf import SRSF
from fairlead.sim.virtual.policies.srtf import SRTF
from fairlead.sim.virtual.policies.ssf import SSF
from fairlead.sim.virtual.policies.ssf_easy import SSF_EASY

_ALL = (
    FIFO, FIFO_STRICT, FIFO_EASY, SJF, SSF, SSF_EASY, SHORT_FIRST, SRTF, SRSF,
    DEADLINE, SLACK, SLACK_EASY,
)  # fmt: skip

POLICIES: Mapping[str, SimPolicy] = {policy.name: policy for policy in _ALL}


def find_policy(name: str) -> SimPolicy:
    found = POLICIES.get(name)
    if found is None:
        raise ConfigError(f"unknown policy {name!r}; choose one of {', '.join(POLICIES)}")
    return found
