"""SSF-EASY by counts of GPUs: the baseline of the published figures, to the second."""

from fairlead.queue.starts.terms import SSF_EASY_TERMS
from fairlead.sim.virtual.policies.policy import SimPolicy
from fairlead.sim.virtual.policies.ssf import service

SSF_EASY_COUNTED = SimPolicy(
    "ssf-easy-counted", "as ssf-easy; what waits is planned by counts of GPUs", "estimate",
    service, starts=SSF_EASY_TERMS,
)  # fmt: skip
