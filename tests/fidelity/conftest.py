"""The two servers that every request script runs against."""

import contextlib
import itertools
from collections.abc import Callable, Iterator

import pytest

from fairlead.sim.controlplane import ADMIN, ControlPlane
from fidelity.client import Connection
from fidelity.serving import serving

_numbers = itertools.count()


@pytest.fixture(scope="session")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connection]:
    """The embedded server without its controllers: the real one has none either."""
    kubeconfig = tmp_path_factory.mktemp("embedded") / "kubeconfig"
    with (
        serving(kubeconfig, controllers=False),
        contextlib.closing(Connection(kubeconfig)) as connection,
    ):
        yield connection


@pytest.fixture
def real(new_control_plane: Callable[..., ControlPlane]) -> Iterator[Connection]:
    """kube-apiserver and etcd, nothing else.

    Not the shared one: to empty the namespaces of all cases takes far longer than to start this.
    """
    plane = new_control_plane()
    with contextlib.closing(Connection(plane.kubeconfig_for(ADMIN))) as connection:
        yield connection


@pytest.fixture
def fresh_namespace() -> Callable[[Connection], str]:
    """Makes a namespace that no other case has used, on the given server."""

    def make(server: Connection) -> str:
        name = f"case-{next(_numbers)}x"
        code, answer, _ = server.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
        assert code == 201, answer
        return name

    return make
