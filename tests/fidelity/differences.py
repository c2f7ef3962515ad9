"""Cases in which the embedded server deliberately answers otherwise, with the reason.

A case listed here must differ: one that no longer does fails until it is taken off the list.
`docs/embedded-server.md` explains each to users.
"""

DIFFERENCES: dict[str, str] = {
    "apply conflicts with an update": "only what is applied has an owner here; updates have none",
    "admin access in a namespace without the label": "labels of the namespace are not looked at",
}

#: Cases that kube-apiserver of another version answers otherwise than the recorded 1.36, and how.
#: The embedded server is a 1.36 and does not follow.
OTHER_VERSIONS: dict[str, dict[str, str]] = {
    "1.37": {
        "an owner without a uid": "the field has an index, and is required instead of invalid",
        "no new finalizer on what is being deleted": "the cause is listed once, not twice",
        "merge patch with another uid": "the cause is listed once, not twice",
        "bind with an illegal annotation key is accepted and wedges the pod": (
            "the pod's wedged update lists the cause once, not three times"
        ),
        "bind with 300 KiB of annotations is accepted and wedges the pod": (
            "the pod's wedged update lists the cause once, not three times"
        ),
        "a CSI node": "it has a status, an empty one",
        "a CSI driver": "preventPodSchedulingIfMissing is false by default",
        "a stateful set gets its defaults": "rollingUpdate.maxUnavailable is 1",
        "a stateful set's service stays": "the message names the one field that may not change",
        "two requests of one name": "the message shows the request, not its name",
        "two reservations of one user": "the message shows the user, not its uid",
    },
}
