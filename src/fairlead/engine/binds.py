"""The bind of a pod, with all that is written in it."""

from fairlead.cluster.cluster import Cluster
from fairlead.engine.bind_data import BindEncoder
from fairlead.engine.instructions import Bind
from fairlead.model.counted import written_charges
from fairlead.model.gpus import Grant
from fairlead.model.pods import Pod


class Binds:
    def __init__(self, cluster: Cluster, encode: BindEncoder) -> None:
        self._cluster = cluster
        self._encode = encode

    def of(self, pod: Pod, node: str, grant: Grant | None) -> Bind | str:
        """The bind, or why it cannot be written."""
        inventory = self._cluster.inventory_of(node) if grant else None
        data = self._encode(pod, node, grant, inventory)
        counted = self._counted(pod) if pod.counted is not None else ""
        return data.problem or Bind(
            pod, node, data.annotations, grant, data.lock, self._queue_of(pod), counted
        )

    def _counted(self, pod: Pod) -> str:
        """The counted resources that the pod is charged with."""
        books = self._cluster.counted
        return written_charges(dict(books.charges_of(pod.uid))) if books is not None else ""

    def _queue_of(self, pod: Pod) -> str:
        """The queue that the pod is counted for."""
        if self._cluster.tenants is None:
            return ""
        held = self._cluster.holdings.get(pod.uid)
        return (held.tenant or "") if held else ""
