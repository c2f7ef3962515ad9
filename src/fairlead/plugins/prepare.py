"""What must be done for a pod before its bind: the stage that kube-scheduler calls PreBind.

A filter that knows of such work is a `PreBind`. It returns a step, which is data: the engine counts
the step as done while the driver carries it out, and the writer of its kind in `kube/writes` knows
how to do it. A new kind of step is one class here in `plugins`, and one writer there.
"""

from typing import ClassVar, Protocol, runtime_checkable

from fairlead.cluster.cluster import Cluster
from fairlead.cluster.nodes import Nodes
from fairlead.cluster.trial import Trial
from fairlead.model.pods import PodRequest


class PrepareStep(Protocol):
    """One kind of work for a pod that was placed on a node.

    Carried out again after a failure or a restart, it must find what it wrote before.
    """

    #: kube-scheduler's name of the plugin, for messages.
    plugin: ClassVar[str]
    #: What is being done, such as "binding volumes".
    doing: ClassVar[str]
    #: The same in the past, such as "volumes were bound".
    done: ClassVar[str]

    def assume(self, cluster: Cluster | Trial, node: str) -> None:
        """The step is being carried out: the cluster, or a trial in it, counts it as done."""
        ...

    def settle(self, cluster: Cluster) -> None:
        """The stage has succeeded or failed: from now on the cluster has what was observed."""
        ...

    def problem(self, node: Nodes, name: str) -> str:
        """Why the pod cannot run on the one node given after all, once every step is done."""
        ...


@runtime_checkable
class PreBind(Protocol):
    """A filter that knows what must be done before a pod can be bound."""

    def prepares(self, request: PodRequest) -> bool:
        """False when there is never anything to do for the request. Asked about every pod."""
        ...

    def pre_bind(self, request: PodRequest, node: Nodes) -> PrepareStep | None:
        """The step for the one node given, which it allows; None when there is nothing to do."""
        ...


def failure_of(step: PrepareStep, message: str) -> str:
    """In kube-scheduler's words, such as `running PreBind plugin "VolumeBinding": …`."""
    return f'running PreBind plugin "{step.plugin}": {message}'
