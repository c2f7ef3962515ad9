"""Where readings come from, behind one interface (`api.Source`)."""

from fairlead.telemetry.sources import agent, alnair, dcgm
from fairlead.telemetry.sources.api import (
    NodeAddresses,
    ReadCounts,
    Source,
    SourceFault,
    SourcePlan,
)
from fairlead.telemetry.sources.prometheus import Prometheus
from fairlead.telemetry.sources.scrape import Scrape

__all__ = ["KINDS", "NodeAddresses", "ReadCounts", "Source", "SourceFault", "SourcePlan", "make"]

#: Kinds of sources, and where they are by default.
KINDS = {
    "agent": agent.DEFAULT_URL,
    "dcgm": dcgm.DEFAULT_URL,
    "prometheus": "",
    # Annotations of nodes; with a URL, its exporter.
    "alnair": "",
}
_DIALECTS = {"agent": agent.AGENT, "dcgm": dcgm.DCGM, "alnair": alnair.ALNAIR}


def make(plan: SourcePlan) -> Source:
    """The source of that plan, ready to be asked inside an event loop."""
    if plan.kind == "prometheus":
        return Prometheus(plan)
    if plan.kind == "alnair" and not plan.url:
        return alnair.Annotations(plan.name)
    return Scrape(plan, _DIALECTS[plan.kind])
