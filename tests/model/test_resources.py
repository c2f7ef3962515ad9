import pytest

from fairlead.model.resources import Container, PodResources, scored, total

GI = 1 << 30


def c(sidecar: bool = False, **requests: int) -> Container:
    return Container(requests, sidecar)


@pytest.mark.parametrize(
    ("pod_resources", "expected"),
    [
        pytest.param(PodResources([c(cpu=100), c(cpu=200)]), {"cpu": 300}, id="containers add up"),
        pytest.param(
            PodResources([c(cpu=100)], init=[c(cpu=500), c(cpu=300)]),
            {"cpu": 500},
            id="init containers run one by one, so the greediest counts",
        ),
        pytest.param(
            PodResources([c(cpu=400)], init=[c(cpu=100, gpu=2)]),
            {"cpu": 400, "gpu": 2},
            id="each resource takes its own maximum",
        ),
        pytest.param(
            PodResources([c(cpu=100)], init=[c(sidecar=True, cpu=50), c(cpu=200)]),
            {"cpu": 250},
            id="an init container runs beside the sidecars started before it",
        ),
        pytest.param(
            PodResources([c(cpu=100)], init=[c(cpu=200), c(sidecar=True, cpu=50)]),
            {"cpu": 200},
            id="but not beside those started after it",
        ),
        pytest.param(
            PodResources([c(cpu=300)], init=[c(sidecar=True, cpu=50)]),
            {"cpu": 350},
            id="sidecars stay, so they add to the containers",
        ),
        pytest.param(
            PodResources([c(cpu=300, gpu=1)], pod_level={"cpu": 900, "gpu": 7}),
            {"cpu": 900, "gpu": 1},
            id="pod-level requests replace cpu, not devices",
        ),
        pytest.param(
            PodResources([c(cpu=300)], overhead={"cpu": 10, "memory": GI}, pod_level={"cpu": 100}),
            {"cpu": 110, "memory": GI},
            id="overhead comes on top of everything",
        ),
        pytest.param(PodResources([c(gpu=0)]), {}, id="zero is nothing"),
    ],
)
def test_totals(pod_resources: PodResources, expected: dict[str, int]) -> None:
    assert dict(total(pod_resources)) == expected


def test_containers_that_ask_for_nothing_are_scored_as_small_ones() -> None:
    assert scored(PodResources([c(), c(cpu=1000)])) == (1100, 2 * 200 * (1 << 20))
