"""How long to wait between the tries of one write."""

import random


def pause_s(failures: int, *, longest_s: float, first_s: float = 0.01) -> float:
    """10 ms, then five times as long after each failure, up to a limit, as kube-scheduler."""
    return spread(min(first_s * 5.0 ** min(failures, 9), longest_s))


def spread(wait_s: float) -> float:
    """A little more than that, or all that were turned away together would come back together."""
    return wait_s * (1 + 0.1 * random.random())
