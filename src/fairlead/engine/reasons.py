"""Reasons of the PodScheduled condition. Autoscalers add nodes for `Unschedulable` alone."""

UNSCHEDULABLE = "Unschedulable"
#: It cannot be read as it is: no node would help.
INVALID_POD = "InvalidPod"
SCHEDULER_ERROR = "SchedulerError"
#: Nodes are requested for its whole gang: none is to be added for the pod alone.
WAITING_FOR_NODES = "WaitingForNodes"
#: The pods or the object of a gang are missing: nodes would not help.
WAITING_FOR_GANG = "WaitingForGang"
#: It would fit now, but waits for nodes that are nearer to each other.
WAITING_FOR_TOPOLOGY = "WaitingForTopology"
#: It would fit now, but waits for a while for a node that it prefers.
WAITING_FOR_BETTER_PLACE = "WaitingForBetterPlace"
#: It may not start yet, or waits for cheaper hours or ones with less carbon, within its own limits.
WAITING_FOR_WINDOW = "WaitingForWindow"
#: It said how long it waits at most, and is not tried any more.
WAIT_TIMED_OUT = "WaitTimedOut"
#: It would fit now, but would delay a unit whose start is planned.
WAITING_FOR_PLANNED_START = "WaitingForPlannedStart"
#: It would fit now, but on nodes that are reserved before it ends.
WAITING_FOR_RESERVATION = "WaitingForReservation"
#: Too few are left of a counted resource.
WAITING_FOR_COUNTED_RESOURCE = "WaitingForCountedResource"
#: A counted resource that it asks for does not exist, or is not for its namespace.
COUNTED_RESOURCE_NOT_FOUND = "CountedResourceNotFound"
COUNTED_RESOURCE_NOT_ALLOWED = "CountedResourceNotAllowed"
