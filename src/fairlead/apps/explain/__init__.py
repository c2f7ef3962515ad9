"""`fairlead explain`: why a pod is not scheduled, node by node."""
