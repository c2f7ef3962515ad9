"""Which pods are refused when they are created: those that could never be placed as written."""

from collections.abc import Mapping

from fairlead.kube.counted_words import CHARGED_COUNTED
from fairlead.kube.dialects.fairlead import (
    ASSIGNMENT,
    MEMORY_LIMIT,
    PREFIX,
    SHOWN,
    THREADS,
    VISIBLE,
)
from fairlead.kube.dialects.scheduling_map import INDEX
from fairlead.kube.queues.fairlead import CHARGED
from fairlead.model.pods import Pod

#: Which GPUs a pod has, which scheduler assigned them, and which queue is charged: written only
#: with the bind.
ANSWERS = (VISIBLE, SHOWN, ASSIGNMENT, PREFIX + "epoch", INDEX, THREADS, MEMORY_LIMIT, CHARGED,
           CHARGED_COUNTED)  # fmt: skip


def problem_with(pod: Pod) -> str:
    """One sentence for the author of a pod that is being created; empty if it is in order.

    What the scheduler cannot understand is refused in the scheduler's own words.
    """
    return pod.problem or _forged(pod.annotations)


def _forged(annotations: Mapping[str, str]) -> str:
    found = next((key for key in ANSWERS if key in annotations), "")
    return f"annotation {found} is set by the scheduler; remove it" if found else ""
