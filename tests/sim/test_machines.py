"""Machine shapes, the inventory they report, and the nodes they become."""

import json

import pytest

from fairlead.base.node_inventory import decoder, write
from fairlead.kube.codec import decode_node
from fairlead.model.machines import has_nvlink, links_of
from fairlead.model.nodes import GPU
from fairlead.sim import machines
from fairlead.sim.machines import MACHINE_TYPES, inventory
from fairlead.sim.machines.nodes import node_object

NOW = "2030-01-01T00:00:00Z"


@pytest.mark.parametrize("shape", MACHINE_TYPES, ids=lambda shape: shape.kind)
def test_links_are_a_symmetric_matrix_with_x_on_the_diagonal(shape):
    size = range(shape.gpus)
    assert len(shape.links) == shape.gpus
    for a in size:
        assert len(shape.links[a]) == shape.gpus
        for b in size:
            assert shape.links[a][b] == shape.links[b][a]
            assert (shape.links[a][b] == "X") == (a == b)


def test_every_gpu_of_a_dgx_1v_has_six_nvlinks():
    for row in machines.DGX_1V.links:
        assert sum(int(link[2:]) for link in row if link.startswith("NV")) == 6


def test_the_double_links_of_a_dgx_1v_make_one_ring():
    links = machines.DGX_1V.links
    ring, at, before = [0], 0, -1
    while True:
        at, before = next(b for b in range(8) if links[at][b] == "NV2" and b != before), at
        if at == 0:
            break
        ring.append(at)
    assert sorted(ring) == list(range(8))


@pytest.mark.parametrize(
    ("shape", "model", "memory_mib"),
    [
        (machines.HGX_H200, "NVIDIA H200", 143771),
        (machines.HGX_H100, "NVIDIA H100 80GB HBM3", 81559),
        (machines.DGX_1V, "Tesla V100-SXM2-32GB", 32768),
    ],
)
def test_models_are_spelled_as_nvml_spells_them(shape, model, memory_mib):
    assert (shape.gpu.model, shape.gpu.memory_mib) == (model, memory_mib)


def test_the_default_mix_has_every_shape():
    mixed = machines.machines(machines.DEFAULT_MACHINES)
    assert {machine.shape.kind for machine in mixed} == {shape.kind for shape in MACHINE_TYPES}
    assert sum(machine.shape.gpus for machine in mixed) == 80


def test_names_are_unique_and_do_not_depend_on_luck():
    names = [machine.name for machine in machines.machines(1000)]
    assert len(set(names)) == 1000
    assert names == [machine.name for machine in machines.machines(1000)]


def test_uuids_follow_from_the_name_and_differ_between_gpus():
    first, second = machines.machines(2)
    uuids = [gpu.uuid for gpu in inventory(first).gpus]
    assert uuids == [gpu.uuid for gpu in inventory(first).gpus]
    assert len({*uuids, *(gpu.uuid for gpu in inventory(second).gpus)}) == 12
    assert all(len(uuid) == 40 and uuid.startswith("GPU-") for uuid in uuids)


def test_an_inventory_reads_back_as_it_was_written():
    found = inventory(machines.machines(6)[5])
    assert decoder.decode(write(found)) == found


def test_the_inventory_leaves_out_what_is_usual():
    [gpu, *_] = json.loads(write(inventory(machines.machines(2)[1])))["gpus"]
    assert list(gpu) == ["index", "uuid", "model", "memoryMib", "numa", "links"]


def test_readers_skip_what_they_do_not_know():
    text = '{"version":2,"fabric":"pcie","gpus":[{"index":0,"uuid":"GPU-1","model":"T4",'
    assert decoder.decode(text + '"memoryMib":1,"future":{}}],"more":1}').gpus[0].model == "T4"


@pytest.mark.parametrize("machine", machines.machines(6), ids=lambda machine: machine.name)
def test_the_scheduler_reads_the_node(machine):
    node = decode_node(json.dumps(node_object(machine, NOW)).encode())
    assert dict(node.allocatable)[GPU] == machine.shape.gpus
    assert node.labels["nvidia.com/gpu.count"] == str(machine.shape.gpus)
    assert " " not in node.labels["nvidia.com/gpu.product"]
    assert not node.taints


@pytest.mark.parametrize("machine", machines.machines(6), ids=lambda machine: machine.name)
def test_the_scheduler_knows_its_gpus(machine):
    gpus = decode_node(json.dumps(node_object(machine, NOW)).encode()).inventory
    assert [gpu.uuid for gpu in gpus.gpus] == [gpu.uuid for gpu in inventory(machine).gpus]
    assert {gpu.memory_mib for gpu in gpus.gpus} == {machine.shape.gpu.memory_mib}
    assert [gpu.numa for gpu in gpus.gpus] == list(machine.shape.numa)
    joined = machine.shape.fabric != "pcie"
    assert has_nvlink(gpus.links) == joined
    assert not joined or gpus.links == links_of(machine.shape.gpu.model, machine.shape.gpus)


def test_a_thousand_nodes_have_addresses_of_their_own():
    nodes = [node_object(machine, NOW) for machine in machines.machines(1000)]
    assert len({node["status"]["addresses"][0]["address"] for node in nodes}) == 1000
