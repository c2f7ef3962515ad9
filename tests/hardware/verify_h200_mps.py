"""Checks MPS, as the agent runs it, on a real GPU that has no other work. Needs root and torch.

    PYTHONPATH=src python tests/hardware/verify_h200_mps.py

The agent runs as a program beside the embedded API server. A *pod* is an object there, and a
control group here, in which its processes run. Prints each check with what it saw, and a table;
status 1 if a check fails. It ends with no daemon, and the compute mode as it was.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "src")]

from lone_cluster import Agent, Cluster  # noqa: E402

from fairlead.telemetry.processes import is_running  # noqa: E402

PATHS = filter(None, (str(HERE.parents[1] / "src"), os.environ.get("PYTHONPATH")))
ENV = {key: value for key, value in os.environ.items() if not key.startswith("CUDA_")}
ENV |= {"PYTHONPATH": os.pathsep.join(PATHS)}
NODE = "h200"
PIPE, PERCENT, MEMORY = (
    "CUDA_MPS_PIPE_DIRECTORY",
    "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE",
    "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT",
)
PER_CONTEXT = "CUDA_MPS_ENABLE_PER_CTX_DEVICE_MULTIPROCESSOR_PARTITIONING"
MIB, GIB = 1, 1024
LIMIT_S = 30.0
#: As in a container: root, and no capabilities.
UNPRIVILEGED = ("setpriv", "--inh-caps=-all", "--bounding-set=-all")
failed: list[str] = []
table: list[tuple[str, str]] = []


def check(what: str, holds: object, saw: object) -> None:
    print(f"{'ok  ' if holds else 'FAIL'} {what}: {saw}", flush=True)
    if not holds:
        failed.append(what)


def row(what: str, figure: str) -> None:
    table.append((what, figure))
    print(f"     {what}: {figure}", flush=True)


def smi(field: str) -> str:
    command = ["nvidia-smi", f"--query-gpu={field}", "--format=csv,noheader"]
    return subprocess.check_output(command, text=True).strip()


def until(holds: Callable[[], Any], limit_s: float = LIMIT_S) -> float:
    """How long it took."""
    began = time.monotonic()
    while not holds():
        if time.monotonic() - began > limit_s:
            raise TimeoutError(f"not within {limit_s:g} s")
        time.sleep(0.05)
    return time.monotonic() - began


# -- pods ------------------------------------------------------------------------------------------


class ControlGroups:
    """The hierarchy of version 2, wherever it is."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir()
        subprocess.check_call(["mount", "-t", "cgroup2", "none", str(folder)])

    def enter(self, uid: str) -> tuple[str, ...]:
        """What to begin a command with, to run it in the group of a pod."""
        group = self._folder / "kubepods" / f"pod{uid}"
        group.mkdir(parents=True, exist_ok=True)
        return ("sh", "-c", f'echo $$ > {group}/cgroup.procs && exec "$@"', "sh")

    def close(self) -> None:
        for group in (self._folder / "kubepods").glob("pod*"):
            with contextlib.suppress(OSError):
                group.rmdir()
        with contextlib.suppress(OSError):
            (self._folder / "kubepods").rmdir()
        subprocess.call(["umount", str(self._folder)])


