"""What tests of plugins import: the contract of plugins as a function, and a cluster in memory.

It needs no API server, no pytest and no other package than Fairlead itself.

- `check_plugin`: raises if a plugin does not fulfil the contract, on clusters drawn at random.
- `ContractViolation`: the error that it raises, an AssertionError.
- `REQUESTS`: the requests that it makes of each cluster.
- `TestCluster`: a cluster in memory with a profile; it places pods.
- `Placed`: the verdict on a pod that fits: the node, its score and the GPUs.
- `Refused`: the verdict on a pod that fits on no node, with the reasons.

Objects for tests; everything that is not given has a default:

- `a_node`: a node; its GPUs are only counted.
- `a_gpu_node`: a node that lists its GPUs individually, as shares need.
- `a_pod`: a pod that requests GPUs, cpu and whatever else a request has.
- `a_request`: the request alone, as a plugin sees it.
- `gpu_share`: a request for a part of a GPU.
- `a_taint`: a taint of a node.
"""

from fairlead.placement.verdicts import Placed, Refused
from fairlead.testing.builders import a_gpu_node, a_node, a_pod, a_request, a_taint, gpu_share
from fairlead.testing.clusters import TestCluster
from fairlead.testing.contract import ContractViolation, check_plugin
from fairlead.testing.sample_requests import REQUESTS

__all__ = [
    "REQUESTS",
    "ContractViolation",
    "Placed",
    "Refused",
    "TestCluster",
    "a_gpu_node",
    "a_node",
    "a_pod",
    "a_request",
    "a_taint",
    "check_plugin",
    "gpu_share",
]
