"""Who was given which GPU, read from the JSON of pods alone.

It shares nothing with the scheduler, not even how it reads an assignment.
"""

import json
from collections import defaultdict
from typing import Any

ASSIGNMENT = "fairlead.dev/assignment"
Json = dict[str, Any]


def given_twice(pods: list[Json], gpu_mib: int) -> list[str]:
    """GPUs of which more was given than there is, each with a sentence."""
    uses: dict[tuple[str, str], list[Json]] = defaultdict(list)
    for pod in pods:
        told = pod["metadata"].get("annotations", {}).get(ASSIGNMENT)
        if told is not None and pod["spec"].get("nodeName"):
            for use in json.loads(told)["devices"]:
                if "u" in use:  # else it is only counted, and the device plugin chooses it
                    uses[pod["spec"]["nodeName"], use["u"]].append(use)
    return [
        f"{device} on {node}: {found}"
        for (node, device), found in uses.items()
        if _too_much(found, gpu_mib)
    ]


def _too_much(uses: list[Json], gpu_mib: int) -> bool:
    whole = any(use.get("w", True) and not use.get("n") for use in uses)
    milli = sum(use.get("m", 1000) for use in uses if not use.get("n"))
    mib = sum(use.get("mib", 0) for use in uses if not use.get("n"))
    slots = [n for use in uses if use.get("n") for n in range(use.get("s", 0), _end(use))]
    return (
        (whole and len(uses) > 1)
        or milli > 1000
        or mib > gpu_mib
        or len(slots) != len(set(slots))
        or bool(slots and milli + mib)
    )


def _end(use: Json) -> int:
    return use.get("s", 0) + use["n"]
