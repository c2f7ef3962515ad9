from fairlead_spares import KeepsSpares

from fairlead.testing import Placed, Refused, TestCluster, a_node, a_pod, check_plugin


def test_it_fulfils_the_contract() -> None:
    check_plugin(KeepsSpares())


def test_a_node_keeps_a_spare_gpu() -> None:
    cluster = TestCluster(a_node("small", gpus=1), a_node("large", gpus=2), filters=[KeepsSpares()])

    assert isinstance(verdict := cluster.place(a_pod("first", gpus=1)), Placed)
    assert verdict.node == "large"
    assert isinstance(verdict := cluster.place(a_pod("second", gpus=1)), Refused)
    assert verdict.reasons == (("node(s) would have no spare GPU", 2),)
