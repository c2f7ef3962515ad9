"""Periodic load against bursts."""

import numpy as np
import pytest

from fairlead.model.readings import GpuReading, NodeReadings
from fairlead.telemetry.periodicity import WINDOW, PeriodicityDetector, is_cyclic

TIMES = np.arange(WINDOW)
RANDOM = np.random.default_rng(7)


def cyclic(load: np.ndarray) -> bool:
    return bool(is_cyclic(np.asarray([load], dtype=np.float32))[0])


@pytest.mark.parametrize("period", [4, 6, 9, 15])
def test_epochs_with_pauses_are_periodic(period: int) -> None:
    working = (TIMES % period) < period * 0.6
    assert cyclic(np.where(working, 0.9, 0.1) + RANDOM.normal(0, 0.03, WINDOW))


@pytest.mark.parametrize(
    "load",
    [
        np.full(WINDOW, 0.97),
        np.zeros(WINDOW),
        np.linspace(0, 1, WINDOW),
        np.where(TIMES < WINDOW // 2, 0.1, 0.9),
        np.where(TIMES == 11, 1.0, 0.0),
        0.9 + 0.01 * np.sin(TIMES),
    ],
    ids=["busy", "idle", "rising", "began", "one burst", "hardly moves"],
)
def test_these_have_none(load: np.ndarray) -> None:
    assert not cyclic(load)


def test_most_bursts_at_random_have_none() -> None:
    bursts = (RANDOM.random((500, WINDOW)) < 0.25).astype(np.float32)
    assert is_cyclic(bursts).mean() < 0.1


def test_a_gpu_is_called_cyclic_once_it_is_known_and_others_are_not() -> None:
    detector = PeriodicityDetector()

    def read(turn: int) -> dict[str, GpuReading]:
        shares = {"train": 0.9 if turn % 6 < 4 else 0.1, "serve": 0.5}
        told = NodeReadings(
            "n", float(turn), {key: GpuReading(share) for key, share in shares.items()}
        )
        ((found,),) = [detector.put([told])]
        detector.look()
        return dict(found.gpus)

    early = [read(turn) for turn in range(WINDOW)]
    assert {gpu.cyclic for gpus in early for gpu in gpus.values()} == {None}
    late = read(WINDOW)
    assert (late["train"].cyclic, late["serve"].cyclic) == (True, None)
    assert late["train"].utilisation == early[WINDOW % 6]["train"].utilisation


def test_what_the_source_says_is_left_alone() -> None:
    detector = PeriodicityDetector()
    told = NodeReadings("n", 1.0, {"0": GpuReading(0.5, cyclic=False), "1": GpuReading(None)})
    for _ in range(2 * WINDOW):
        assert detector.put([told]) == [told]
        detector.look()
