"""The simulator against published figures: the Muri artifact, and our own re-runs of its traces.

`make calibrate` checks all traces. SRTF and SRSF are the raw results of the artifact (SIGCOMM'22).
The others were computed by a simulator that shares no code with this one.
"""

from pathlib import Path

import pytest

from fairlead.apps.simulate.placements import placement_profile
from fairlead.sim.traces.registry import read_traces
from fairlead.sim.virtual.cluster import simulated_cluster
from fairlead.sim.virtual.figures import figures_of
from fairlead.sim.virtual.jobs import SCHEDULER
from fairlead.sim.virtual.policies.registry import find_policy

DATA = Path(__file__).parents[3] / "shared" / "data"

pytestmark = pytest.mark.skipif(
    not (DATA / "muri").is_dir(), reason=f"the traces of Muri are not in {DATA / 'muri'}"
)


def jct_s(trace: str, policy: str) -> float:
    (read,) = read_traces(f"muri/{trace}", DATA, (8, 8))
    found = find_policy(policy)
    cluster = simulated_cluster({SCHEDULER: placement_profile(found.placement)}, found)
    cluster.add_nodes(read.nodes)
    for job in read.jobs:
        cluster.submit(job)
    return figures_of(cluster.run()).jct_s


@pytest.mark.parametrize(
    ("trace", "policy", "published_s"),
    [
        pytest.param("trace3", "srtf", 193_081.8, marks=pytest.mark.slow),
        ("trace3", "fifo-strict", 1_053_201),
        ("trace3", "fifo", 520_028),
        ("trace3", "sjf", 247_466),
        ("trace3", "ssf-easy", 241_679),
        pytest.param("trace3", "fifo-easy", 455_281, marks=pytest.mark.slow),
    ],
)
def test_average_completion_times_are_the_published_ones_to_the_second(
    trace: str, policy: str, published_s: float
) -> None:
    assert jct_s(trace, policy) == pytest.approx(published_s, abs=1.0)


def test_short_first_beats_the_best_published_order_without_preemption() -> None:
    assert jct_s("trace3", "short-first") < 0.91 * 241_679
