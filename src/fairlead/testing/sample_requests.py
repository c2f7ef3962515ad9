"""Requests of every kind, for the contract of plugins."""

from fairlead.model.gpus import GpuRequest
from fairlead.model.loads import PodLoad
from fairlead.model.map_slots import MapSlot
from fairlead.model.pods import HostPort, NodeTerm, PreferredTerm, Toleration
from fairlead.model.scheduling_map import Line
from fairlead.model.selectors import Requirement, SpreadRule
from fairlead.model.volumes import Disk, PodVolumes, VolumeClaimUse
from fairlead.testing.builders import DIALECT, a_request, gpu_share, pod_term, selects

_SPREAD = SpreadRule("zone", 1, selects(app="a"))
_ZONE_A = NodeTerm((Requirement("zone", "In", ("a",)),))
_MAP_LINES = (Line(0, "n3", "1"),)

#: They match nodes and pods of `fairlead.testing.drawn`: zones a and b, apps a to c.
REQUESTS = (
    a_request(),
    a_request(gpus=1),
    a_request(gpus=3, cpu=2000, scored=(2000, 1 << 30)),
    a_request(cpu=700, scored=(700, 5 << 30), resources={"memory": 5 << 30}),
    a_request(cpu=10**9),
    a_request(node_selector=(("zone", "a"),)),
    a_request(node_terms=(NodeTerm((Requirement("rank", "Gt", ("3",)),)),)),
    a_request(tolerations=(Toleration("dedicated", "Exists"),)),
    a_request(host_ports=(HostPort(80),)),
    a_request(node_name="n3"),
    a_request(gpus=1, gpu_request=GpuRequest(1)),
    a_request(cpu=2000, gpu_request=gpu_share(300)),
    a_request(gpu_request=gpu_share(700, memory_mib=12_000)),
    a_request(cpu=2000, gpu_request=GpuRequest(2, models=frozenset({"H100"}), dialect=DIALECT)),
    a_request(namespace="default", required_affinity=(pod_term("zone", app="a"),)),
    a_request(namespace="default", anti_affinity=(pod_term("zone", app="a"),)),
    a_request(namespace="default", spread=(_SPREAD,)),
    a_request(preferred=(PreferredTerm(7, _ZONE_A),)),
    a_request(namespace="default", soft_spread=(_SPREAD,)),
    a_request(preferred_affinity=((pod_term("zone", app="a"), 5), (pod_term("rank", app="b"), -3))),
    a_request(namespace="default", labels=(("app", "b"),)),
    a_request(images=("x:1", "y:2"), containers=2),
    a_request(features=("F",)),
    a_request(
        volumes=PodVolumes((VolumeClaimUse("default/bound"), VolumeClaimUse("default/waiting")))
    ),
    a_request(volumes=PodVolumes((VolumeClaimUse("default/alone"),), (Disk("gce/shared"),))),
    a_request(gpu_request=gpu_share(200), load=PodLoad(0.7, cyclic=True)),
    a_request(gpu_request=GpuRequest(0, map_slot=MapSlot("ns/x", _MAP_LINES, 0))),
    a_request(gpu_request=GpuRequest(0, map_slot=MapSlot("ns/x", _MAP_LINES))),
)
