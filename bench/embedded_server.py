"""How fast and how large the embedded API server is.

    .venv/bin/python bench/embedded_server.py [--nodes 1000] [--pods 10000] [--connections 8]

Starts the server in a process of its own, fills it with nodes and pods, binds every pod through
`pods/binding` while one watch follows, and prints rates, the server's CPU per request and its
memory. The client is another process on the same machine: with few cores the two compete.
"""

# ruff: noqa: E501
import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import aiohttp
import msgspec
import yaml

encode = msgspec.json.encode
NAMESPACE = "/api/v1/namespaces/default"


def main() -> None:
    options = _parse()
    with tempfile.TemporaryDirectory() as folder:
        kubeconfig = Path(folder) / "kubeconfig"
        command = [
            sys.executable,
            "-m",
            "fairlead.sim.apiserver",
            "--kubeconfig-out",
            str(kubeconfig),
        ]
        started = time.monotonic()
        server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            assert server.stdout is not None
            server.stdout.readline()
            print(f"server ready after {time.monotonic() - started:.2f} s")
            document = yaml.safe_load(kubeconfig.read_text())
            _run()(measure(options, document, server.pid))
        finally:
            server.terminate()
            server.wait(10)
    print(
        f"repeat with: .venv/bin/python bench/embedded_server.py {' '.join(sys.argv[1:])}".rstrip()
    )


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--pods", type=int, default=10000)
    parser.add_argument("--connections", type=int, default=8)
    return parser.parse_args()


def _run():
    try:
        import uvloop
    except ImportError:
        return asyncio.run
    return uvloop.run


async def measure(options: argparse.Namespace, document: dict, pid: int) -> None:
    client = Client(document, options.connections)
    await client.connect()
    await stage("create nodes", pid, options.nodes, client, nodes(options.nodes))
    await stage("create pods", pid, options.pods, client, pods(options.pods))
    await lists(pid, client)
    watch = asyncio.create_task(follow(document, options.pods))
    await asyncio.sleep(0.5)
    await stage(
        "bind pods, one watch", pid, options.pods, client, binds(options.pods, options.nodes)
    )
    last = await watch
    print(f"  the watch saw all {options.pods} binds, {last * 1e3:.0f} ms after the last reply")
    await stage("patch status", pid, options.pods, client, statuses(options.pods))
    await stage("create events", pid, options.pods, client, events(options.pods))
    print(
        f"server memory: {_memory_mib(pid):.0f} MiB resident, {_memory_mib(pid, 'VmHWM'):.0f} MiB at most"
    )
    client.close()


async def stage(name: str, pid: int, count: int, client: "Client", requests) -> None:
    cpu, begun = _cpu_s(pid), time.monotonic()
    own = time.process_time()
    await client.run(requests)
    global FINISHED
    FINISHED = time.monotonic()
    wall = FINISHED - begun
    used = _cpu_s(pid) - cpu
    print(
        f"{name:22} {count:6} in {wall:6.2f} s = {count / wall:7.0f}/s;"
        f" server CPU {used / count * 1e6:4.0f} us each, client {(time.process_time() - own) / count * 1e6:4.0f} us each"
    )


FINISHED = 0.0


async def lists(pid: int, client: "Client") -> None:
    for path in (
        "/api/v1/pods",
        "/api/v1/pods?limit=500",
        f"{NAMESPACE}/pods?labelSelector=app%3Dbench",
    ):
        begun = time.monotonic()
        size = await client.get(path)
        print(f"list {path:45} {(time.monotonic() - begun) * 1e3:6.0f} ms, {size / 1e6:.1f} MB")


async def follow(document: dict, wanted: int) -> float:
    """Watches pods until all are bound; seconds after the last bind was answered."""
    cluster, token = document["clusters"][0]["cluster"], document["users"][0]["user"]["token"]
    seen = 0
    async with aiohttp.ClientSession(
        headers={"Authorization": f"Bearer {token}"}, read_bufsize=2**22
    ) as session:
        url = f"{cluster['server']}/api/v1/pods?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
        async with session.get(
            url, ssl=_trust(document), timeout=aiohttp.ClientTimeout(total=None)
        ) as answer:
            async for line in answer.content:
                seen += line.startswith(b'{"type":"MODIFIED"') and b'"nodeName":' in line
                if seen >= wanted:
                    break
    return max(time.monotonic() - FINISHED, 0.0) if FINISHED else 0.0


