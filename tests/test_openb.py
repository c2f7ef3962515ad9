"""The openb benchmark as a user runs it, on a folder of the same layout that is very small."""

import csv
import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

BENCH = Path(__file__).parents[1] / "bench"
NODES = [
    ("n0", 16000, 65536, 2, "T4"),
    ("n1", 32000, 131072, 4, "G2"),
    ("n2", 8000, 32768, 1, "T4"),
]
SHAPES = [(2000, 1024, 1, 500, ""), (4000, 2048, 1, 1000, "G2"), (1000, 512, 0, 0, ""),
          (4000, 4096, 2, 1000, ""), (1000, 1024, 1, 310, "T4|G2")]  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    pods = [(f"p{n:03d}", *SHAPES[n % len(SHAPES)]) for n in range(120)]
    _write(tmp_path / "openb_node_list_gpu_node.csv", "sn,cpu_milli,memory_mib,gpu,model", NODES)
    header = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec"
    _write(tmp_path / "openb_pod_list_tiny.csv", header, pods)
    lots = np.random.default_rng(1)
    orders = {"42": lots.permutation(120)[:16], "n42": lots.permutation(len(NODES))}
    (tmp_path / "orders").mkdir()
    np.savez(tmp_path / "orders" / "tiny.npz", **orders)
    return tmp_path


def _write(file: Path, header: str, rows: list[tuple]) -> None:
    with file.open("w", newline="") as text:
        text.write(header + "\n")
        csv.writer(text).writerows(rows)


def _bench(*arguments: str | Path) -> str:
    command = [sys.executable, str(BENCH / "openb.py"), *map(str, arguments)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@pytest.mark.program
def test_every_policy_fills_the_tiny_cluster(folder: Path, tmp_path: Path) -> None:
    out, picture = tmp_path / "out.jsonl", tmp_path / "curves.svg"
    told = _bench(folder, "--out", out, "--picture", picture)
    runs = [json.loads(line) for line in out.read_text().splitlines()]
    assert len(runs) == 7
    assert {run["policy"] for run in runs} > {"GapPrice", "FragmentationGradient", "Random"}
    assert all(0 < run["at130"] <= 100 for run in runs)
    assert "GapPrice" in told
    assert picture.read_text().count("<polyline") == 7


@pytest.mark.program
def test_pods_may_leave(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    policies = ("--policies", "GapPrice", "BestFit")
    _bench(folder, "--departures", "--arrivals", "200", "--seeds", "7", "--out", out, *policies)
    runs = [json.loads(line) for line in out.read_text().splitlines()]
    assert [run["policy"] for run in runs] == ["GapPrice", "BestFit"]
    assert all(30 < run["at100"] <= 100 and 30 < run["at130"] <= 100 for run in runs)


def _audit(folder: Path):
    spec = importlib.util.spec_from_file_location("audit", BENCH / "audit.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Overdraft, module.Audit(folder, "tiny")


@pytest.mark.parametrize(
    ("decisions", "says"),
    [
        ([("a", 0, "n0", ("GPU-n0-0",)), ("b", 0, "n0", ("GPU-n0-0",)),
          ("c", 4, "n0", ("GPU-n0-0",))], "thousandths more"),
        ([("a", 0, "n0", ())], "asked 1 GPUs"),
        ([("a", 1, "n0", ("GPU-n0-0",))], "got a T4"),
        ([("a", 0, "n0", ("GPU-n1-0",))], "another node"),
        ([("a", 2, "n0", ()), ("a", 2, "n0", ())], "twice"),
        ([(str(n), 2, "n2", ()) for n in range(9)], "more cpu"),
    ],
)  # fmt: skip
def test_the_auditor_finds_overdrafts(folder: Path, decisions, says: str) -> None:
    overdraft, audit = _audit(folder)
    for decision in decisions[:-1]:
        audit.given(*decision)
    with pytest.raises(overdraft, match=says):
        audit.given(*decisions[-1])


def test_the_auditor_lets_good_books_pass(folder: Path) -> None:
    _, audit = _audit(folder)
    audit.given("a", 0, "n0", ("GPU-n0-0",))
    audit.given("b", 3, "n1", ("GPU-n1-0", "GPU-n1-3"))
    assert audit.allocated_milli == 2500
    audit.left("b")
    assert audit.allocated_milli == 500
