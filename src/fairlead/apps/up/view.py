"""The live view of `fairlead up`: one small frozen state in, one screenful out.

Every GPU is a cell. Work has a letter and a colour of its own, so the picture reads without
colour too: `.` is free, a letter is taken by the work of that letter, `+` is shared by several,
`x` has fallen off.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field

from rich.console import Group, RenderableType
from rich.text import Text

from fairlead.apps.up.queue_bars import QueueBar, colour, queue_bar_lines
from fairlead.model.lazy_dataclass import dataclass

FREE, LOST, SHARED = ".", "x", "+"

_WIDE = 120
_LEAST_DECISIONS = 4
_CELL = 3


@dataclass(frozen=True, slots=True)
class NodeRow:
    """One node: its GPUs as marks, one character each."""

    name: str
    model: str
    gpus: str
    #: "", "not ready" or "cordoned".
    state: str = ""
    utilisation_percent: int | None = None
    power_w: int | None = None

    @property
    def used(self) -> int:
        return sum(mark not in (FREE, LOST) for mark in self.gpus)


@dataclass(frozen=True, slots=True)
class Decision:
    """One thing that the scheduler decided, in the words shown for it."""

    at_s: float
    pod: str
    bound: bool
    text: str
    mark: str = " "


@dataclass(frozen=True, slots=True)
class Screen:
    """All that one screenful shows."""

    elapsed_s: float
    nodes: tuple[NodeRow, ...]
    #: Pods waiting, by why: "to try", "backing off", "no node fits", "gated".
    queue: Mapping[str, int] = field(default_factory=dict)
    decisions: tuple[Decision, ...] = ()  # the latest first
    #: Of those, the refusals of pods that still wait.
    waiting: tuple[Decision, ...] = ()
    binds_per_s: float = 0.0
    bound: int = 0
    finished: int = 0
    refused: int = 0
    p50_ms: float | None = None
    p99_ms: float | None = None
    hint: str = ""
    queues: tuple[QueueBar, ...] = ()


def render(screen: Screen, width: int, height: int) -> RenderableType:
    """Exactly as many lines as there are, none longer than the terminal is wide."""
    head = [_title(screen, width), *_numbers(screen, width)]
    head += (
        queue_bar_lines(screen.queues, _gpus(screen), width, height // 3) if screen.queues else []
    )
    foot = [_hint(screen, width)]
    room = height - len(head) - len(foot)
    body = _wide(screen, width, room) if width >= _WIDE else _narrow(screen, width, room)
    lines = [*head, *_padded(body, room), *foot]
    return Group(*(_cut(line, width) for line in lines[:height]))


# -- the top and the bottom ------------------------------------------------------------------------


def _gpus(screen: Screen) -> int:
    return sum(len(row.gpus) for row in screen.nodes)


def _title(screen: Screen, width: int) -> Text:
    total = _gpus(screen)
    used = sum(row.used for row in screen.nodes)
    share = used / total if total else 0.0
    line = Text.assemble(
        ("fairlead up", "bold"),
        f"  {len(screen.nodes)} nodes  ",
        *_bar(share, max(10, min(40, width - 60))),
        f"  {used}/{total} GPUs, {share:.0%}",
    )
    return _justified(line, Text(clock(screen.elapsed_s), "bold"), width)


def _bar(share: float, width: int) -> list[tuple[str, str]]:
    full = round(share * width)
    return [("█" * full, "green3"), ("░" * (width - full), "grey50")]


def _numbers(screen: Screen, width: int) -> list[Text]:
    rates = [
        f"bound {screen.bound} ({screen.binds_per_s:.1f}/s)",
        f"finished {screen.finished}",
        f"refused {screen.refused}",
    ]
    if screen.p50_ms is not None and screen.p99_ms is not None:
        rates.append(f"to bind p50 {_millis(screen.p50_ms)} p99 {_millis(screen.p99_ms)}")
    queue = [f"{count} {name}" for name, count in screen.queue.items()]
    first, second = "   ".join(rates), "queue: " + ", ".join(queue)
    if len(first) + len(second) + 3 <= width:
        return [Text(f"{first}   {second}"), Text()]
    return [Text(first), Text(second)]


def _hint(screen: Screen, width: int) -> Text:
    return _justified(Text(screen.hint, "cyan"), Text("Ctrl-C ends", "dim"), width)


def clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def _millis(value: float) -> str:
    return f"{value / 1000:.1f} s" if value >= 1000 else f"{value:.0f} ms"


# -- the middle ------------------------------------------------------------------------------------


def _narrow(screen: Screen, width: int, room: int) -> list[Text]:
    """Nodes above, decisions below."""
    for_nodes = max(1, room - 1 - _LEAST_DECISIONS)
    nodes = _nodes(screen, width, for_nodes)
    left = room - len(nodes) - 1
    return [*nodes, _rule("decisions", width), *_decisions(screen, width, left)]


def _wide(screen: Screen, width: int, room: int) -> list[Text]:
    """Nodes on the left, decisions on the right."""
    nodes = _nodes(screen, width // 2, room - 1)
    left_width = max((line.cell_len for line in nodes), default=0) + 1
    left = [_rule("nodes", left_width), *nodes]
    right_width = width - left_width - 3
    right = [_rule("decisions", right_width), *_decisions(screen, right_width, room - 1)]
    return _beside(left, right, left_width)


def _nodes(screen: Screen, width: int, room: int) -> list[Text]:
    """As many nodes as fit, in several columns if that shows more; then how many are left."""
    rows = list(screen.nodes)
    name_width = max((len(row.name) for row in rows), default=4)
    cells = max((len(row.gpus) for row in rows), default=0)
    column = name_width + cells * _CELL + 8
    columns = max(1, min(-(-len(rows) // room), (width + 2) // (column + 2)))
    details = columns == 1
    shown = rows if len(rows) <= columns * room else rows[: columns * (room - 1)]
    per_column = -(-len(shown) // columns) if shown else 0
    drawn = [_node(row, name_width, cells, details) for row in shown]
    stacks = [drawn[i : i + per_column] for i in range(0, len(drawn), per_column or 1)]
    lines = stacks[0] if stacks else []
    for number, stack in enumerate(stacks[1:], start=1):
        lines = _beside(lines, stack, number * (column + 2) - 3, "   ")
    if len(shown) < len(rows):
        lines = [*lines, _rest(rows[len(shown) :])]
    return lines


def _rest(rows: Sequence[NodeRow]) -> Text:
    total = sum(len(row.gpus) for row in rows)
    used = sum(row.used for row in rows)
    return Text(f"… and {len(rows)} more nodes with {used}/{total} GPUs in use", "dim")


def _node(row: NodeRow, name_width: int, cells: int, details: bool) -> Text:
    line = Text(f"{row.name:<{name_width}} ", "dim" if row.state else "")
    for mark in row.gpus:
        line.append(*_cell(mark))
    line.append(" " * _CELL * (cells - len(row.gpus)))
    line.append(f" {row.used}/{len(row.gpus)}")
    if details:
        line.append(f"  {row.model:<9}", "dim")
        if row.utilisation_percent is not None and row.power_w is not None:
            line.append(f"{row.utilisation_percent:4d} % {row.power_w / 1000:5.1f} kW", "dim")
    if row.state:
        line.append(f"  {row.state}", "bold red")
    return line


def _cell(mark: str) -> tuple[str, str]:
    if mark == FREE:
        return f" {mark} ", "grey50"
    if mark == LOST:
        return f" {mark} ", "bold red"
    if mark == SHARED:
        return f" {mark} ", "bold black on grey70"
    return f" {mark} ", f"bold black on {colour(mark)}"


def _decisions(screen: Screen, width: int, room: int) -> list[Text]:
    """The latest, and below them at least one that says why a pod still waits."""
    room = max(0, room)
    latest = screen.decisions[:room]
    older = [each for each in screen.waiting if each not in latest][: max(1, room // 4)]
    shown = [*latest[: room - len(older)], *older][:room]
    pod_width = max((len(each.pod) for each in shown), default=0)
    return [_decision(each, min(pod_width, width // 2)) for each in shown]


def _decision(made: Decision, pod_width: int) -> Text:
    line = Text(f"{clock(made.at_s):>5} ", "dim")
    line.append(*_cell(made.mark) if made.mark.strip() else ("   ", ""))
    line.append(f" {made.pod:<{pod_width}} ")
    line.append("bound to " if made.bound else "waits: ", "green" if made.bound else "yellow")
    line.append(made.text)
    return line


# -- lines -----------------------------------------------------------------------------------------


def _rule(title: str, width: int) -> Text:
    return Text(f"── {title} " + "─" * max(0, width - len(title) - 4), "grey50")


def _justified(left: Text, right: Text, width: int) -> Text:
    gap = width - left.cell_len - right.cell_len
    if gap < 1:
        return left
    return Text.assemble(left, " " * gap, right)


def _beside(left: list[Text], right: list[Text], width: int, between: str = " │ ") -> list[Text]:
    lines = []
    for number in range(max(len(left), len(right))):
        line = left[number].copy() if number < len(left) else Text()
        line = _cut(line, width)
        line.append(" " * (width - line.cell_len))
        line.append(between, "grey50")
        lines.append(line + right[number] if number < len(right) else line)
    return lines


def _padded(lines: Iterable[Text], room: int) -> list[Text]:
    kept = list(lines)[:room]
    return kept + [Text() for _ in range(room - len(kept))]


def _cut(line: Text, width: int) -> Text:
    cut = line.copy()
    cut.no_wrap, cut.overflow = True, "ellipsis"
    cut.truncate(width, overflow="ellipsis")
    return cut
