"""What the author of a plugin imports. Other modules of Fairlead may change without notice.

`docs/plugins.md` describes how to write, test and install a plugin; `fairlead.testing` tests it.

Kinds of plugins; a class may be more than one of them:

- `Filter`: rejects nodes, with `allows`.
- `Score`: rates nodes from 0 to 100, with `rate`.
- `RelativeScore`: rates the nodes that are left relative to each other, with `rank`.
- `Picker`: chooses one of the feasible nodes, with `pick`.
- `Goal`: counts what a placement costs in a unit, with `count`; less is better.
- `Plugin`: any of these.

Methods that a filter or score may also have, each as a protocol:

- `Concerns`: `concerns`, to skip requests that the plugin does not apply to.
- `ClusterFilter`: `applies`, for a filter that depends on other nodes as well.
- `PreFilter`: `pre_filter`, to refuse a pod before any node is checked.
- `PreFilterResult`: `pre_filter_result`, to name the only nodes to check.
- `ReasonedFilter`: `reasons`, for more than one message.
- `DetailedFilter`: `detail`, for the amounts in `fairlead explain`.
- `DetailedGpuFilter`: `gpus` and `nearest`, to report individual GPUs.
- `GpuChooser`: `rate_gpus`, for a score that chooses the GPU of a share.

The order of the queue, which no configuration key sets yet: an engine is given one.

- `QueueOrder`: the order in which units of scheduling are tried, with `active` and `backoff`.
- `OrderKey`: what both return; the unit with the smaller key comes first.
- `Entry`: a unit in the queue, as an order reads it.

What plugins read:

- `PodRequest`: all properties of a pod that can influence its placement.
- `GpuRequest`: what the pod requests of individual GPUs, `PodRequest.gpu_request`.
- `PodField`: properties of a pod that are in the request only if the plugin names them.
- `Nodes`: columns with one entry for each node.
- `Aspect`: what can change about a node; the plugin names in `reads` what its result depends on.

What plugins return:

- `NodeMask`: a boolean for each node.
- `NodeScores`: a float for each node.
- `PerNode`: an integer for each node, as most columns of `Nodes` are.
- `GpuScores`: a float for each GPU, an array of (node, slot).
- `Reason`: a message and the nodes that it applies to.
- `GpuDetail`: one GPU and why it cannot serve a pod.
- `GoalUnit`: the unit of a goal.
- `PluginFault`: the error to raise if there is no valid result; the pod is tried again later.

Constants:

- `HIGHEST_SCORE`: 100.0.
- `CPU`: the resource `cpu`, in thousandths of a core.
- `MEMORY`: the resource `memory`, in bytes.
- `PODS`: the resource `pods`, the number of pods.
- `GPU`: the resource `nvidia.com/gpu`.
- `WHOLE`: a whole GPU in the unit of shares, 1000.
"""

from fairlead.cluster.arrays import NodeMask, NodeScores, PerNode
from fairlead.cluster.aspects import Aspect
from fairlead.cluster.nodes import Nodes
from fairlead.model.errors import PluginFault
from fairlead.model.goals import GoalUnit
from fairlead.model.gpus import WHOLE, GpuRequest
from fairlead.model.nodes import GPU
from fairlead.model.pods import PodField, PodRequest
from fairlead.model.quantities import CPU, MEMORY, PODS
from fairlead.plugins.api import (
    HIGHEST_SCORE,
    ClusterFilter,
    Concerns,
    DetailedFilter,
    DetailedGpuFilter,
    Filter,
    Goal,
    GpuChooser,
    GpuDetail,
    GpuScores,
    Picker,
    Plugin,
    PreFilter,
    PreFilterResult,
    Reason,
    ReasonedFilter,
    RelativeScore,
    Score,
)
from fairlead.queue.entries import Entry
from fairlead.queue.order import OrderKey, QueueOrder

__all__ = [
    "CPU",
    "GPU",
    "HIGHEST_SCORE",
    "MEMORY",
    "PODS",
    "WHOLE",
    "Aspect",
    "ClusterFilter",
    "Concerns",
    "DetailedFilter",
    "DetailedGpuFilter",
    "Entry",
    "Filter",
    "Goal",
    "GoalUnit",
    "GpuChooser",
    "GpuDetail",
    "GpuRequest",
    "GpuScores",
    "NodeMask",
    "NodeScores",
    "Nodes",
    "OrderKey",
    "PerNode",
    "Picker",
    "Plugin",
    "PluginFault",
    "PodField",
    "PodRequest",
    "PreFilter",
    "PreFilterResult",
    "QueueOrder",
    "Reason",
    "ReasonedFilter",
    "RelativeScore",
    "Score",
]
