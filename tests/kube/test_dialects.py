"""Every dialect to the letter: what pods write, what nodes list, what device plugins are told."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dialect_objects import (
    HAMI_GPUS,
    A,
    B,
    C,
    Json,
    a_node,
    a_pod,
    alnair_node,
    ask_of,
    fractions_node,
    gpushare_node,
    hami_node,
    lock_of,
    our_list,
    our_node,
    pod_json,
    problem_of,
    told,
    volcano_node,
)
from examples import examples
from fairlead.cluster.devices import Devices
from fairlead.cluster.gpu_rows import GpuRows
from fairlead.cluster.holdings import Holding
from fairlead.kube.codec import decode_pod
from fairlead.model.gpus import GpuRequest, GpuUse, Grant, GrantSource
from fairlead.model.holders import pod_holder
from fairlead.model.nodes import Node
from fairlead.placement.gpus import GpuPolicy, choose

GPU, MEM, PERCENT, CORES = (
    "nvidia.com/gpu",
    "nvidia.com/gpumem",
    "nvidia.com/gpumem-percentage",
    "nvidia.com/gpucores",
)
V = "volcano.sh/vgpu-"


def parts(dialect: str, gpus: int = 1, **more: Any) -> GpuRequest:
    return GpuRequest(gpus, **{"whole": False, "milli": 0, "dialect": dialect, **more})


@pytest.mark.parametrize(
    ("containers", "annotations", "ask"),
    [
        ([{GPU: 1, MEM: 4000}], {}, parts("hami", memory_mib=4000)),
        ([{GPU: 2, MEM: 4000, CORES: 30}], {}, parts("hami", 2, memory_mib=4000, milli=300)),
        ([{GPU: 1, PERCENT: 50}], {}, parts("hami", memory_milli=500)),
        ([{GPU: 1, CORES: 30}], {}, parts("hami", milli=300, memory_milli=1000)),
        # All cores: nobody else on the GPU.
        ([{GPU: 1, MEM: 4000, CORES: 100}], {},
         GpuRequest(1, memory_mib=4000, dialect="hami")),
        ([{GPU: 1}], {"nvidia.com/use-gputype": "A100, V100"},
         parts("hami", memory_milli=1000, like=("A100", "V100"))),
        ([{GPU: 1, MEM: 1}], {"nvidia.com/nouse-gputype": "1080"},
         parts("hami", memory_mib=1, unlike=("1080",))),
        ([{GPU: 1, MEM: 1}], {"nvidia.com/use-gpuuuid": A, "nvidia.com/nouse-gpuuuid": f"{B},{C}"},
         parts("hami", memory_mib=1, only=frozenset({A}), never=frozenset({B, C}))),
        ([{GPU: 2}], {}, GpuRequest(2, together=2)),
        ([{V + "number": 1, V + "memory": 3000, V + "cores": 20}], {},
         parts("volcano", memory_mib=3000, milli=200)),
        ([{V + "number": 2, V + "memory-percentage": 25}], {},
         parts("volcano", 2, memory_milli=250)),
        ([{V + "number": 1}], {"volcano.sh/vgpu-use-gpuuuid": A},
         parts("volcano", memory_milli=1000, only=frozenset({A}))),
        ([{"aliyun.com/gpu-mem": 4}], {}, parts("gpushare", memory_mib=4096)),
        ([{"aliyun.com/gpu-mem": 4, "aliyun.com/gpu-count": 1}], {},
         parts("gpushare", memory_mib=4096)),
        ([{"alnair/vgpu-memory": 6, "alnair/vgpu-compute": 50}], {},
         parts("alnair", memory_mib=6144, milli=500)),
        ([{}], {"gpu-fraction": "0.5"},
         parts("kai", milli=500, memory_milli=500, containers=((0,),), names=("c0",))),
        # A sidecar is not the first container.
        ([{"name": "s", "kind": "sidecar"}, {}], {"gpu-fraction": "0.5"},
         parts("kai", milli=500, memory_milli=500, containers=((0,),), names=("c1",))),
        ([{}, {"name": "w"}], {"gpu-memory": "4000", "gpu-fraction-num-devices": "2",
                               "gpu-fraction-container-name": "w"},
         parts("kai", 2, memory_mib=4000, containers=((0, 1),), names=("w",))),
        ([{"name": "a"}, {"name": "b"}],
         {"nvidia.com/container.b.gpu-memory.request": "8Gi",
          "nvidia.com/container.b.gpu-memory.limit": "16Gi",
          "nvidia.com/container.b.gpu-compute.mode": "time-slicing"},
         parts("kai", memory_mib=8192, containers=((), (0,)), names=("a", "b"))),
        ([{"name": "a"}], {"nvidia.com/container.a.gpu-memory.limit": "1Gi"},
         parts("kai", memory_mib=1024, containers=((0,),), names=("a",))),
        ([{}], {"fairlead.dev/gpu-share": "0.25"},
         parts("fairlead", milli=250, memory_milli=250)),
        ([{}], {"fairlead.dev/gpu-slice": "1g.18gb"}, parts("fairlead", profile="1g.18gb")),
        ([{}], {"fairlead.dev/gpu-slice": "3g.71gb", "fairlead.dev/gpu-count": "2",
                "fairlead.dev/gpu-model": "H200"},
         parts("fairlead", 2, profile="3g.71gb", models=frozenset({"H200"}))),
    ],
)  # fmt: skip
def test_what_a_pod_asks_for(containers: list[Json], annotations: Json, ask: GpuRequest) -> None:
    assert ask_of(*containers, annotations=annotations) == ask


@pytest.mark.parametrize(
    ("containers", "positions"),
    [
        ([{GPU: 1, MEM: 9}, {}, {GPU: 2, MEM: 9}], ((0,), (), (1, 2))),
        # What an init container had, the containers have after it.
        ([{"kind": "init", GPU: 2, MEM: 9}, {GPU: 1, MEM: 9}], ((0, 1), (0,))),
        # A sidecar stays; the init container after it runs beside it.
        ([{"kind": "sidecar", GPU: 1, MEM: 9}, {"kind": "init", GPU: 2, MEM: 9}, {GPU: 1, MEM: 9}],
         ((0,), (1, 2), (1,))),
    ],
)  # fmt: skip
def test_gpus_are_counted_by_container_as_kubernetes_counts(
    containers: list[Json], positions: tuple[tuple[int, ...], ...]
) -> None:
    ask = ask_of(*containers)
    assert ask is not None
    assert ask.containers == positions
    assert ask.gpus == 1 + max(position for container in positions for position in container)
    plain = ask_of(*({k: v for k, v in c.items() if k != MEM} for c in containers))
    assert plain is not None
    assert (plain.gpus, plain.containers) == (ask.gpus, positions)


@pytest.mark.parametrize(
    ("containers", "annotations", "sentence"),
    [
        ([{MEM: 4000}], {}, "add nvidia.com/gpu: 1"),
        ([{GPU: 1, MEM: 4000, PERCENT: 10}], {}, "request one of them"),
        ([{GPU: 1, CORES: 101}], {}, "a GPU has 100"),
        ([{GPU: 1, PERCENT: 150}], {}, "a GPU has 100"),
        ([{GPU: 1, MEM: 1}, {GPU: 1, MEM: 2}], {}, "different amounts"),
        ([{V + "memory": 1}], {}, "add volcano.sh/vgpu-number: 1"),
        ([{"aliyun.com/gpu-mem": 4}, {"aliyun.com/gpu-mem": 4}], {}, "one container"),
        ([{"aliyun.com/gpu-mem": 4, "aliyun.com/gpu-count": 2}], {}, "assigns one GPU"),
        ([{"alnair/vgpu-memory": 4}, {"alnair/vgpu-memory": 2}], {}, "one container"),
        ([{"alnair/vgpu-compute": 50}], {}, "; request both"),
        ([{"alnair/vgpu-memory": 4, "alnair/vgpu-compute": 150}], {}, "one GPU has 100"),
        ([{}], {"gpu-fraction-num-devices": "2"}, "neither gpu-fraction nor gpu-memory"),
        ([{}], {"gpu-fraction": "0.5", "gpu-memory": "10"}, "in two ways"),
        ([{}], {"gpu-fraction": "0.5", "gpu-fraction-container-name": "x"}, "no such container"),
        ([{}], {"gpu-memory": "-1"}, "write a whole number from 1"),
        ([{}], {"gpu-memory": "٣"}, "write a whole number from 1"),
        ([{}], {"nvidia.com/container.x.gpu-memory.limit": "1Gi"}, "does not have"),
        ([{}], {"nvidia.com/container.c0.gpu-memory.limit": "much"}, "gpu-memory.limit"),
        ([{}], {"nvidia.com/container.c0.gpu-memory.limit": "0"}, "more than 0"),
        ([{}], {"nvidia.com/container.c0.gpu-compute.mode": "sm-sharing"}, "time-slicing only"),
        ([{GPU: 1}], {"gpu-fraction": "0.5"}, "keep one of them"),
        ([{GPU: 1, MEM: 1}], {"gpu-fraction": "0.5"}, "(hami and kai)"),
        ([{}], {"fairlead.dev/gpu-slice": "half"}, "write a MIG profile such as 1g.18gb"),
        ([{}], {"fairlead.dev/gpu-slice": "1g.18gb", "fairlead.dev/gpu-share": "0.5"},
         "a MIG slice and also a share"),
        ([{GPU: 1}], {"fairlead.dev/gpu-slice": "1g.18gb"}, "request one of them"),
        *(
            ([{}], {key: bad}, f"{key} is {bad!r}; write a share")
            for key in ("gpu-fraction", "fairlead.dev/gpu-share")
            for bad in ("0", "-1", "1.5", "nan", "inf", "", "1e-9", "half")
        ),
    ],
)  # fmt: skip
def test_nonsense_is_refused_with_a_sentence(
    containers: list[Json], annotations: Json, sentence: str
) -> None:
    assert sentence in problem_of(*containers, annotations=annotations)


# -- nodes ---------------------------------------------------------------------------------------

COLONS = f"{A},10,16000,100,NVIDIA-Tesla V100,0,true:{B},10,16000,100,NVIDIA-A100,1,false:"


def gpus_of(node: Node) -> list[tuple[str, int, str, int, bool, int]]:
    assert not node.gpu_problem, node.gpu_problem
    assert node.inventory is not None
    return [
        (gpu.uuid, gpu.index, gpu.model, gpu.memory_mib, gpu.healthy, gpu.sharers)
        for gpu in node.inventory.gpus
    ]


def test_hami_lists_gpus_in_json_and_used_to_in_colons() -> None:
    v100 = (A, 0, "NVIDIA-Tesla V100", 16000, True, 10)
    assert gpus_of(hami_node()) == [v100, (B, 1, "NVIDIA-A100", 16000, True, 10)]
    old = a_node({"hami.io/node-nvidia-register": COLONS})
    assert gpus_of(old) == [v100, (B, 1, "NVIDIA-A100", 16000, False, 10)]
    newer = a_node({"hami.io/node-nvidia-register": f"{A},10,16000,100,V100,0,true,3,mig:"})
    assert gpus_of(newer) == [(A, 3, "V100", 16000, False, 10)]
    gone = {"hami.io/node-handshake": "Deleted_2026.01.01 00:00:00"}
    assert a_node({"hami.io/node-nvidia-register": COLONS, **gone}).inventory is None


def test_the_others_list_theirs() -> None:
    assert gpus_of(volcano_node()) == [
        (A, 0, "NVIDIA-V100", 16000, True, 10),
        (B, 1, "NVIDIA-A100", 16000, True, 10),
    ]
    assert gpus_of(gpushare_node()) == [("0", 0, "", 16384, True, 0), ("1", 1, "", 16384, True, 0)]
    # The device plugin takes GPUs by their uuid, so that is the order of the book.
    for key in ("vitual", "virtual"):
        assert gpus_of(alnair_node(chunks="11,16", key=key)) == [
            (A, 1, "", 16384, True, 0),
            (B, 0, "", 11264, True, 0),
        ]
    assert [gpu[:4] for gpu in gpus_of(fractions_node())] == [
        ("0", 0, "NVIDIA-H100", 16384),
        ("1", 1, "NVIDIA-H100", 16384),
    ]


def test_several_lists_of_one_node_are_one_book() -> None:
    gpu = {"memoryMib": 81000, "model": "H100", "links": ["X", "PIX"]}
    ours = {"gpus": [{**gpu, "uuid": B, "index": 0}, {**gpu, "uuid": A, "index": 1}]}
    hami = [{**HAMI_GPUS[0], "health": False}, HAMI_GPUS[1]]
    node = a_node({
        "fairlead.dev/inventory": json.dumps(ours),
        "hami.io/node-nvidia-register": json.dumps(hami),
    }, **{"aliyun.com/gpu-mem": 32, "aliyun.com/gpu-count": 2})  # fmt: skip
    assert gpus_of(node) == [(B, 0, "H100", 81000, True, 10), (A, 1, "H100", 81000, False, 10)]
    assert node.inventory is not None
    assert node.inventory.dialects == {"fairlead", "kai", "hami", "gpushare"}


@pytest.mark.parametrize(
    "annotations",
    [
        {"hami.io/node-nvidia-register": bad}
        for bad in (
            "[", "[{}]", '[{"id": 7}]', "x,y:", f"{A},ten,1,1,t,0,true:", "[" * 100_000,
            json.dumps([HAMI_GPUS[0], HAMI_GPUS[0]]),
            json.dumps([{**HAMI_GPUS[0], "id": "../etc"}]),
            json.dumps([{**HAMI_GPUS[0], "devmem": -1}]),
            json.dumps([{**HAMI_GPUS[0], "devmem": 10**18}]),
            json.dumps([{**HAMI_GPUS[0], "id": f"GPU-{n}"} for n in range(65)]),
        )
    ] + [
        {"volcano.sh/node-vgpu-register": f"{A},1:"},
        {"ai.centaurus.io/physical-gpu-uuids": f"{A},{B}", "ai.centaurus.io/vitual-gpu-count": "7"},
        {"ai.centaurus.io/physical-gpu-uuids": A, "ai.centaurus.io/vitual-gpu-count": "-7"},
    ] + [
        {"fairlead.dev/inventory": bad}
        for bad in (
            "null", "[]", '{"gpus": [{"index": 0}]}', '{"gpus": NaN}',
            '{"gpus": [], "version": 99}', our_list({}, {"index": 1}),
            our_list({"memoryMib": -1}), our_list({"memoryMib": 1e30}),
            our_list({"memoryMib": "NaN"}),
            our_list({"uuid": "0"}), our_list({"links": ["X", "NV18"]}),
            our_list({"slices": [{"name": "1g.5gb", "size": 9, "starts": [0]}]}),
            our_list({"slices": [{"name": "1g.5gb", "size": 2, "starts": [7]}]}),
            our_list({"slices": [{"name": "1g.5gb", "size": 2, "starts": []}]}),
            our_list({"cut": "free", "slots": 7}), our_list({"cut": "free"}),
            our_list(*({"uuid": f"GPU-{n}"} for n in range(65))),
        )
    ],
)  # fmt: skip
def test_a_malformed_list_leaves_the_node_with_its_count(annotations: Json) -> None:
    node = a_node(annotations, **{GPU: 8})
    assert node.inventory is None
    assert node.gpu_problem
    assert len(node.gpu_problem) < 400
    assert dict(node.allocatable)[GPU] == 8


def test_a_malformed_list_does_not_spoil_another() -> None:
    node = hami_node()
    assert node.inventory is not None
    both = a_node({
        "hami.io/node-nvidia-register": json.dumps(HAMI_GPUS),
        "volcano.sh/node-vgpu-register": "nonsense:",
    })  # fmt: skip
    assert both.inventory == node.inventory
    assert "volcano.sh/node-vgpu-register" in both.gpu_problem


def test_gpushare_counts_in_gib_only() -> None:
    assert "--memory-unit=GiB" in gpushare_node(gib=32768).gpu_problem


# -- assignments ---------------------------------------------------------------------------------


def use(uuid: str, mib: int, milli: int = 0, *, whole: bool = False) -> GpuUse:
    return GpuUse(uuid, whole, milli, mib)


def test_what_the_device_plugin_of_hami_is_told() -> None:
    pod = a_pod({GPU: 1, MEM: 4000, CORES: 30}, {}, {GPU: 2, MEM: 4000, CORES: 30})
    uses = (use(A, 4000, 300), use(B, 4000, 300), use(C, 4000, 300))
    grant = Grant(uses, "hami", ((0,), (), (1, 2)), pending=True)
    devices = f"{A},NVIDIA,4000,30:;;{B},NVIDIA,4000,30:{C},NVIDIA,4000,30:;"
    words = told(pod, grant, hami_node())
    assert words.pop("fairlead.dev/gpus") == f"{A},{B},{C}"
    assert words.pop("fairlead.dev/assignment")
    assert words == {
        "hami.io/vgpu-node": "n1",
        "hami.io/vgpu-time": "1767225600",
        "hami.io/vgpu-devices-to-allocate": devices,
        "hami.io/vgpu-devices-allocated": devices,
        "hami.io/bind-phase": "allocating",
        "hami.io/bind-time": "1767225600",
    }
    assert lock_of(pod, grant, hami_node()) == (
        "hami.io/mutex.lock",
        "2026-01-01T00:00:00Z,ns,p",
    )


def test_whole_gpus_are_told_in_the_words_of_hami_where_it_hands_them_out() -> None:
    pod, node = a_pod({GPU: 1}), hami_node()
    grant = Grant((GpuUse(A, memory_mib=16000),), pending=True)
    words = told(pod, grant, node)
    assert words["hami.io/vgpu-devices-to-allocate"] == f"{A},NVIDIA,16000,100:;"
    assert lock_of(pod, grant, node)
    assert "hami.io/vgpu-node" not in told(pod, grant, our_node())
    assert lock_of(pod, grant, our_node()) is None


@pytest.mark.parametrize(
    ("containers", "annotations", "node", "expected"),
    [
        ([{V + "number": 1, V + "memory": 3000, V + "cores": 20}, {}], {}, volcano_node(), {
            "volcano.sh/vgpu-node": "n1",
            "volcano.sh/vgpu-time": "1767225600",
            "volcano.sh/vgpu-ids-new": f"{A},NVIDIA,3000,20:;",
            "volcano.sh/devices-to-allocate": f"{A},NVIDIA,3000,20:;",
            "volcano.sh/bind-phase": "allocating",
            "volcano.sh/bind-time": "1767225600",
        }),
        ([{"aliyun.com/gpu-mem": 4}], {}, gpushare_node(), {
            "ALIYUN_COM_GPU_MEM_IDX": "0",
            "ALIYUN_COM_GPU_MEM_POD": "4",
            "ALIYUN_COM_GPU_MEM_DEV": "16",
            "ALIYUN_COM_GPU_MEM_ASSIGNED": "false",
            "ALIYUN_COM_GPU_MEM_ASSUME_TIME": "1767225600000000123",
        }),
        ([{"alnair/vgpu-memory": 6}], {}, alnair_node(), {
            "ai.centaurus.io/scheduler-timestamp": "1767225600000000123",
        }),
        ([{"name": "m"}], {"gpu-fraction": "0.5", "gpu-fraction-num-devices": "2"},
         fractions_node(), {"nvidia.com/container.m.gpus.devices": "0,1"}),
        ([{"name": "a"}, {"name": "b"}], {"nvidia.com/container.b.gpu-memory.request": "8Gi"},
         our_node() , {"nvidia.com/container.b.gpus.devices": A}),
    ],
)  # fmt: skip
def test_what_the_other_device_plugins_are_told(
    containers: list[Json], annotations: Json, node: Node, expected: dict[str, str]
) -> None:
    pod = a_pod(*containers, annotations=annotations)
    words = told(pod, chosen(pod.request.gpu_request, node), node)
    assert {key: words[key] for key in words if not key.startswith("fairlead.dev/")} == expected


def test_gpus_known_by_number_are_the_first_that_the_container_sees() -> None:
    """The plugin shows the container GPU 1 alone: there it is number 0."""
    share = a_pod({"aliyun.com/gpu-mem": 4})
    one = Grant((GpuUse("1", False, 0, 4096),), "gpushare")
    assert told(share, one, gpushare_node())["fairlead.dev/gpus"] == "0"

    fraction = a_pod(annotations={"gpu-fraction": "0.5", "gpu-fraction-num-devices": "2"})
    two = Grant((GpuUse("2", False, 500), GpuUse("3", False, 500)), "kai", ((0, 1),))
    assert told(fraction, two, fractions_node())["fairlead.dev/gpus"] == "0,1"


def test_the_container_runtime_is_told_of_parts_of_kai_unless_nvfractions_shows_them() -> None:
    fraction = a_pod(annotations={"gpu-fraction": "0.5", "gpu-fraction-num-devices": "2"})
    two = Grant((GpuUse(A, False, 500), GpuUse(B, False, 500)), "kai", ((0, 1),))
    assert told(fraction, two, our_node())["fairlead.dev/runtime-gpus"] == f"{A},{B}"
    numbered = Grant((GpuUse("2", False, 500), GpuUse("3", False, 500)), "kai", ((0, 1),))
    assert "fairlead.dev/runtime-gpus" not in told(fraction, numbered, fractions_node())


H200_CUTS = [
    {"name": "1g.18gb", "size": 1, "starts": [0, 1, 2, 3, 4, 5, 6]},
    {"name": "3g.71gb", "size": 4, "starts": [0, 4]},
]


def cut_node(**more: Any) -> Node:
    listed = our_list({"slices": H200_CUTS, "cut": "free", "slots": 8, **more})
    return a_node({"fairlead.dev/inventory": listed})


@pytest.mark.parametrize(
    ("profile", "count", "names"),
    [("1g.18gb", "2", ["7", "8"]), ("3g.71gb", "1", ["2"]), ("3g.71gb", "2", ["2", "1"])],
)
def test_a_slice_has_a_name_before_it_exists(profile: str, count: str, names: list[str]) -> None:
    """GPU instances as an H200 numbers them, by their place."""
    said = {"fairlead.dev/gpu-slice": profile, "fairlead.dev/gpu-count": count}
    pod, node = a_pod({}, annotations=said), cut_node()
    words = told(pod, chosen(pod.request.gpu_request, node), node)
    uuid = node.inventory.gpus[0].uuid if node.inventory else ""
    assert words["fairlead.dev/gpus"] == ",".join(f"MIG-{uuid}/{name}/0" for name in names)
    assert '"p":' in words["fairlead.dev/assignment"]


def test_where_the_cut_is_fixed_nothing_is_named() -> None:
    node = cut_node(cut="")
    pod = a_pod({"nvidia.com/mig-1g.18gb": 1})
    words = told(pod, chosen(pod.request.gpu_request, node), node)
    assert node.inventory
    assert words["fairlead.dev/gpus"] == node.inventory.gpus[0].uuid


def chosen(ask: GpuRequest | None, node: Node) -> Grant:
    devices = Devices(1)
    devices.put(0, node.inventory)
    assert ask is not None
    grant = choose(ask, devices, 0, GpuPolicy.PACK)
    assert grant is not None
    return grant


#: A pod of each dialect, with its amounts drawn; and a node that serves it.
count, gib, percent = st.integers(1, 2), st.integers(1, 8), st.integers(1, 99)
SCENES = st.one_of(
    st.tuples(
        st.builds(lambda n, g, c: ({GPU: n, MEM: g * 999, CORES: c},), count, gib, percent),
        st.just({}), st.just(hami_node())),
    st.tuples(
        st.builds(lambda g, i: ({"kind": "init", GPU: i, MEM: g}, {GPU: 1, MEM: g}), gib, count),
        st.just({}), st.just(hami_node())),
    st.tuples(st.builds(lambda n: ({GPU: n},), count), st.just({}), st.just(hami_node())),
    st.tuples(
        st.builds(lambda n, p: ({}, {V + "number": n, V + "memory-percentage": p}), count, percent),
        st.just({}), st.just(volcano_node())),
    st.tuples(st.builds(lambda g: ({"aliyun.com/gpu-mem": g},), gib), st.just({}),
              st.just(gpushare_node())),
    st.tuples(
        st.builds(lambda g, p: ({"alnair/vgpu-memory": g, "alnair/vgpu-compute": p},),
                  gib, percent),
        st.just({}), st.just(alnair_node())),
    st.tuples(
        st.just(({},)),
        st.builds(lambda p, n: {"gpu-fraction": f"{p / 100}", "gpu-fraction-num-devices": str(n)},
                  percent, count),
        st.sampled_from([fractions_node(), our_node()])),
    st.tuples(
        st.just(({"name": "a"}, {"name": "b"})),
        st.builds(lambda g: {"nvidia.com/container.b.gpu-memory.request": f"{g}Gi"}, gib),
        st.just(fractions_node())),
    st.tuples(
        st.just(({},)), st.builds(lambda p: {"fairlead.dev/gpu-share": f"{p / 100}"}, percent),
        st.just(our_node())),
    st.tuples(
        st.just(({},)),
        st.builds(lambda n, p: {"fairlead.dev/gpu-slice": p, "fairlead.dev/gpu-count": str(n)},
                  count, st.sampled_from(["1g.18gb", "3g.71gb"])),
        st.just(cut_node())),
)  # fmt: skip


@given(SCENES)
@examples(200)
def test_what_was_told_is_read_back(scene: tuple[Any, Json, Node]) -> None:
    containers, said, node = scene
    pod = a_pod(*containers, annotations=said)
    grant = chosen(pod.request.gpu_request, node)
    words = told(pod, grant, node)
    bound = pod_json(*containers, annotations={**said, **words}, node="n1")
    assert decode_pod(json.dumps(bound).encode()).grant == grant
    # Somebody who writes no annotations of ours is understood as well.
    theirs = {key: words[key] for key in words if not key.startswith("fairlead.dev/")}
    if not theirs or grant.dialect == "alnair":  # which says nothing until the plugin has chosen
        return
    bound["metadata"]["annotations"] = {**said, **theirs}
    read = decode_pod(json.dumps(bound).encode()).grant
    assert read is not None
    assert [u.uuid for u in read.uses] == [u.uuid for u in grant.uses]
    assert read.pending == grant.pending
    if "gpu-fraction" not in said:
        assert replace(read, dialect=grant.dialect) == grant


# -- bound pods ----------------------------------------------------------------------------------


def grant_of(*containers: Json, **more: Any) -> Grant | None:
    return a_pod(*containers, node="n1", **more).grant


def test_a_pod_that_asks_for_nothing_has_nothing_whatever_is_written_on_it() -> None:
    forged = {
        "fairlead.dev/assignment": json.dumps({"devices": [{"u": A}]}),
        "hami.io/vgpu-devices-allocated": f"{A},NVIDIA,16000,100:;",
        "ALIYUN_COM_GPU_MEM_IDX": "0", "ALIYUN_COM_GPU_MEM_POD": "4",
        "ai.centaurus.io/alnair-gpu-id": f"{A}_0",
        "run.ai/reserve_for_gpu_index": A,
    }  # fmt: skip
    assert grant_of({"cpu": 1}, annotations=forged) is None


@pytest.mark.parametrize(
    "assignment",
    [
        '{"devices":[]}', '{"devices":[{"u":"GPU-aaaa","m":-5}]}', "[]", "{", "null",
        '{"devices":[{"u":"GPU-aaaa","mib":99999999999999999999}]}',
        '{"devices":[{"u":"GPU-aaaa","mib":-1,"w":false}]}',
        '{"devices":[{"u":"GPU-aaaa","n":8,"s":3}]}',
        json.dumps({"devices": [{"u": A}] * 65}),
    ],
)  # fmt: skip
def test_a_forged_assignment_frees_nothing(assignment: str) -> None:
    """Two GPUs were asked for, so two GPUs are held, wherever they are."""
    pod = a_pod({GPU: 2}, annotations={"fairlead.dev/assignment": assignment}, node="n1")
    held = Holding.of(pod, "n1", assumed=False).grant
    assert held is not None
    assert [gpu.uuid for gpu in held.uses] == ["", ""]


def test_who_says_less_than_the_spec_is_not_believed() -> None:
    less = {"fairlead.dev/assignment": json.dumps({"devices": [{"u": A}]})}
    assert grant_of({GPU: 2}, annotations=less) == Grant((GpuUse(A), GpuUse("")))
    small = {"hami.io/vgpu-devices-allocated": f"{A},NVIDIA,1,0:;"}
    assert grant_of({GPU: 1, MEM: 4000, CORES: 30}, annotations=small) == Grant(
        (use(A, 4000, 300),), "hami"
    )


@pytest.mark.parametrize(
    "words",
    [
        {"hami.io/vgpu-devices-allocated": text}
        for text in ("all;", f"{A},NVIDIA,x,0:;", f"{A},MLU,1,1:;", "../../x,NVIDIA,1,1:;",
                     f"{A},NVIDIA,1,1000:;", f"{A},NVIDIA,-1,0:;", ";", "")
    ],
)  # fmt: skip
def test_a_part_of_nobody_knows_which_gpu_is_one_that_nobody_else_gets(words: Json) -> None:
    grant = grant_of({GPU: 1, MEM: 4000}, annotations=words)
    assert grant == Grant((use("", 4000),), "hami", source=GrantSource.ASKED)


def test_more_gpus_than_any_node_has_are_not_counted_one_by_one() -> None:
    for asked in ({GPU: 10**15}, {GPU: 10**15, MEM: 1}, {V + "number": 10**15}):
        pending = a_pod(asked, {})
        assert not pending.problem, "it waits for a node with so many, in the usual words"
        assert pending.request.gpu_request is not None
        assert pending.request.amount(next(iter(asked))) == 10**15
        held = Holding.of(a_pod(asked, {}, node="n1"), "n1", assumed=False).grant
        assert held is not None
        assert len(held.uses) == 64
    # A node may claim to have as many plain ones, so a pod may get them.
    assumed = Holding.of(a_pod({GPU: 10**15}, {}), "n1", assumed=True).grant
    assert assumed is not None
    assert len(assumed.uses) == 64


def test_alnair_says_itself_what_it_took() -> None:
    foreseen = {"devices": [{"u": A, "mib": 2048, "m": 500, "w": False}], "dialect": "alnair"}
    ours = {"fairlead.dev/assignment": json.dumps(foreseen)}
    asked = {"alnair/vgpu-memory": 2, "alnair/vgpu-compute": 50}
    time = {"ai.centaurus.io/scheduler-timestamp": "1"}
    before = grant_of(asked, annotations={**ours, **time})
    assert before is not None
    assert (before.uses[0].uuid, before.pending) == (A, True)
    took = {"ai.centaurus.io/alnair-gpu-id": f"{B}_3,{B}_4"}
    after = grant_of(asked, annotations={**ours, **time, **took})
    assert after == Grant((use(B, 2048, 500),), "alnair")


@pytest.mark.parametrize(
    ("asked", "waits", "done"),
    [
        ({GPU: 1, MEM: 9}, {"hami.io/bind-phase": "allocating"}, {"hami.io/bind-phase": "success"}),
        ({GPU: 1, MEM: 9}, {"hami.io/bind-phase": "allocating"}, {"hami.io/bind-phase": "failed"}),
        ({V + "number": 1}, {"volcano.sh/bind-phase": "allocating"},
         {"volcano.sh/bind-phase": "success"}),
        ({"aliyun.com/gpu-mem": 4}, {"ALIYUN_COM_GPU_MEM_ASSIGNED": "false"},
         {"ALIYUN_COM_GPU_MEM_ASSIGNED": "true"}),
        ({"alnair/vgpu-memory": 4}, {"ai.centaurus.io/scheduler-timestamp": "1"},
         {"ai.centaurus.io/alnair-gpu-id": f"{A}_1"}),
    ],
)  # fmt: skip
def test_a_device_plugin_is_busy_until_it_says_otherwise(
    asked: Json, waits: Json, done: Json
) -> None:
    def pending(**more: Any) -> bool:
        grant = grant_of(asked, **more)
        assert grant is not None
        return grant.pending

    assert pending(annotations=waits)
    assert not pending(annotations={**waits, **done})
    # A kubelet that has started the pod has asked the device plugin before.
    assert not pending(annotations=waits, startTime="2026-01-01T00:00:00Z")


def test_a_kai_beside_us_is_counted_once() -> None:
    reserved = {"run.ai/reserve_for_gpu_index": A}
    reservation = grant_of({GPU: 1}, annotations=reserved, labels={"runai-gpu-group": "g"})
    assert reservation == Grant((GpuUse(A),), "kai")
    sharer = {"gpu-fraction": "0.5"}
    assert grant_of({}, annotations=sharer, labels={"runai-gpu-group": "g"}) == Grant((), "kai")
    assert grant_of({}, annotations=sharer, labels={"runai-gpu-group/g": "g"}) == Grant((), "kai")


def test_what_another_scheduler_understood_need_not_please_us() -> None:
    """Two amounts in one pod are refused when it is ours to place, and counted when it is not."""
    containers = ({GPU: 1, MEM: 1000}, {GPU: 1, MEM: 2000})
    assert "different amounts" in problem_of(*containers)
    words = {"hami.io/vgpu-devices-allocated": f"{A},NVIDIA,1000,0:;{A},NVIDIA,2000,0:;"}
    pod = a_pod(*containers, annotations=words, node="n1")
    assert not pod.problem
    assert pod.grant is not None
    assert [u.uuid for u in pod.grant.uses] == [A, A]


# -- anything at all -----------------------------------------------------------------------------

#: Words that mean something, among others that do not.
PIECES = st.sampled_from(
    [A, B, "NVIDIA", "true", "null", "allocating", "0", "1", "16000", "-1", "1e9", "9" * 40,
     "_3", ",", ":", ";", "[", "{", "}", "]", '"u"', '"devices"', "\u202e", "é", " ", "%s"]
)  # fmt: skip
TEXTS = st.lists(PIECES, max_size=12).map("".join)
POD_KEYS = (
    "fairlead.dev/assignment", "fairlead.dev/gpu-share", "hami.io/vgpu-devices-allocated",
    "hami.io/bind-phase", "volcano.sh/vgpu-ids-new", "ALIYUN_COM_GPU_MEM_IDX",
    "ALIYUN_COM_GPU_MEM_POD", "ai.centaurus.io/alnair-gpu-id", "run.ai/reserve_for_gpu_index",
    "gpu-fraction", "gpu-memory", "nvidia.com/use-gputype", "nvidia.com/container.c0.gpus.devices",
    "nvidia.com/container.c0.gpu-memory.limit",
)  # fmt: skip
NODE_KEYS = (
    "fairlead.dev/inventory", "hami.io/node-nvidia-register", "hami.io/node-handshake",
    "volcano.sh/node-vgpu-register", "ai.centaurus.io/physical-gpu-uuids",
    "ai.centaurus.io/vitual-gpu-count",
)  # fmt: skip
RESOURCES = (
    GPU, MEM, CORES, V + "number", V + "memory", "aliyun.com/gpu-mem", "aliyun.com/gpu-count",
    "alnair/vgpu-memory", "alnair/vgpu-compute",
)  # fmt: skip
AMOUNTS = st.dictionaries(st.sampled_from(RESOURCES), st.integers(0, 2**63 - 1), max_size=3)


@given(
    st.dictionaries(st.sampled_from(POD_KEYS), TEXTS, max_size=4),
    st.dictionaries(st.sampled_from(NODE_KEYS), TEXTS, max_size=3),
    AMOUNTS,
    AMOUNTS,
)
@examples(400)
def test_whatever_is_written_is_taken_calmly(
    said: Json, listed: Json, asked: Json, offered: Json
) -> None:
    node = a_node(listed, **offered)
    devices = Devices(1)
    devices.put(0, node.inventory)
    bound = a_pod(asked, annotations=said, node="n1")
    assert not bound.problem
    before = devices.memory_free.copy(), devices.milli_free.copy(), devices.users.copy()
    held = Holding.of(bound, "n1", assumed=False).grant
    if held is not None:
        devices.occupy(0, pod_holder("uid"), held)
        assert all(0 <= u.milli <= 1000 and u.memory_mib >= 0 for u in held.uses)
        devices.release(0, pod_holder("uid"))
    after = devices.memory_free, devices.milli_free, devices.users
    assert all((one == other).all() for one, other in zip(before, after, strict=True))
    pending = a_pod(asked, annotations=said)
    ask = pending.request.gpu_request
    if (
        ask is not None
        and node.inventory is not None
        and GpuRows(devices, slice(0, 1)).enough(ask)[0]
    ):
        grant = choose(ask, devices, 0, GpuPolicy.PACK)
        assert grant is not None
        told(pending, grant, node)


@pytest.mark.parametrize(
    "asked",
    [
        {GPU: 1, MEM: 2**63 - 1}, {V + "number": 1, V + "memory": 2**63 - 1},
        {"aliyun.com/gpu-mem": 2**63 - 1}, {"alnair/vgpu-memory": 2**63 - 1},
    ],
)  # fmt: skip
def test_memory_beyond_every_gpu_is_refused_like_any_other(asked: Json) -> None:
    ask = ask_of(asked)
    assert ask is not None
    for node in (hami_node(), volcano_node(), gpushare_node(), alnair_node()):
        devices = Devices(1)
        devices.put(0, node.inventory)
        assert not GpuRows(devices, slice(0, 1)).enough(ask)[0]


@pytest.mark.parametrize("depth", ["[" * 100_000, '{"devices":[{"x":' + "[" * 100_000])
def test_deep_nesting_is_taken_calmly(depth: str) -> None:
    assert grant_of({GPU: 1}, annotations={"fairlead.dev/assignment": depth}) is None
    node = a_node({"fairlead.dev/inventory": depth, "hami.io/node-nvidia-register": depth})
    assert node.gpu_problem


def test_a_list_of_an_agent_of_another_version_says_what_to_do() -> None:
    earlier = {"version": 1, "cards": [{"uuid": A, "index": 0}]}
    node = a_node({"fairlead.dev/inventory": json.dumps(earlier)})
    assert "has version 1 and this Fairlead reads 2; install the same version" in node.gpu_problem


def a_plugins_list() -> dict[str, str]:
    """What our agent writes where a device plugin hands out whole GPUs."""
    listed = json.loads(our_list({}, {"uuid": B, "index": 1}))
    return {"fairlead.dev/inventory": json.dumps({**listed, "plugin": True})}


def test_where_a_device_plugin_picks_the_gpus_they_are_counted_and_not_named() -> None:
    node = a_node(a_plugins_list())
    devices = Devices(1)
    devices.put(0, node.inventory)
    grant = choose(GpuRequest(2), devices, 0, GpuPolicy.PACK)

    assert node.inventory is not None
    assert [gpu.model for gpu in node.inventory.gpus] == ["H100", "H100"]
    assert grant == Grant((GpuUse(""), GpuUse("")))
    assert told(a_pod({GPU: 2}), grant, node)["fairlead.dev/gpus"] == "0,1"
    assert choose(parts("fairlead", milli=500), devices, 0, GpuPolicy.PACK) is None


def test_unless_that_plugin_is_told_which_ones() -> None:
    """HAMi's takes the GPUs that the decision names."""
    hami = json.dumps(HAMI_GPUS)
    node = a_node({**a_plugins_list(), "hami.io/node-nvidia-register": hami})

    assert node.inventory is not None
    assert node.inventory.named
    assert "hami" in node.inventory.dialects
