"""What pods ask of counted resources, by annotation, and what they were charged with."""

from collections.abc import Mapping

from fairlead.kube.dialects.fairlead import PREFIX
from fairlead.model.counted import CountedAsk, read_asked, read_charges
from fairlead.model.errors import FairleadError

#: What a pod asks for: "solver=2,tokens=1".
COUNTED = PREFIX + "counted-resources"
#: What it was charged with; written with its bind.
CHARGED_COUNTED = PREFIX + "charged-resources"


def read_counted(
    annotations: Mapping[str, str] | None, *, is_bound: bool
) -> tuple[CountedAsk | None, str]:
    """What a pod asks for, and why that is invalid. None: it asks for nothing.

    Of a bound pod only what it was charged with counts: its owner may edit what it asks for.
    """
    text = annotations.get(CHARGED_COUNTED if is_bound else COUNTED) if annotations else None
    if text is None:
        return None, ""
    if is_bound:
        return CountedAsk(charged=read_charges(text)), ""
    try:
        return CountedAsk(read_asked(text)), ""
    except FairleadError as error:
        return None, f"the pod is invalid: {COUNTED}: {error}"
