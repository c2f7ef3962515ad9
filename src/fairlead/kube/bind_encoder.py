"""What a bind carries: the assignment in the dialect of the node, and the epoch of the leader."""

from collections.abc import Callable

from fairlead.engine.bind_data import BindData
from fairlead.kube import dialects
from fairlead.kube.failures import Failures
from fairlead.kube.leadership.fence import EPOCH
from fairlead.model.gpus import Grant, Inventory
from fairlead.model.pods import Pod


class DialectEncoder:
    """The encoder for an engine whose binds are written.

    `now_ns` is the time of day, for dialects that write it down. `epoch` is that of this leader;
    without one there is no election. A dialect that fails fails this bind only.
    """

    def __init__(
        self,
        now_ns: Callable[[], int],
        *,
        epoch: Callable[[], str] | None = None,
        failures: Failures | None = None,
    ) -> None:
        self._now_ns = now_ns
        self._epoch = epoch
        self._failures = failures or Failures()

    def __call__(
        self, pod: Pod, node: str, grant: Grant | None, inventory: Inventory | None
    ) -> BindData:
        leader = {EPOCH: self._epoch()} if self._epoch else {}
        if grant is None:
            return BindData(leader)
        assignment = dialects.Assignment(pod, node, grant, inventory, self._now_ns())
        try:
            annotations = {**leader, **dialects.annotations_for(assignment)}
            return BindData(annotations, dialects.lock(assignment))
        except Exception as error:
            return BindData(problem=self._failures.note("binding", pod.key, error))
