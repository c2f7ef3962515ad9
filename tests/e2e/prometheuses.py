"""A real Prometheus server on loopback, for as long as a test needs it."""

import json
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import yaml

from exporters import Exporter
from fairlead.sim.controlplane import ChildProcess
from fairlead.sim.controlplane.process import wait_until
from fairleads import PATIENCE_S
from webhooks import free_port


@dataclass(frozen=True)
class Prometheus:
    url: str

    @classmethod
    @contextmanager
    def start(cls, program: Path, folder: Path, config: Mapping[str, Any]) -> Iterator[Self]:
        """Serves until the block ends; what `folder/data` holds already is served, too."""
        file = folder / "prometheus.yaml"
        file.write_text(yaml.safe_dump({"global": {"evaluation_interval": "1s"}, **config}))
        port = free_port()
        command = [
            str(program), f"--config.file={file}", f"--storage.tsdb.path={folder / 'data'}",
            "--storage.tsdb.retention.time=10y", f"--web.listen-address=127.0.0.1:{port}",
        ]  # fmt: skip
        server = cls(f"http://127.0.0.1:{port}")
        with ChildProcess("prometheus", command, folder / "prometheus.log") as process:
            wait_until(server.ready, process, "starting", PATIENCE_S)
            yield server

    def ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/-/ready", timeout=2) as reply:
                return bool(reply.status == 200)
        except (urllib.error.URLError, OSError):
            return False

    def get(self, path: str) -> Any:
        with urllib.request.urlopen(self.url + path, timeout=PATIENCE_S) as reply:
            answer = json.load(reply)
        assert answer["status"] == "success", answer
        return answer["data"]

    def query(self, expression: str) -> Any:
        asked = urllib.parse.urlencode({"query": expression, "time": time.time()})
        return self.get(f"/api/v1/query?{asked}")


@contextmanager
def scraping(program: Path, exporter: Exporter, folder: Path) -> Iterator[str]:
    """The address of one that scrapes the exporter every second."""
    job = {"job_name": "dcgm", "static_configs": [{"targets": [f"127.0.0.1:{exporter.port}"]}]}
    timing = {"scrape_interval": "1s", "scrape_timeout": "1s"}
    config = {"global": timing, "scrape_configs": [job]}
    with Prometheus.start(program, folder, config) as server:
        yield server.url
