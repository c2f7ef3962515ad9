"""What units took is learned from how their pods ended, and kept across restarts."""

from base64 import b64decode
from collections.abc import Callable

from duties import end_a_run
from fairlead.engine import start_dumps
from fairlead.engine.run_dumps import load
from fairlead.sim.controlplane import ControlPlane
from fairleads import Pods, eventually
from leaders import Lease, candidate, said, wait_leading

DAMAGED = "bm9uc2Vuc2U="
UNREADABLE = "what was learned about run times cannot be read; learning again"


class Store:
    """The ConfigMap, as the API server has it."""

    def __init__(self, plane: ControlPlane, namespace: str) -> None:
        self._plane = plane
        self._folder = f"/api/v1/namespaces/{namespace}/configmaps"

    def create(self) -> None:
        body = {"metadata": {"name": "fairlead-run-times"}, "binaryData": {"other": "AAAA"}}
        assert self._plane.api("POST", self._folder, body)[0] == 201

    def put(self, text: str) -> None:
        merge, body = "application/merge-patch+json", {"binaryData": {"runs": text}}
        path = f"{self._folder}/fairlead-run-times"
        assert self._plane.api("PATCH", path, body, content_type=merge)[0] == 200

    @property
    def data(self) -> dict[str, str]:
        _, found = self._plane.api("GET", f"{self._folder}/fairlead-run-times")
        return dict(found.get("binaryData") or {})

    def runs(self) -> int:
        """The runs of the kind that was learned most of."""
        text = self.data.get("runs", DAMAGED)
        spaces = load(b64decode(text)).spaces() if text != DAMAGED else ()
        return max((len(record) for _, kinds in spaces for _, record in kinds), default=0)


def test_what_units_took_is_learned_and_kept_across_restarts(
    control_plane: ControlPlane,
    namespace: str,
    pods: Pods,
    create_nodes: Callable[..., list[str]],
) -> None:
    create_nodes(["n1"], allocatable={"nvidia.com/gpu": "8"})
    lease, store = Lease(control_plane, namespace), Store(control_plane, namespace)
    store.create()

    def runs(name: str, expected: int) -> None:
        pods.create(name, gpus=1)
        pods.wait_bound(name)
        end_a_run(control_plane, pods, name)
        eventually(lambda: store.runs() == expected, what=f"{expected} runs are kept")

    with candidate(lease) as first:
        wait_leading(first)
        runs("train-1", 1)
    with candidate(lease) as second:
        wait_leading(second)
        runs("train-2", 2)
        assert not said(second, UNREADABLE)
    assert store.data["other"] == "AAAA"
    start_dumps.load(b64decode(store.data["starts"]))

    store.put(DAMAGED)
    with candidate(lease) as third:
        wait_leading(third)
        (warning,) = eventually(lambda: said(third, UNREADABLE), what="a warning")
        assert warning["error"] == "runs: it is damaged, or of another version"
        runs("train-3", 1)
