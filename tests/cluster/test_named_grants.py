"""GPUs that reservation pods have, by node and number."""

from builders import a_pod
from fairlead.cluster.reservations import Reservations
from fairlead.model.gpus import GpuUse, Grant
from fairlead.model.reservations import Reservation, slot_name


def test_a_grant_gets_the_uuid_of_a_reserved_gpu_and_keeps_those_that_it_has() -> None:
    reservations = Reservations()
    reservations.see(a_pod("reservation-3", node="n1"), Reservation(3))
    asked = Grant((GpuUse("GPU-7", whole=False, milli=500), GpuUse(slot_name(3), milli=500)))
    assert reservations.named("n1", asked) is None, "it has not reported its GPU yet"

    reservations.see(a_pod("reservation-3", node="n1"), Reservation(3, "GPU-9"))
    found = reservations.named("n1", asked)
    assert found is not None
    assert [use.uuid for use in found.uses] == ["GPU-7", "GPU-9"]
    assert reservations.named("n2", asked) is None, "it is of another node"
