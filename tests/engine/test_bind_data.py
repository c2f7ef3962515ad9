"""A bind leaves the engine complete: the encoder is asked when it is made, and about what is."""

from dataclasses import dataclass, field

import pytest

from builders import SCHEDULER, a_node, a_pod, decide, see
from fairlead.apps.config.profiles import built_in
from fairlead.engine import events
from fairlead.engine.bind_data import BindData
from fairlead.engine.engine import Engine
from fairlead.engine.instructions import AnnounceFailure, Bind, Decline, Prepare
from fairlead.model.gpus import Gpu, GpuRequest, Grant, Inventory
from fairlead.model.pods import Pod
from fairlead.model.storage import StorageClass, Volume, VolumeClaim
from fairlead.model.volumes import PodVolumes, VolumeClaimUse
from fairlead.queue.entries import Pool

ONE = GpuRequest(1, whole=False, milli=500, dialect="fairlead")
TOO_LONG = "the annotations are too long"


def listed(model: str = "T4") -> Inventory:
    return Inventory((Gpu("GPU-0", 0, model, 16_000),), dialects=frozenset({"fairlead"}))


@dataclass
class Encoder:
    """Writes down the GPUs and the inventory that it is asked about."""

    problem: str = ""
    asked: list[str] = field(default_factory=list)

    def __call__(
        self, pod: Pod, node: str, grant: Grant | None, inventory: Inventory | None
    ) -> BindData:
        self.asked.append(pod.name)
        if self.problem:
            return BindData(problem=self.problem)
        gpus = ",".join(use.uuid for use in grant.uses) if grant else "none"
        models = ",".join(gpu.model for gpu in inventory.gpus) if inventory else "unknown"
        return BindData({"gpus": gpus, "models": models}, ("lock", node))


def an_engine(encoder: Encoder) -> Engine:
    profile = built_in(SCHEDULER)
    engine = Engine({SCHEDULER: profile}, extender_profile=profile, encode=encoder)
    engine.handle(events.NodeSeen(a_node("n1", inventory=listed())), now=0.0)
    return engine


def test_a_bind_has_the_grant_in_the_words_of_the_encoder() -> None:
    engine, pod = an_engine(Encoder()), a_pod("p", gpu_request=ONE)
    see(engine, pod)
    (bind,) = decide(engine)
    assert isinstance(bind, Bind)
    assert bind.annotations == {"gpus": "GPU-0", "models": "T4"}
    assert bind.lock == ("lock", "n1")
    assert bind.grant == engine.cluster.holdings[pod.uid].grant


def test_a_pod_without_gpus_is_not_asked_about_an_inventory() -> None:
    engine = an_engine(Encoder())
    see(engine, a_pod("plain"))
    (bind,) = decide(engine)
    assert isinstance(bind, Bind)
    assert bind.annotations == {"gpus": "none", "models": "unknown"}


def test_a_bind_of_another_scheduler_is_complete_as_well() -> None:
    engine, pod = an_engine(Encoder()), a_pod("p", scheduler="other", gpu_request=ONE)
    (bind,) = engine.handle(events.NodeChosen(pod, "n1"), now=0.0)
    assert isinstance(bind, Bind)
    assert bind.annotations == {"gpus": "GPU-0", "models": "T4"}


def test_after_the_steps_the_bind_has_the_inventory_of_that_time() -> None:
    encoder = Encoder()
    engine = an_engine(encoder)
    for each in (
        StorageClass("waits", waits=True),
        VolumeClaim("default", "data", uid="u", storage_class="waits", size_bytes=1),
        Volume("disk", storage_class="waits", capacity_bytes=1, phase="Available"),
    ):
        engine.handle(events.StorageSeen(each), now=0.0)
    volumes = PodVolumes((VolumeClaimUse("default/data"),))
    pod = a_pod("p", gpu_request=ONE, volumes=volumes)
    see(engine, pod)
    (asked,) = decide(engine)
    assert isinstance(asked, Prepare)
    assert not encoder.asked, "there is no bind yet"

    engine.handle(events.NodeSeen(a_node("n1", inventory=listed("A100"))), now=0.5)
    (bind,) = engine.handle(events.Prepared(pod.uid), now=1.0)
    assert isinstance(bind, Bind)
    assert bind.annotations == {"gpus": "GPU-0", "models": "A100"}


def test_a_bind_that_cannot_be_written_counts_as_denied() -> None:
    engine, pod = an_engine(Encoder(TOO_LONG)), a_pod("p", gpu_request=ONE)
    see(engine, pod)
    (failure,) = decide(engine)
    message = f'running Bind plugin "DefaultBinder": {TOO_LONG}'
    assert failure == AnnounceFailure(pod, "SchedulerError", message, nominated="")
    assert pod.uid not in engine.cluster.holdings
    assert engine.queue.counts()[Pool.BACKOFF] == 1, "it is tried again"


def test_a_bind_of_another_scheduler_that_cannot_be_written_is_declined() -> None:
    engine, pod = an_engine(Encoder(TOO_LONG)), a_pod("p", scheduler="other", gpu_request=ONE)
    assert engine.handle(events.NodeChosen(pod, "n1"), now=0.0) == [Decline(pod, TOO_LONG)]
    assert pod.uid not in engine.cluster.holdings


@pytest.mark.parametrize("gpus", [None, ONE])
def test_the_same_decision_is_written_in_the_same_way(gpus: GpuRequest | None) -> None:
    pod = a_pod("p", gpu_request=gpus)
    made = []
    for _ in range(2):
        engine = an_engine(Encoder())
        see(engine, pod)
        made.append(decide(engine))
    assert made[0] == made[1]
