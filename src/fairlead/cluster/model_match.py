"""Which models of GPUs will do for a request: worked out once, and again when a model is new."""

import numpy as np
import numpy.typing as npt

from fairlead.cluster.interned import Interned
from fairlead.model.gpus import GpuRequest
from fairlead.model.machines import is_any_of
from fairlead.model.sizes import Kept, weigh

#: By the number of the model, and at the end for a slot without a GPU.
ModelMask = npt.NDArray[np.bool_]
_Kinds = tuple[frozenset[str], tuple[str, ...], tuple[str, ...]]

_KEPT_BYTES = 2 << 20


class ModelMatch:
    """Answers by model, so that many alternatives in a request cost no more than one."""

    def __init__(self, models: Interned[str]) -> None:
        self._models = models
        self._kept: Kept[_Kinds, tuple[int, ModelMask]] = Kept(_KEPT_BYTES)

    def of(self, ask: GpuRequest) -> ModelMask:
        kinds = ask.models, ask.like, ask.unlike
        version, mask = self._kept.get(kinds, (-1, None))
        if mask is None or version != self._models.version:
            mask = self._matched(*kinds)
            self._kept.keep(kinds, (self._models.version, mask), weigh(kinds) + mask.nbytes)
        return mask

    def _matched(
        self, models: frozenset[str], like: tuple[str, ...], unlike: tuple[str, ...]
    ) -> ModelMask:
        """Upper or lower case makes no difference, for a name as for a part of one."""
        found = np.zeros(self._models.width + 1, dtype=np.bool_)
        found[-1] = not (models or like)
        parts, others = [part.upper() for part in like], [part.upper() for part in unlike]
        for name, code in self._models.code_of.items():
            upper = name.upper()
            wanted = not models or is_any_of(name, models)
            wanted = wanted and (not parts or any(part in upper for part in parts))
            found[code] = wanted and not any(part in upper for part in others)
        return found
