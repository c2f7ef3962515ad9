"""Kubernetes JSON to the model's words, cheaply.

Only the fields that placing needs are decoded. The parts that make up a pod's request are kept as
the bytes they came in, and pods whose bytes are equal share one `PodRequest`: the API server
writes equal objects equally, so a thousand replicas are understood once.
"""

from fairlead.kube.codec.meta import Meta
from fairlead.kube.codec.namespaces import Namespace, decode_namespace
from fairlead.kube.codec.nodes import decode_node
from fairlead.kube.codec.pods import decode_pod

__all__ = ["Meta", "Namespace", "decode_namespace", "decode_node", "decode_pod"]
