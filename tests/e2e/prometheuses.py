"""A real Prometheus server on the loopback address."""

import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml

from exporters import Exporter
from fairlead.sim.controlplane import Process
from fairleads import eventually


@contextmanager
def scraping(program: Path, exporter: Exporter, folder: Path) -> Iterator[str]:
    """Its address, once it has scraped the exporter; it does so every second."""
    job = {"job_name": "dcgm", "static_configs": [{"targets": [f"127.0.0.1:{exporter.port}"]}]}
    timing = {"scrape_interval": "1s", "scrape_timeout": "1s"}
    config = folder / "prometheus.yml"
    config.write_text(yaml.safe_dump({"global": timing, "scrape_configs": [job]}))
    port = free_port()
    command = [
        str(program), f"--config.file={config}", f"--storage.tsdb.path={folder / 'tsdb'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]  # fmt: skip
    url = f"http://127.0.0.1:{port}"
    with Process("prometheus", command, folder / "prometheus.log"):
        eventually(lambda: _ready(url), 40)
        yield url


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        number: int = probe.getsockname()[1]
        return number


def _ready(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/-/ready", timeout=5) as reply:
            return reply.status == 200
    except (urllib.error.URLError, OSError):
        return False
