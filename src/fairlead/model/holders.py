"""Who holds devices: a pod, a claim that several pods use, or a pod that is gone.

The ledger knows holders only. A device of a holder is free when nothing refers to the holder.
"""

from typing import NewType

Holder = NewType("Holder", str)


def pod_holder(uid: str) -> Holder:
    """The pod itself: what it has no other pod uses."""
    return Holder(uid)


def claim_holder(uid: str) -> Holder:
    """A claim: its devices are held once, however many pods use them."""
    return Holder(f"claim/{uid}")


def claims_holder(node: str, gpu: str) -> Holder:
    """The claims that have parts of one GPU: it is theirs until none of them has any."""
    return Holder(f"claims/{node}/{gpu}")


def releasing_holder(uid: str) -> Holder:
    """What is left of a pod that is gone: the pod itself could be seen again."""
    return Holder(f"releasing/{uid}")