@dataclass
class Pod:
    """A share, and what admission would set for it."""

    name: str
    uid: str
    env: dict[str, str]
    enter: tuple[str, ...] = ()

    def start(self, *steps: str, pre: tuple[str, ...] = (), **env: str | None) -> "Client":
        """`env`: what the pod sets itself; None unsets a variable."""
        return self.run(sys.executable, str(HERE / "mps_client.py"), *steps, pre=pre, **env)

    def run(self, *command: str, pre: tuple[str, ...] = (), **env: str | None) -> "Client":
        mine = {key: value for key, value in (self.env | env).items() if value is not None}
        process = subprocess.Popen(
            [*self.enter, *pre, *command], env=mine, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        return Client(process)

    def see(self, *steps: str, **env: str | None) -> dict[str, Any]:
        """Everything that a program printed, together."""
        return self.start(*(steps or ("info",)), **env).end()

    def torch(self, seconds: float, *more: str, **env: str | None) -> "Client":
        return self.run(sys.executable, str(HERE / "mps_torch.py"), str(seconds), *more, **env)


class Client:
    """A program whose output is read as it comes."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self._lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        self._lines.extend(iter(self.process.stdout.readline, ""))

    def line(self, word: str) -> None:
        """Until it has printed a line with this word."""
        until(lambda: any(word in line for line in self._lines) or not self._reader.is_alive())
        if not any(word in line for line in self._lines):
            raise RuntimeError(f"it ended without {word!r}: {self._lines}")

    def say(self, text: str = "") -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{text}\n")
        self.process.stdin.close()

    def end(self, limit_s: float = LIMIT_S) -> dict[str, Any]:
        try:
            self.process.wait(limit_s)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self._lines.append('{"hung": true}')
        self._reader.join(5)
        lines = [json.loads(line) for line in list(self._lines) if line.startswith("{")]
        found = {key: value for line in lines for key, value in line.items()}
        return found or {"text": self.text()}

    def text(self) -> str:
        self._reader.join(LIMIT_S)
        return "".join(self._lines).strip()[-300:]


class Node:
    """The machine with its agent, as pods see it."""

    def __init__(self, cluster: Cluster, groups: ControlGroups, folder: Path, uuid: str) -> None:
        self.cluster, self._groups, self.folder, self.uuid = cluster, groups, folder, uuid
        self.whole_rate = 0.0
        self._command = [
            sys.executable, "-c", "from fairlead.apps.entry import main; main()", "agent",
            "--mps", "all", "--mps-dir", str(folder),
        ]  # fmt: skip

    @contextlib.contextmanager
    def agent(self) -> Iterator[Agent]:
        with self.cluster.agent(self._command, NODE) as agent:
            yield agent

    def well(self) -> bool:
        return bool((self.cluster.inventory(NODE).get("gpus") or [{}])[0].get("mps"))

    @contextlib.contextmanager
    def pod(self, name: str, milli: int, mib: int) -> Iterator[Pod]:
        """Until the limits of the daemon cover it, as a container starts later, too."""
        use = {"u": self.uuid, "m": milli, "mib": mib, "w": False}
        said = {"devices": [use], "dialect": "fairlead", "iso": "mps"}
        body = {
            "metadata": {"name": name, "annotations": {
                "fairlead.dev/gpu-share": f"{milli / 1000:g}",
                "fairlead.dev/assignment": json.dumps(said)}},
            "spec": {"nodeName": NODE, "containers": [{"name": "main", "image": "none"}]},
        }  # fmt: skip
        path = "/api/v1/namespaces/default/pods"
        uid = self.cluster.api("POST", path, body)["metadata"]["uid"]
        env = ENV | {
            PIPE: str(self.folder / self.uuid / "pipe"), PERCENT: f"{milli / 10:g}",
            MEMORY: f"0={mib}M", "CUDA_VISIBLE_DEVICES": self.uuid,
        }  # fmt: skip
        pod = Pod(name, uid, env, self._groups.enter(uid))
        took = until(lambda: pod.see().get("sms", 0) > 8)
        print(f"     pod {name}: limits were set within {took:.1f} s", flush=True)
        try:
            yield pod
        finally:
            self.cluster.api("DELETE", f"{path}/{name}", {"gracePeriodSeconds": 0})

    def daemon(self) -> int:
        file = self.folder / self.uuid / "daemon" / "nvidia-cuda-mps-control.pid"
        return int(file.read_text())

    def server(self) -> int:
        """The child of the daemon."""
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError, IndexError):
                stat = (folder / "stat").read_text()
                if f") S {self.daemon()} " in stat and "nvidia-cuda-mps" in stat:
                    return int(folder.name)
        return 0

    def ended(self, pod: str) -> list[str]:
        found = self.cluster.events("GPUShareExceeded")
        return [one["note"] for one in found if one["regarding"]["name"] == pod]


# -- checks ----------------------------------------------------------------------------------------


def whole(node: Node) -> float:
    """Without MPS, before the agent starts. What the figures are compared with."""
    alone = Pod("none", "", ENV | {"CUDA_VISIBLE_DEVICES": node.uuid})
    client = alone.torch(4, "20")
    client.line("ready")
    client.say()
    found = client.end()
    node.whole_rate = alone.see("rate:2")["rate"]
    row("without MPS", f"{found['sms']} SMs, {found['tflops']} TFLOP/s, {found['free_gib']} GiB")
    return float(found["tflops"])


def quarter(node: Node, all_of_it: float) -> None:
    with node.pod("quarter", 250, 10 * GIB) as pod:
        client = pod.torch(4, "20")
        client.line("ready")
        client.say()
        found = client.end()
        part = found["tflops"] / all_of_it
        row("a share of 0.25 and 10 GiB", f"{found['sms']} SMs, {found['tflops']} TFLOP/s "
            f"({part:.0%}), {found['free_gib']} GiB free, 20 GiB: {found['alloc']}")  # fmt: skip
        check("32 SMs", found["sms"] == 32, found["sms"])
        # The whole GPU is slowed down by its limit of power, and a quarter of it is not.
        check("about a quarter of the throughput", 0.2 < part < 0.37, f"{part:.2f}")
        part = pod.see("rate:2")["rate"] / node.whole_rate
        check("a quarter of the rate of fp32 work", 0.23 < part < 0.26, f"{part:.3f}")
        row("fp32 multiplications with a share of 0.25", f"{part:.1%} of the whole")
        check("20 GiB are refused", found["alloc"] == "OutOfMemoryError", found["alloc"])
        evasions(node, pod)
        forks(node, pod)


def evasions(node: Node, pod: Pod) -> None:
    """No process gets more than the share, whatever it does with its variables."""
    raised: dict[str, str | None] = {PERCENT: "100", MEMORY: "0=100G"}
    tries: dict[str, tuple[tuple[str, ...], dict[str, str | None]]] = {
        "unset": ((), {PERCENT: None, MEMORY: None}),
        "raised": ((), raised),
        "raised by the program itself": ((f"set:{PERCENT}=100", f"set:{MEMORY}=0=100G"), {}),
        "partitions by context": ((), raised | {PER_CONTEXT: "1"}),
        "empty": ((), {PERCENT: "", MEMORY: ""}),
    }
    for name, (before, env) in tries.items():
        found = pod.see(*before, "info", "alloc:20", **env)
        good = found.get("used_sms", 999) <= 32 and found.get("answer") == "OUT_OF_MEMORY"
        check(f"variables {name}", good, found)
        row(f"variables {name}", f"{found.get('used_sms')} SMs, 20 GiB: {found.get('answer')}")
    found = pod.see(**{PIPE: None})
    check("without MPS it is refused", found.get("refused") == "DEVICE_UNAVAILABLE", found)
    found = pod.see(**{PIPE: ""})
    check("nor with an empty directory", found.get("refused") == "DEVICE_UNAVAILABLE", found)
    row("without MPS (variable unset, or empty)", f"refused: {found.get('refused')}")


def forks(node: Node, pod: Pod) -> None:
    first = pod.start("hold:15")
    first.line("holding")
    time.sleep(0.5)
    began = time.time()
    second = pod.start("hold:14")
    second.line("holding")
    found = second.end()
    took = found.get("at", began + 99) - began
    check("a second process is ended", found.get("stopped") == "MPS_CLIENT_TERMINATED", found)
    row("a second process of the pod", f"{found.get('stopped')} after {took:.1f} s")
    check("with an Event", until(lambda: node.ended(pod.name)) < 20, node.ended(pod.name)[:1])
    check("and the first goes on", first.end().get("held"), "held")


def halves(node: Node, all_of_it: float) -> None:
    with node.pod("left", 500, 60 * GIB) as left, node.pod("right", 500, 60 * GIB) as right:
        clients = [pod.torch(5) for pod in (left, right)]
        for client in clients:
            client.line("ready")
        for client in clients:
            client.say()
        status = Path(f"/proc/{node.server()}/status").read_text()
        kib = next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS"))
        row("memory of the MPS server with two processes", f"{int(kib) >> 10} MiB")
        found = [client.end() for client in clients]
        both = sum(one["tflops"] for one in found)
        sms, rates = ([str(one[key]) for one in found] for key in ("sms", "tflops"))
        row(
            "two shares of 0.5 at once",
            f"{' and '.join(sms)} SMs, {' + '.join(rates)} TFLOP/s ({both / all_of_it:.0%})",
        )
        check("together at least 95 % of the whole", both >= 0.95 * all_of_it, both)


def different(node: Node) -> None:
    """What is left to the process where shares differ in size."""
    with node.pod("small", 250, 10 * GIB) as small, node.pod("large", 500, 60 * GIB) as large:
        found = small.see(**{PERCENT: "100", MEMORY: "0=100G"})
        row("a share of 0.25 beside one of 0.5, raised", f"{found.get('used_sms')} SMs")
        check("it gets no more than the largest share", found.get("used_sms", 999) <= 66, found)
        began = time.time()
        client = small.start("alloc:20", "hold:15", **{PERCENT: "100", MEMORY: "0=100G"})
        found = client.end()
        took = found.get("at", began + 99) - began
        check("20 GiB of its 10 end it", found.get("stopped") == "MPS_CLIENT_TERMINATED", found)
        row("the same with 20 GiB of memory", f"{found.get('stopped')} after {took:.1f} s")
        found = large.see("info", "alloc:40")
        check("the large one has its own", found.get("answer") == "SUCCESS", found)


def settings(node: Node) -> None:
    """Root in a container, with the socket that pods see."""
    with node.pod("root", 250, 10 * GIB) as pod:

        def ask(command: str) -> str:
            client = pod.run("nvidia-cuda-mps-control", pre=UNPRIVILEGED)
            client.say(command)
            return client.text()

        said = ask("set_default_active_thread_percentage 100")
        check("it cannot raise the default", "Insufficient" in said, said)
        said = ask("quit")
        check(
            "nor end the daemon",
            "privilege" in said and Path(f"/proc/{node.daemon()}").exists(),
            said,
        )
        changed = ask(f"set_active_thread_percentage {node.server()} 100")
        began = time.time()
        client = pod.start("info", "hold:15", **{PERCENT: None})
        found = client.end()
        took = found.get("at", began + 99) - began
        good = found.get("used_sms", 999) <= 32 or found.get("stopped") == "MPS_CLIENT_TERMINATED"
        check("limits that it changed do not last", good, (changed, found))
        row("root in a pod raises the limit of the server",
            f"{found.get('used_sms')} SMs, {found.get('stopped')} after {took:.1f} s")  # fmt: skip
        until(lambda: pod.see(**{PERCENT: None}).get("used_sms", 999) <= 32)


def deaths(node: Node) -> None:
    with node.pod("one", 250, 10 * GIB) as one, node.pod("two", 250, 10 * GIB) as two:

        def works() -> bool:
            return bool(two.see().get("sms") == 32)

        def happens(what: str, event: Callable[[], None], *, others: str) -> None:
            client = one.start("hold:30")
            client.line("holding")
            began = time.time()
            event()
            back = until(works)
            if others == "goes on":
                good = client.process.poll() is None
                client.process.kill()
                found = client.end()
            else:
                found = client.end()
                good = found.get("stopped") == others
            check(what, good, found)
            after = f" after {found['at'] - began:.1f} s" if "at" in found else ""
            row(what, f"other pods: {others}{after}; new processes after {back:.1f} s")

        def kill_client() -> None:
            client = two.start("hold:30")
            client.line("holding")
            client.process.kill()
            client.process.wait()

        happens("a process is killed", kill_client, others="goes on")
        happens("a process has a fatal fault and ends", lambda: two.see("fault") and None,
                others="ILLEGAL_ADDRESS")  # fmt: skip
        stays: list[Client] = []

        def stay() -> None:
            stays.append(two.start("fault", "sleep:60"))
            stays[0].line("fault")

        happens("a process has a fatal fault and stays", stay, others="ILLEGAL_ADDRESS")
        stays[0].process.kill()
        stays[0].process.wait()
        happens("the MPS server is killed", lambda: os.kill(node.server(), signal.SIGKILL),
                others="MPS_RPC_FAILURE")  # fmt: skip
        happens("the control daemon is killed", lambda: os.kill(node.daemon(), signal.SIGKILL),
                others="MPS_RPC_FAILURE")  # fmt: skip
        happens("the control daemon hangs", lambda: os.kill(node.daemon(), signal.SIGSTOP),
                others="MPS_RPC_FAILURE")  # fmt: skip
        happens("the MPS server hangs", lambda: os.kill(node.server(), signal.SIGSTOP),
                others="MPS_RPC_FAILURE")  # fmt: skip
        bypass(node, one, works)
        until(node.well)


def bypass(node: Node, pod: Pod, works: Callable[[], bool]) -> None:
    """A program that tries, without MPS, until it gets the GPU in a gap between two servers."""
    script = (
        "while :; do "
        f"{sys.executable} {HERE / 'mps_client.py'} hold:60 | grep -q holding && echo got in; done"
    )
    clients = [pod.run("bash", "-c", script, **{PIPE: None}) for _ in range(4)]
    time.sleep(1)
    try:
        os.kill(node.server(), signal.SIGKILL)
        back = until(works)
    finally:
        for client in clients:
            client.process.kill()
            client.process.wait()
    events = [note for note in node.ended(pod.name) if "without MPS" in note]
    check("a pod that takes the GPU without MPS does not keep it", back < LIMIT_S, back)
    row("four programs of a pod try without MPS while the server is killed",
        f"new processes after {back:.1f} s; Events: {len(events)}")  # fmt: skip


def agents(node: Node) -> None:
    """The agent is killed, followed by the next one, and stopped: with pods, and without."""
    with contextlib.ExitStack() as stack:
        agent = stack.enter_context(node.agent())
        until(node.well)
        pod = stack.enter_context(node.pod("lasting", 250, 10 * GIB))
        client = pod.start("hold:60")
        client.line("holding")
        agent.process.kill()
        agent.process.wait()
        daemon = node.daemon()
        check("the daemon outlives a killed agent", is_running(daemon), daemon)
        with node.agent():
            time.sleep(5)  # it has looked at least twice
            check("the next agent keeps the daemon", node.daemon() == daemon, daemon)
            check("and a running process goes on", client.process.poll() is None, "on")
            row("the agent is killed", "pods: nothing; the next agent keeps the daemon")
            began = time.monotonic()
        took = time.monotonic() - began
        found = client.end()
        check("an agent that is stopped ends the daemon", found.get("stopped"), found)
        check("none is left", not is_running(daemon), daemon)
        check("and says so", not node.well(), node.cluster.inventory(NODE)["gpus"][0])
        refused = pod.see().get("refused")
        check("no program runs without limits", refused, (refused, smi("compute_mode")))
        row("the agent is stopped", f"{found.get('stopped')}; no daemon after {took:.1f} s; "
            f"new processes: {refused}, until it runs again")  # fmt: skip
        with node.agent():
            back = until(lambda: pod.see().get("sms") == 32)
            row("the agent starts again", f"new processes after {back:.1f} s")
            stack.pop_all().close()
            time.sleep(2)  # it knows that the pod is gone
    after = smi("compute_mode")
    check("without pods the compute mode is as it was", after == "Default", after)


def main() -> int:
    began = time.monotonic()
    # The paths of sockets have at most 107 bytes.
    scratch = Path(tempfile.mkdtemp(prefix="mps", dir="/tmp"))
    scratch.chmod(0o755)
    groups = ControlGroups(scratch / "cgroup")
    node: Node | None = None
    try:
        with Cluster.start(scratch, ENV) as cluster:
            cluster.create_node(NODE)
            node = Node(cluster, groups, scratch / "run", smi("uuid"))
            all_of_it = whole(node)
            with node.agent() as agent, contextlib.ExitStack() as stack:
                row("the agent starts", f"MPS is healthy after {until(node.well):.1f} s")
                stack.callback(keep, agent)
                for step in (
                    lambda: quarter(node, all_of_it), lambda: halves(node, all_of_it),
                    lambda: different(node), lambda: settings(node), lambda: deaths(node),
                ):  # fmt: skip
                    attempt(step)
            attempt(lambda: agents(node))
    finally:
        groups.close()
        found = subprocess.run(["pgrep", "-x", "nvidia-cuda-mps"], capture_output=True, check=False)
        left = [pid for pid in map(int, found.stdout.split()) if is_running(pid)]
        check("no process of MPS is left", not left, left)
        shutil.rmtree(scratch, ignore_errors=True)
    print("\n| | |\n|---|---|")
    for what, figure in table:
        print(f"| {what} | {figure} |")
    print(f"{len(failed)} failed, in {time.monotonic() - began:.0f} s")
    return bool(failed)


def attempt(step: Callable[[], None]) -> None:
    try:
        step()
    except Exception:
        failed.append(traceback.format_exc())
        print("FAIL", failed[-1], flush=True)


def keep(agent: Agent) -> None:
    if out := os.environ.get("OUT"):
        shutil.copy(agent.log, Path(out) / "agent.log")


if __name__ == "__main__":
    sys.exit(main())
