"""The room of a node for equal pods is never less than what is really placed there."""

from dataclasses import replace

import numpy as np
from hypothesis import given

from builders import SCHEDULER, a_node, a_pod, drawn
from drawn_worlds import World, worlds
from examples import examples
from fairlead.apps.config.profiles import built_in
from fairlead.cluster.pod_room import pod_room
from fairlead.model.pods import HostPort
from fairlead.placement.place import Placement
from fairlead.placement.verdicts import Placed


def test_gpus_that_are_counted() -> None:
    cluster = drawn("n1 ##......", "n2 ####", "n3 .......#")
    pod = a_pod(gpus=2)
    room = pod_room(pod.request, pod.request.resources, None, cluster.nodes)
    assert room.tolist() == [3, 0, 3]


def test_places_for_pods_and_ports_count() -> None:
    cluster = drawn("n1 ........")
    cluster.put_node(a_node("n2", resources={"pods": 3}))
    pod = a_pod(gpus=1)
    assert pod_room(pod.request, pod.request.resources, None, cluster.nodes).tolist() == [8, 3]
    alone = replace(pod.request, host_ports=(HostPort("TCP", 80),))
    assert pod_room(alone, alone.resources, None, cluster.nodes).tolist() == [1, 1]


@examples(40)
@given(worlds(affine=False))
def test_at_least_as_many_as_are_really_placed(world: World) -> None:
    cluster = world.cluster()
    placement = Placement(built_in(SCHEDULER), cluster)
    for pod in world.pending[:2]:
        view = placement.view(pod)
        ask = view.chosen_gpus
        room = pod_room(view.request, pod.request.resources, ask, cluster.nodes)
        for node, row in cluster.row_of.items():
            within = np.zeros(cluster.columns.size, dtype=np.bool_)
            within[row] = True
            with cluster.trial() as trial:
                placed = 0
                while placed < 12:
                    member = replace(pod, uid=f"{pod.uid}-{placed}")
                    verdict = placement.place(member, within)
                    if not isinstance(verdict, Placed):
                        break
                    trial.assume(member, node, verdict.grant)
                    placed += 1
            assert placed <= room[row]
