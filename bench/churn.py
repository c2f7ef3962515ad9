"""Nodes and pods that come and go, none like another: does memory stay flat?

    python bench/churn.py                              10,000 nodes and 100,000 pods, some minutes
    python bench/churn.py --nodes 1000 --pods 10000    a short look
    python bench/churn.py --plain-nodes 5000           what a plain cluster takes, and nothing else

Every object goes through the codec and the mirror into an engine, in this process, and has names,
labels, resources, selectors, requests, a namespace, a UID and words about GPUs of its own. With
each node come a ResourceSlice, a claim, a volume, a gang, a queue and an object of most other kinds
that are watched. `--live` nodes and ten times as many pods are there at a time. Prints the resident
size as it goes, and how much of it caches with a bound take by their own estimate, then a picture
of it. Garbage is collected as `fairlead run` does while it is busy: what stays is looked through
once. The size is flat if a line through the second half rises by less than 2 % of it. Every pod
must be bound.
"""

import argparse
import gc
import json
import sys
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests")]  # the story is the tests' own

from churn_objects import a_node, a_pod  # noqa: E402
from churn_story import Ground, Story  # noqa: E402
from fairlead.apps.collection import GarbageCollection, spare_the_collector  # noqa: E402
from fairlead.cluster.pod_index import PodIndex  # noqa: E402
from fairlead.model.sizes import Kept  # noqa: E402
from fairlead.placement.views import Views  # noqa: E402

MIB = 1 << 20
#: After the last pods have come, until those that were refused at first are tried again.
_LAST_S = 3
SAMPLES = 60
PODS_A_NODE = 10
FLAT = 0.02


def main() -> None:
    options = _options()
    gc.collect()
    spare_the_collector()  # as `fairlead run` does
    print(f"at the start {resident_mib():.0f} MiB")
    if options.plain_nodes:
        plain(options.plain_nodes)
        return
    story, sizes, kept = churn(options.nodes, options.pods, min(options.live, options.nodes))
    rise = slope(sizes)
    unbound = story.come["pods"] - story.ground.bound
    print(picture(sizes))
    flat = rise < FLAT
    verdict = "flat" if flat else "NOT FLAT"
    print(f"second half: {sizes[-1]:.0f} MiB at the end, rises by {100 * rise:.1f} %: {verdict}")
    print(f"pods without a node: {unbound}")
    if options.out:
        told = {"nodes": options.nodes, "pods": options.pods, "live": options.live}
        result = {
            **told,
            "unbound": unbound,
            "resident_mib": [round(size, 1) for size in sizes],
            "cached_mib": [round(size, 1) for size in kept],
            "rise": round(rise, 4),
        }
        options.out.write_text(json.dumps(result) + "\n")
    sys.exit(0 if flat and not unbound else 1)


def churn(nodes: int, pods: int, live: int) -> tuple[Story, list[float], list[float]]:
    """The resident size over time, and what caches take of it, in MiB."""
    story = Story(Ground(), live, live * PODS_A_NODE)
    sizes: list[float] = []
    kept: list[float] = []
    began_s, collection = time.monotonic(), GarbageCollection(lambda: True, lambda: False)
    for number in range(nodes):
        story.step(pods * (number + 1) // nodes - pods * number // nodes)
        collection.look(time.monotonic(), time.process_time())
        if (number + 1) * SAMPLES // nodes > len(sizes):
            sizes.append(resident_mib())
            kept.append(cached_mib())
            come, passed_s = story.come, time.monotonic() - began_s
            left_s = passed_s * (nodes - number - 1) / (number + 1)
            print(
                f"{come['nodes']:6} nodes  {come['pods']:7} pods  {story.ground.bound:7} bound  "
                f"{sizes[-1]:7.0f} MiB  {kept[-1]:5.0f} in caches  {left_s:5.0f} s left",
                flush=True,
            )
    for _ in range(_LAST_S):
        story.ground.decide()
    return story, sizes, kept


def plain(nodes: int) -> None:
    """Nodes of one kind, and ten pods of one kind on each."""
    ground = Ground()
    story = Story(ground, nodes, nodes * PODS_A_NODE)
    for number in range(nodes):
        _, node = a_node(0)
        node["metadata"] |= {"name": f"node-{number}", "uid": f"uid-{number}", "annotations": {}}
        story._comes("nodes", node)
    for number in range(nodes * PODS_A_NODE):
        _, pod = a_pod(0, 0, "default")
        pod["metadata"] |= {"name": f"pod-{number}", "uid": f"uid-p-{number}", "annotations": {}}
        story._comes("pods", pod)
    ground.decide()
    gc.collect()
    print(f"{nodes} nodes, {ground.bound} pods bound: {resident_mib():.0f} MiB")


def slope(sizes: list[float]) -> float:
    """How much a straight line through the second half rises, as a share of its level."""
    half = np.array(sizes[len(sizes) // 2 :])
    rise, _ = np.polyfit(np.arange(len(half)), half, 1)
    return float(rise * (len(half) - 1) / half.mean())


def picture(sizes: list[float], height: int = 10) -> str:
    top = max(sizes) * 1.1
    rows = []
    for level in range(height, 0, -1):
        line = "".join("█" if size >= top * (level - 0.5) / height else " " for size in sizes)
        rows.append(f"{top * level / height:7.0f} ┤{line}")
    return "\n".join([*rows, "    MiB └" + "─" * len(sizes)])


def resident_mib() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / MIB


def cached_mib() -> float:
    """What caches with a bound in bytes take, as they estimate it themselves."""
    found = 0
    gc.unfreeze()  # else they are not listed
    listed = gc.get_objects()
    gc.freeze()
    for each in listed:
        if isinstance(each, Kept | Views):
            found += each.bytes
        elif isinstance(each, PodIndex):
            found += each._count_bytes
    return found / MIB


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nodes", type=int, default=10_000, help="nodes that come in all")
    parser.add_argument("--pods", type=int, default=100_000, help="pods that come in all")
    parser.add_argument("--live", type=int, default=500, help="nodes that are there at a time")
    parser.add_argument("--plain-nodes", type=int, default=0, help="a plain cluster instead")
    parser.add_argument("--out", type=Path, help="write the sizes there, as JSON")
    return parser.parse_args()


if __name__ == "__main__":
    main()
