from builders import a_node, a_pod, a_taint, drawn
from fairlead.apps.config.profiles import built_in
from fairlead.model.volumes import PodVolumes, VolumeClaimUse
from fairlead.placement.explain import NodeAnswer, explain
from fairlead.placement.place import Placement
from fairlead.placement.verdicts import Placed


def test_every_node_answers_best_first() -> None:
    cluster = drawn("roomy ........", "snug ###.", "full ####")
    cluster.put_node(a_node("tainted", taints=(a_taint("k", "v"),)))
    found = explain(Placement(built_in("gpu-scheduler"), cluster), cluster, a_pod(gpus=1))
    assert found.verdict == Placed("snug", 100.0)
    assert found.nodes == (
        NodeAnswer("snug", score=100.0),
        NodeAnswer("roomy", score=12.5),
        NodeAnswer(
            "full",
            "NodeResourcesFit",
            ("Insufficient nvidia.com/gpu",),
            "requested 1 nvidia.com/gpu, 0 of 4 free",
        ),
        NodeAnswer(
            "tainted",
            "TaintToleration",
            ("node(s) had untolerated taint(s)",),
            "not tolerated: k=v:NoSchedule",
        ),
    )


def test_no_node_answers_when_none_was_looked_at() -> None:
    cluster = drawn("roomy ........")
    pod = a_pod(volumes=PodVolumes((VolumeClaimUse("default/data"),)))
    found = explain(Placement(built_in("gpu-scheduler"), cluster), cluster, pod)
    assert 'persistentvolumeclaim "data" not found' in found.verdict.message
    assert found.nodes == ()
