"""The cases of kube-scheduler's own integration tests of PodGroups, played by both schedulers.

They are collected where FAIRLEAD_KUBERNETES is 1.37: elsewhere PodGroups are not as in them.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from bind_denials import BindDenials
from fairlead.sim.controlplane import served
from fairleads import fairlead
from gang_planes import GangPlane, gang_plane
from podgroup_script import SCHEDULERS, Script, line_of, scripts
from podgroup_stage import Stage

pytestmark = pytest.mark.server
if os.environ.get("FAIRLEAD_KUBERNETES") != "1.37":
    pytest.skip("these cases are of Kubernetes 1.37", allow_module_level=True)

#: How many their files have, by file here.
THEIRS = {
    "affinity": 2, "composite": 7, "composite-queueing": 5, "composite-topology": 12,
    "composite-topology-preemption": 13, "podgroup": 17, "queueing": 26, "topology": 29,
    "volumes": 2,
}  # fmt: skip
SCRIPTS = scripts()
PRIORITIES = (0, 5, 10, 50, 100, 200, 1000)


@pytest.fixture(scope="module")
def gangs(assets: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GangPlane]:
    """Both schedulers at work on one API server."""
    with gang_plane(assets, tmp_path_factory.mktemp("podgroups")) as found:
        plane = found.plane
        for priority in PRIORITIES:
            for policy, tail in (("PreemptLowerPriority", ""), ("Never", "-never")):
                name = f"p-{priority}{tail}"
                served.priority_class(plane, name, priority, preemptionPolicy=policy)
        with (
            plane.start_kube_scheduler(flags=[found.gates]),
            fairlead(plane, kubeconfig=plane.kubeconfig_for()),
        ):
            yield found


@pytest.fixture(scope="module")
def denials(gangs: GangPlane) -> BindDenials:
    """It is there when both schedulers are at work."""
    denials, lines = BindDenials(gangs.plane), ("nodes n", "pods -: p", "placed p")
    for judged, scheduler in SCHEDULERS.items():
        with Stage(gangs, denials, scheduler, f"first-{judged}") as stage:
            stage.play(Script("", "", tuple(map(line_of, lines))))
    return denials


def test_every_case_of_theirs_is_here() -> None:
    assert {name: sum(each.file == name for each in SCRIPTS) for name in THEIRS} == THEIRS
    assert len(SCRIPTS) == 113


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda each: f"{each.file}: {each.title}"[:100])
@pytest.mark.parametrize("judged", SCHEDULERS)
def test_as_expected(gangs: GangPlane, denials: BindDenials, script: Script, judged: str) -> None:
    name = f"{script.file}-{SCRIPTS.index(script)}-{judged}"
    with Stage(gangs, denials, SCHEDULERS[judged], name) as stage:
        stage.play(script)
