"""What `fairlead up` says: how to look inside, how it goes, and how it went."""

import asyncio
import shlex
import time
from collections.abc import Sequence

from rich.console import Console
from rich.live import Live

from fairlead.apps.up.cluster import Ground
from fairlead.apps.up.view import clock, render
from fairlead.apps.up.watching import Totals, Watching
from fairlead.sim.machines import Machine

_REFRESH_S = 0.25
_LINE_EVERY_S = 5.0


def announce(ground: Ground, machines: Sequence[Machine], *, queues: bool = False) -> None:
    """Where the cluster is, and what to try on it."""
    gpus = sum(machine.shape.gpus for machine in machines)
    kind = "the embedded API server" if ground.kubelets else "a real control plane"
    tries = ["get nodes,pods -o wide", "get events -w", "describe pod NAME"]
    if machines:
        name = machines[0].name
        tries += [f"cordon {name}", f"uncordon {name}"]
        if ground.kubelets:
            tries.append(f"annotate node {name} fairlead.dev/simulate-lost-gpus=0")
    print(f"fairlead up: {len(machines)} nodes with {gpus} GPUs on {kind} at {ground.server}")
    print(f"Try in another terminal:\n  export KUBECONFIG={shlex.quote(str(ground.kubeconfig))}")
    print("\n".join(f"  {ground.kubectl} {each}" for each in tries))
    print(
        "  fairlead queue --watch\n  fairlead queue research" if queues else "", end="\n" * queues
    )
    print("  fairlead top", flush=True)


async def show(watching: Watching, ground: Ground, *, live: bool) -> None:
    """Until cancelled: the live view, or a line now and then."""
    await (_show_live if live else _show_lines)(watching, ground)


async def _show_live(watching: Watching, ground: Ground) -> None:
    path = shlex.quote(str(ground.kubeconfig))
    hint = f"{ground.kubectl} --kubeconfig {path} get pods -o wide"
    readings = ground.kubelets.readings if ground.kubelets else None
    console = Console()
    with Live(console=console, screen=True, auto_refresh=False) as view:
        while True:
            began = time.monotonic()
            screen = watching.screen(hint, readings)
            view.update(render(screen, *console.size), refresh=True)
            # A thousand nodes take a while to draw: the scheduler has the rest of the time.
            took_s = time.monotonic() - began
            await asyncio.sleep(max(_REFRESH_S, 10 * took_s))


async def _show_lines(watching: Watching, ground: Ground) -> None:
    while True:
        await asyncio.sleep(_LINE_EVERY_S)
        screen = watching.screen("")
        used = sum(row.used for row in screen.nodes)
        total = sum(len(row.gpus) for row in screen.nodes)
        waiting = sum(screen.queue.values())
        print(
            f"{clock(screen.elapsed_s):>6}  bound {screen.bound} ({screen.binds_per_s:.1f}/s)  "
            f"finished {screen.finished}  waiting {waiting}  GPUs {used}/{total}",
            flush=True,
        )


def summarise(totals: Totals) -> None:
    print(
        f"\nafter {totals.seconds:.0f} s: pods created {totals.created}, bound {totals.bound}, "
        f"finished {totals.finished}, refused at first {totals.refused}, "
        f"still waiting {totals.never_placed}"
    )
    if totals.p50_ms is not None and totals.p99_ms is not None:
        print(
            f"binds: {totals.bound / totals.seconds:.1f}/s, time to bind "
            f"p50 {totals.p50_ms:.1f} ms, p99 {totals.p99_ms:.1f} ms; "
            f"the first {totals.first_s:.1f} s after the start"
        )
    share = totals.gpus_used / totals.gpus if totals.gpus else 0.0
    mean = totals.mean_gpus_used / totals.gpus if totals.gpus else 0.0
    print(
        f"GPUs allocated: {totals.gpus_used} of {totals.gpus} ({share:.0%}), on average {mean:.0%}",
        flush=True,
    )
