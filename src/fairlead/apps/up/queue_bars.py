"""Queues in the live view: a bar each, in the colour of its team on the GPUs."""

from collections.abc import Sequence

from rich.text import Text

from fairlead.model.lazy_dataclass import dataclass

_COLOURS = (
    "dodger_blue1", "dark_orange", "green3", "medium_orchid", "gold1", "turquoise2",
    "indian_red1", "chartreuse3", "deep_pink2", "light_slate_blue", "tan", "cyan3",
)  # fmt: skip
_LONGEST_BAR = 48
_USED, _BORROWED, _UNUSED, _SHARE = "█", "▓", "░", "┃"
_LEGEND = (
    f"queues: {_USED} used  {_BORROWED} borrowed  {_UNUSED} guaranteed, not used  "
    f"{_SHARE} fair share"
)


@dataclass(frozen=True, slots=True)
class QueueBar:
    """One queue: its GPUs, and its letter on the GPUs; a blank where it has none."""

    name: str
    depth: int
    guaranteed: float
    used: float
    fair_share: float | None
    pending: int
    mark: str = " "
    limit: float | None = None


def colour(mark: str) -> str:
    """Letters that follow each other differ."""
    return _COLOURS[ord(mark) % len(_COLOURS)]


def queue_bar_lines(queues: Sequence[QueueBar], gpus: int, width: int, room: int) -> list[Text]:
    """At most so many lines, of queues in a cluster of so many GPUs."""
    shown = queues[: max(1, room - 1)]
    names = max(len(_name(each)) for each in shown)
    figures = [_figures(each) for each in shown]
    bar = min(_LONGEST_BAR, width - names - max(map(len, figures)) - 6)
    more = f" and {len(queues) - len(shown)} more" if len(shown) < len(queues) else ""
    head = Text(f"── {_LEGEND}{more} " + "─" * max(0, width - len(_LEGEND) - 4), "grey50")
    return [head, *(_line(each, names, bar, gpus, text)
                    for each, text in zip(shown, figures, strict=True))]  # fmt: skip


def _line(queue: QueueBar, names: int, bar: int, gpus: int, figures: str) -> Text:
    line = Text.assemble(
        (f" {queue.mark} ", f"bold black on {colour(queue.mark)}" if queue.mark != " " else ""),
        f" {_name(queue):<{names}} ",
    )
    for cell in _cells(queue, bar, gpus) if bar >= 10 else ():
        line.append(cell, "bold white" if cell == _SHARE else _colour_of(queue, cell))
    line.append(f" {figures}")
    return line


def _cells(queue: QueueBar, bar: int, gpus: int) -> str:
    """What it uses within its guarantee, beyond it, and what it leaves; and its fair share."""
    scale = bar / max(1, gpus)
    used, kept = round(queue.used * scale), round(queue.guaranteed * scale)
    cells = _USED * min(used, kept) + _BORROWED * (used - kept) + _UNUSED * (kept - used)
    cells = f"{cells:<{bar}}"[:bar]
    if queue.fair_share is None:
        return cells
    at = min(bar - 1, round(queue.fair_share * scale))
    return cells[:at] + _SHARE + cells[at + 1 :]


def _colour_of(queue: QueueBar, cell: str) -> str:
    if cell == _UNUSED:
        return "grey50"
    return colour(queue.mark) if queue.mark != " " else "grey70"


def _name(queue: QueueBar) -> str:
    return "  " * queue.depth + queue.name


def _figures(queue: QueueBar) -> str:
    said = f"{_gpus(queue.used)} of {_gpus(queue.guaranteed)} guaranteed"
    if queue.fair_share is not None:
        said += f", fair share {_gpus(queue.fair_share)}"
    if queue.limit is not None:
        said += f", limit {_gpus(queue.limit)}"
    return said + (f", {queue.pending} pending" if queue.pending else "")


def _gpus(number: float) -> str:
    return f"{number:.1f}".removesuffix(".0")
