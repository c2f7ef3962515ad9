"""The server that a story runs on; the story names none.

It is the embedded one, and with FAIRLEAD_SERVER=real in the environment kube-apiserver. A story
with the marker `real` always runs on kube-apiserver: it is about what that enforces, or the one
story of its feature there. A story that goes otherwise on one of them shows a fault of the
embedded server, which belongs to `tests/fidelity`.
"""

import os

import pytest

from plane_fixtures import *  # noqa: F403

#: Fixtures of stories that need controllers of Kubernetes.
CONTROLLED = {"controllers", "claims_controller"}
REAL = os.environ.get("FAIRLEAD_SERVER", "embedded") == "real"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "control_plane" in metafunc.fixturenames:
        plane = _plane_of(metafunc)
        marks = pytest.mark.server if plane == "real_plane" else ()
        param = pytest.param(plane, id=pytest.HIDDEN_PARAM, marks=marks)
        metafunc.parametrize("control_plane", [param], indirect=True, scope="session")


def _plane_of(metafunc: pytest.Metafunc) -> str:
    if REAL or metafunc.definition.get_closest_marker("real"):
        return "real_plane"
    return "controlled_plane" if CONTROLLED & set(metafunc.fixturenames) else "embedded_plane"


@pytest.fixture(scope="session")
def control_plane(request: pytest.FixtureRequest) -> object:
    return request.getfixturevalue(request.param)