def nodes(count: int):
    for number in range(count):
        capacity = {"cpu": "192", "memory": "2113Gi", "pods": "110", "nvidia.com/gpu": "8"}
        status = {
            "capacity": capacity,
            "allocatable": capacity,
            "conditions": [{"type": "Ready", "status": "True"}],
        }
        yield (
            "/api/v1/nodes",
            {"metadata": {"name": f"node-{number}", "labels": _labels(number)}, "status": status},
        )


def _labels(number: int) -> dict[str, str]:
    zone = f"zone-{number % 3}"
    return {"kubernetes.io/hostname": f"node-{number}", "topology.kubernetes.io/zone": zone}


def pods(count: int):
    limits = {"nvidia.com/gpu": "1", "cpu": "8", "memory": "64Gi"}
    for number in range(count):
        container = {
            "name": "main",
            "image": "example.com/train:1",
            "resources": {"limits": limits},
        }
        metadata = {"name": f"pod-{number}", "labels": {"app": "bench", "index": str(number)}}
        yield (
            f"{NAMESPACE}/pods",
            {
                "metadata": metadata,
                "spec": {"schedulerName": "fairlead", "containers": [container]},
            },
        )


def binds(count: int, nodes: int):
    for number in range(count):
        annotations = {
            "fairlead.dev/gpus": f"GPU-{number:032d}",
            "fairlead.dev/assignment": '{"d":[0],"c":1000}',
        }
        metadata = {"name": f"pod-{number}", "annotations": annotations}
        target = {"apiVersion": "v1", "kind": "Node", "name": f"node-{number % nodes}"}
        yield f"{NAMESPACE}/pods/pod-{number}/binding", {"metadata": metadata, "target": target}


def statuses(count: int):
    for number in range(count):
        ready = {"type": "Ready", "status": "True"}
        status = {"phase": "Running", "conditions": [ready], "startTime": "2026-01-01T00:00:00Z"}
        yield f"PATCH {NAMESPACE}/pods/pod-{number}/status", {"status": status}


def events(count: int):
    for number in range(count):
        about = {"kind": "Pod", "namespace": "default", "name": f"pod-{number}"}
        body = {"metadata": {"name": f"pod-{number}.1"}, "reason": "Scheduled", "type": "Normal"}
        yield (
            f"{NAMESPACE}/events",
            {**body, "message": "Successfully assigned", "involvedObject": about},
        )


class Client:
    """A lean HTTP/1.1 client: a few kept-alive connections, one request at a time on each."""

    def __init__(self, document: dict, connections: int) -> None:
        server = document["clusters"][0]["cluster"]["server"]
        self._host, _, port = server.removeprefix("https://").rpartition(":")
        self._port, self._document, self._count = int(port), document, connections
        self._head = f"Host: {self._host}\r\nAuthorization: Bearer {document['users'][0]['user']['token']}\r\n"
        self._streams: list = []

    async def connect(self) -> None:
        context = _trust(self._document)
        for _ in range(self._count):
            self._streams.append(
                await asyncio.open_connection(
                    self._host, self._port, ssl=context, server_hostname=self._host, limit=2**26
                )
            )

    async def run(self, requests) -> None:
        source = iter(requests)
        await asyncio.gather(*(self._drain(source, *stream) for stream in self._streams))

    async def _drain(self, source, reader, writer) -> None:
        for path, body in source:
            status, _ = await self._exchange(reader, writer, path, encode(body))
            assert status in (200, 201), (status, path)

    async def get(self, path: str) -> int:
        status, body = await self._exchange(*self._streams[0], f"GET {path}", b"")
        assert status == 200
        return len(body)

    async def _exchange(self, reader, writer, path: str, body: bytes):
        method, _, path = path.rpartition(" ")
        kind = "application/strategic-merge-patch+json" if method == "PATCH" else "application/json"
        head = f"{method or 'POST'} {path} HTTP/1.1\r\n{self._head}Content-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        answer = await reader.readuntil(b"\r\n\r\n")
        lower = answer.lower()
        at = lower.index(b"content-length: ") + 16
        return int(answer[9:12]), await reader.readexactly(int(lower[at : lower.index(b"\r", at)]))

    def close(self) -> None:
        for _, writer in self._streams:
            writer.close()


def _trust(document: dict):
    import base64
    import ssl

    data = document["clusters"][0]["cluster"]["certificate-authority-data"]
    return ssl.create_default_context(cadata=base64.b64decode(data).decode())


def _cpu_s(pid: int) -> float:
    parts = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(parts[11]) + int(parts[12])) / os.sysconf("SC_CLK_TCK")


def _memory_mib(pid: int, name: str = "VmRSS") -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(name))


if __name__ == "__main__":
    main()
