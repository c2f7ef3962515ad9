"""Start Fairlead on a cluster that is already full of pods: how long until it binds the next one?

python bench/restart.py [--nodes 5000] [--pods 50000]
"""

import argparse
import asyncio
import json
import tempfile
import time
from pathlib import Path

from fairlead.kube.http.client import Client
from fairlead.sim.controlplane import ChildProcess, ControlPlane
from ground import FAIRLEAD, ROOT, assets, bind_times, for_all, say, settle


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=50_000)
    parser.add_argument("--out", type=Path, default=ROOT / "bench" / "results" / "restart.json")
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="fairlead-bench-") as folder,
        ControlPlane.start(assets(), Path(folder)) as plane,
    ):
        report = _measure(plane, options)
    print("  ".join(f"{key}={value}" for key, value in report.items()))
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(report, indent=1) + "\n")


def _measure(plane: ControlPlane, options: argparse.Namespace) -> dict[str, float]:
    say(f"creating {options.nodes} nodes and {options.pods} bound pods")
    names = plane.create_nodes(options.nodes, allocatable={"nvidia.com/gpu": "16"})
    admin = str(plane.kubeconfig_for())
    asyncio.run(_create(admin, options.pods, names))
    settle(plane.process("kube-apiserver"))
    with bind_times(admin) as times:
        asyncio.run(_create(admin, 1, []))
        started = time.monotonic()
        command = [
            FAIRLEAD, "run", "--port", "0",
            "--kubeconfig", str(plane.kubeconfig_for("system:kube-scheduler")),
        ]  # fmt: skip
        with ChildProcess("fairlead", command, plane.logs / "fairlead.log") as process:
            while not times and process.alive and time.monotonic() - started < 120:
                time.sleep(0.01)
            return {
                "nodes": options.nodes,
                "pods": options.pods,
                "first_bind_s": round(times[0] - started, 2),
                "cpu_s": round(process.cpu_seconds(), 2),
                "peak_rss_mib": round(process.peak_rss_bytes() / 2**20, 1),
            }


async def _create(kubeconfig: str, pods: int, nodes: list[str]) -> None:
    """Pods on the nodes in turn, or pending ones if there are no nodes to put them on."""

    async def create(client: Client, number: int) -> None:
        body = {
            "metadata": {"name": f"{'old' if nodes else 'new'}-{number:06d}"},
            "spec": {
                "schedulerName": "gpu-scheduler",
                "nodeName": nodes[number % len(nodes)] if nodes else "",
                "containers": [
                    {
                        "name": "main",
                        "image": "bench",
                        "resources": {"limits": {"nvidia.com/gpu": "1"}},
                    }
                ],
            },
        }
        path = "/api/v1/namespaces/default/pods"
        reply = await client.request("POST", path, body=json.dumps(body).encode())
        assert reply.status == 201, reply.message

    await for_all(kubeconfig, create, pods)


if __name__ == "__main__":
    main()
