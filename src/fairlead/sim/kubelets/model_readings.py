"""The readings of the simulated GPUs, as the model has them."""

from collections.abc import Iterable

from fairlead.model.readings import CardReading, NodeReadings
from fairlead.sim.kubelets.cards import SimulatedReading


def node_readings(node: str, cards: Iterable[SimulatedReading], now_s: float) -> NodeReadings:
    """Without lost GPUs; of a pod the mean utilisation and the sum of memory over its GPUs."""
    by_card: dict[str, CardReading] = {}
    by_pod: dict[str, list[tuple[int, int]]] = {}
    for card in cards:
        if card.lost:
            continue
        by_card[card.uuid or str(card.index)] = CardReading(
            utilisation=card.utilisation_percent / 100,
            memory_used_mib=card.memory_used_mib,
            power_w=card.power_w,
        )
        for pod, work in card.pods.items():
            by_pod.setdefault(pod, []).append(work)
    pods = {pod: _together(works) for pod, works in by_pod.items()}
    return NodeReadings(node, now_s, by_card, pods, "simulated")


def _together(works: list[tuple[int, int]]) -> CardReading:
    busy = sum(percent for percent, _ in works) / 100 / len(works)
    return CardReading(utilisation=busy, memory_used_mib=sum(mib for _, mib in works))
