"""A gang whose pods may have any GPUs gets GPUs of one model, where that costs nothing."""

from builders import an_engine
from fairlead.engine.engine import Engine
from fairlead.testing.builders import a_gpu_node
from gang_world import GangWorld, a_gang


def models(**gpus: int) -> Engine:
    """Nodes of several models, named after the model, with one GPU each."""
    return an_engine(
        *(a_gpu_node(f"{m}-{n}", 1, model=m) for m, count in gpus.items() for n in range(count))
    )


def placed(world: GangWorld) -> set[str]:
    """The models that pods have."""
    world.now += 10.0
    world.decide_all()
    world.answer_all()
    return {pod.node.partition("-")[0] for pod in world.pods.values() if pod.node}


def test_all_pods_get_the_same_model() -> None:
    for first, second in (("H100", "A100"), ("A100", "H100")):
        world = GangWorld(models(**{first: 3, second: 5}))
        world.create(*a_gang("job", 4))
        assert len(placed(world)) == 1


def test_a_gang_that_needs_two_models_is_not_refused() -> None:
    world = GangWorld(models(H100=3, A100=3))
    world.create(*a_gang("job", 5))
    assert placed(world) == {"H100", "A100"}
    assert world.bound("job") == 5


def test_a_replacement_has_the_model_of_the_others() -> None:
    world = GangWorld(models(H100=5, A100=4))
    world.create(*a_gang("job", 4))
    assert placed(world) == {"A100"}
    world.replace("job-2")
    assert placed(world) == {"A100"}


def test_pods_above_the_minimum_use_what_is_there() -> None:
    world = GangWorld(models(H100=3, A100=2))
    world.create(*a_gang("job", 5, minimum=2))
    assert placed(world) == {"H100", "A100"}
    assert world.bound("job") == 5
