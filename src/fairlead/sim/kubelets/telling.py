"""What the simulated cards do, in the words of the model."""

from collections.abc import Iterable

from fairlead.model.readings import CardReading as Told
from fairlead.model.readings import NodeReadings
from fairlead.sim.kubelets.cards import CardReading


def told(node: str, cards: Iterable[CardReading], now_s: float) -> NodeReadings:
    """Lost cards tell nothing; what a pod does is the mean over its cards, and their memory."""
    by_card: dict[str, Told] = {}
    by_pod: dict[str, list[tuple[int, int]]] = {}
    for card in cards:
        if card.lost:
            continue
        by_card[card.uuid or str(card.index)] = Told(
            utilisation=card.utilisation_percent / 100,
            memory_used_mib=card.memory_used_mib,
            power_w=card.power_w,
        )
        for pod, work in card.pods.items():
            by_pod.setdefault(pod, []).append(work)
    pods = {pod: _together(works) for pod, works in by_pod.items()}
    return NodeReadings(node, now_s, by_card, pods, "simulated")


def _together(works: list[tuple[int, int]]) -> Told:
    busy = sum(percent for percent, _ in works) / 100 / len(works)
    return Told(utilisation=busy, memory_used_mib=sum(mib for _, mib in works))
