"""Answers that look as they did the last time, but for their values: read by arithmetic alone.

An exporter writes the same lines in the same order every time. Which line is whose and what it
means is worked out once; from then on the values of a node are one array, checked and added up
at once. Whatever is out of the ordinary (a value that cannot be, a time on a line, a counter) is
left to `gathering`, which explains itself line by line.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.readings import GpuReading, NodeReadings
from fairlead.telemetry.sources.formats import AGE, SUMS, Meaning, SeriesTarget

#: In the order in which a `GpuReading` is made.
FIELDS = (
    "utilisation", "memory_busy", "memory_used_mib", "power_w", "temperature_c", "nvlink_bytes_s",
)  # fmt: skip
_WIDTH = len(FIELDS)
#: More than a kubelet runs.
MOST_PODS = 512

#: Of one line: whose it is and what it means; None for a line without a use.
Line = tuple[SeriesTarget, Meaning] | None
Floats = npt.NDArray[np.float64]
#: (line, weight) for each reading of each GPU or pod, by (its number, field).
Shares = dict[tuple[int, int], list[tuple[int, float]]]


@dataclass(frozen=True, slots=True)
class LayoutShape:
    """What answers of equal shape share, whatever their labels."""

    scale: Floats
    most: Floats
    #: Lines, with what weight, and to which number of the outcome they add.
    lines: npt.NDArray[np.intp]
    weights: Floats
    sums: npt.NDArray[np.intp]
    #: Where the outcome is reported at all.
    told: tuple[bool, ...]
    #: The most that each can be: processes of one GPU may seem to use more than all of it.
    ceiling: Floats
    age: int | None


@dataclass(frozen=True, slots=True)
class Layout:
    node: str
    gpus: tuple[tuple[str, int | None], ...]
    pods: tuple[str, ...]
    shape: LayoutShape

    def readings(self, texts: Sequence[bytes], now_s: float, source: str) -> NodeReadings | None:
        """What these values say; None if any of them is out of the ordinary."""
        shape = self.shape
        try:
            values: Floats = np.array(list(map(float, texts))) * shape.scale
        except ValueError:
            return None
        if not ((values >= 0.0) & (values <= shape.most)).all():
            return None
        count = len(shape.told)
        sums = np.bincount(shape.sums, values[shape.lines] * shape.weights, minlength=count)
        rows = np.minimum(sums, shape.ceiling).tolist()
        told = [value if there else None for value, there in zip(rows, shape.told, strict=True)]
        age_s = 0.0 if shape.age is None else float(values[shape.age])
        split = _WIDTH * len(self.gpus)
        gpus = {
            key: GpuReading(*told[at : at + _WIDTH], None, index)  # type: ignore[call-arg]
            for at, (key, index) in zip(range(0, split, _WIDTH), self.gpus, strict=True)
        }
        pods = {
            pod: GpuReading(*told[at : at + _WIDTH])
            for at, pod in zip(range(split, count, _WIDTH), self.pods, strict=True)
        }
        return NodeReadings(self.node, now_s - age_s, gpus, pods, source)


def layout_of(node: str, lines: Sequence[Line], shapes: dict[object, LayoutShape]) -> Layout | None:
    """How to read answers of these lines; None if that cannot be said once for all."""
    if any(line is not None and line[1].grows for line in lines):
        return None
    gpus: dict[str, int | None] = {}
    pods: dict[str, None] = {}
    for whose, _ in filter(None, lines):
        if whose.gpu:
            gpus.setdefault(whose.gpu, whose.index)
        if whose.pod:
            pods.setdefault(whose.pod)
    shares = _shares(lines, list(gpus), list(pods)) if len(pods) <= MOST_PODS else None
    if shares is None:
        return None
    key = _key(lines, len(gpus), len(pods), shares)
    shape = shapes.get(key)
    if shape is None:
        shape = shapes[key] = _shape(lines, _WIDTH * (len(gpus) + len(pods)), shares)
    return Layout(node, tuple(gpus.items()), tuple(pods), shape)


def _shares(lines: Sequence[Line], gpus: list[str], pods: list[str]) -> Shares | None:
    """Which lines add up to what; None where lines contradict each other."""
    shares: Shares = {}
    pod_parts: Shares = {}
    whole: set[tuple[int, int]] = set()
    for (whose, field), chosen in _best(lines).items():
        for line in chosen:
            found = lines[line]
            assert found is not None
            meaning = found[1]
            if whose.gpu and not meaning.of_pod:
                number = gpus.index(whose.gpu), field
                weight = 1.0 if whose.part == 1.0 or FIELDS[field] in SUMS else whose.part
                if number in shares and not meaning.adds and (whose.part == 1.0 or number in whole):
                    return None
                if whose.part == 1.0:
                    whole.add(number)
                shares.setdefault(number, []).append((line, weight))
            if whose.pod:
                number = len(gpus) + pods.index(whose.pod), field
                pod_parts.setdefault(number, []).append((line, 1.0))
    for number, parts in pod_parts.items():
        weight = 1.0 if FIELDS[number[1]] in SUMS else 1.0 / len(parts)
        shares[number] = [(line, weight) for line, _ in parts]
    return shares


def _best(lines: Sequence[Line]) -> dict[tuple[SeriesTarget, int], list[int]]:
    """Of lines with the same labels and reading, those of the highest rank."""
    best: dict[tuple[SeriesTarget, int], list[int]] = {}
    for number, line in enumerate(lines):
        if line is None or line[1].reading == AGE:
            continue
        key = line[0], FIELDS.index(line[1].reading)
        chosen = best.setdefault(key, [])
        before = lines[chosen[0]] if chosen else None
        if before is None or line[1].rank > before[1].rank:
            chosen[:] = [number]
        elif line[1].adds and line[1].rank == before[1].rank:
            chosen.append(number)
    return best


def _key(lines: Sequence[Line], gpus: int, pods: int, shares: Shares) -> object:
    return (
        gpus,
        pods,
        tuple(line[1] if line else None for line in lines),
        tuple((number, tuple(parts)) for number, parts in sorted(shares.items())),
    )


def _shape(lines: Sequence[Line], count: int, shares: Shares) -> LayoutShape:
    parts = [
        (line, weight, number * _WIDTH + field)
        for (number, field), chosen in shares.items()
        for line, weight in chosen
    ]
    ceiling = np.full(count, np.inf)
    for (number, field), chosen in shares.items():
        first = lines[chosen[0][0]]
        assert first is not None
        if first[1].adds:
            ceiling[number * _WIDTH + field] = first[1].most
    told = {number * _WIDTH + field for number, field in shares}
    ages = [n for n, line in enumerate(lines) if line is not None and line[1].reading == AGE]
    return LayoutShape(
        scale=np.array([line[1].scale if line else 0.0 for line in lines]),
        most=np.array([line[1].most if line else np.inf for line in lines]),
        lines=np.array([part[0] for part in parts], dtype=np.intp),
        weights=np.array([part[1] for part in parts]),
        sums=np.array([part[2] for part in parts], dtype=np.intp),
        told=tuple(at in told for at in range(count)),
        ceiling=ceiling,
        age=ages[0] if ages else None,
    )
