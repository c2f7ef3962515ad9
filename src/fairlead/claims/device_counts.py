"""How many devices of a kind each node has: free ones, and all of them."""

from collections import Counter
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from fairlead.claims.columns import DeviceColumns, Flags
from fairlead.claims.requests import WantedDevices
from fairlead.model.claims import ALL_DEVICES, DeviceId
from fairlead.model.lazy_dataclass import dataclass

Counts = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class DeviceCounts:
    """Devices that can serve the same requests. No node can give more than these."""

    #: Equal for requests that the same devices can serve.
    kind: object
    #: How many a pod needs.
    asked: int
    #: By node: those that no claim has whole, and those that would be there if no claim had any.
    free: Counts
    every: Counts
    #: By row of the columns: whether the device can serve the requests.
    usable: Flags
    columns: DeviceColumns

    def serves(self, key: DeviceId) -> bool:
        """Whether the device is one of them."""
        row = self.columns.row_of(key)
        return 0 <= row < len(self.usable) and bool(self.usable[row])


def asked_by_kind(requests: Sequence[list[list[WantedDevices]]]) -> dict[object, int] | None:
    """Devices of each kind that claims ask for; None if that is not a number for each kind."""
    asked: Counter[object] = Counter()
    for alternatives in (request for claim in requests for request in claim):
        (wanted, *others) = alternatives
        if others or wanted.need.mode == ALL_DEVICES or wanted.need.admin_access:
            return None
        asked[wanted.kind] += wanted.count
    return asked
