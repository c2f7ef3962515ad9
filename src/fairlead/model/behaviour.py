"""Where versions of kube-scheduler differ, and which of them to follow.

Only what differs with default feature gates, and concerns Fairlead, has a flag here. Flags are
named after the newer way, so that a new version is a copy of the last with flags switched on.
`docs/versions.md` has the whole list of differences.
"""

from dataclasses import replace

from fairlead.model.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Behaviour:
    """What kube-scheduler of one version does where another does otherwise."""

    #: The version it was taken from: major and minor.
    version: tuple[int, int]
    #: Refusals speak of preemption alone, without a note on resource claims in front.
    silent_about_claims: bool = False
    #: The refusal of a pod that evicts others names the node and the number of victims.
    tells_of_victims: bool = False
    #: A victim is charged to its disruption budgets only up to the first that is exhausted.
    stops_at_exhausted_budget: bool = False
    #: After an in-place resize a pod takes the largest of three totals (asked, allocated, actual),
    #: instead of the total of each container's largest.
    takes_largest_total: bool = False
    #: The most that images can score grows with image volumes as it does with containers.
    counts_image_volumes: bool = False
    #: VolumeBinding prefers nodes with more free storage.
    scores_free_storage: bool = False
    #: NodeVolumeLimits refuses nodes that lack a driver whose CSIDriver says it must be there.
    refuses_missing_drivers: bool = False
    #: Pods of a group with another priority than the group are refused.
    compares_group_priority: bool = False
    #: The metrics call a pending pod `UnscheduledPod`, and `TargetPod` where it changed itself.
    tells_target_pods: bool = False
    #: Counter sets of a pool concern only the nodes that their slices serve.
    counters_of_served_nodes: bool = False
    #: A distinct attribute differs within one request, too.
    distinct_within_request: bool = False
    #: All devices: those with enough capacity in all, not those with enough left; amounts that
    #: make no sense are errors; shares that consume nothing share their counters.
    strict_capacity: bool = False
    #: A configuration is in an allocation once, and names no requests where it is for all.
    merges_device_configs: bool = False
    #: Errors of selectors name the device, and those about too many devices the request.
    names_failing_devices: bool = False

    @property
    def name(self) -> str:
        """The version in the words of its users, such as `1.36`."""
        return "{}.{}".format(*self.version)


KUBERNETES_1_36 = Behaviour((1, 36))
KUBERNETES_1_37 = replace(
    KUBERNETES_1_36,
    version=(1, 37),
    silent_about_claims=True,
    tells_of_victims=True,
    stops_at_exhausted_budget=True,
    takes_largest_total=True,
    counts_image_volumes=True,
    scores_free_storage=True,
    refuses_missing_drivers=True,
    compares_group_priority=True,
    tells_target_pods=True,
    counters_of_served_nodes=True,
    distinct_within_request=True,
    strict_capacity=True,
    merges_device_configs=True,
    names_failing_devices=True,
)
#: Oldest first.
KNOWN = (KUBERNETES_1_36, KUBERNETES_1_37)


def behaviour_of(major: int, minor: int) -> Behaviour:
    """The behaviour of that version; of the nearest known one where it is older or newer."""
    not_newer = [known for known in KNOWN if known.version <= (major, minor)]
    return not_newer[-1] if not_newer else KNOWN[0]
