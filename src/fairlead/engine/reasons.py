"""Reasons of the PodScheduled condition. Autoscalers add nodes for `Unschedulable` alone."""

UNSCHEDULABLE = "Unschedulable"
SCHEDULER_ERROR = "SchedulerError"
#: The pods or the object of a gang are missing: nodes would not help.
WAITING_FOR_GANG = "WaitingForGang"
#: It would fit now, but waits for nodes that are nearer to each other.
WAITING_FOR_TOPOLOGY = "WaitingForTopology"
#: It would fit now, but waits for a while for a node that it prefers.
WAITING_FOR_BETTER_PLACE = "WaitingForBetterPlace"
#: It would fit now, but would delay a unit whose start is planned.
WAITING_FOR_PLANNED_START = "WaitingForPlannedStart"
#: It would fit now, but on nodes that are reserved before it ends.
WAITING_FOR_RESERVATION = "WaitingForReservation"
