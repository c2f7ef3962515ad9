"""Claims for devices: which devices of a node they get, exactly as kube-scheduler decides.

`inventory.DeviceInventory` has the slices of the cluster, `usage.DeviceUsage` what claims hold, and
`allocator.Allocator` finds devices for the claims of a pod on a node. CEL is imported when the
first selector is evaluated.
"""
