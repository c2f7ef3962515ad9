"""Which plugin failed, where and how, in one sentence for events, logs and `fairlead explain`.

It is read from the traceback, so that calling plugins costs nothing extra.
"""

from collections.abc import Iterator
from types import CodeType, FrameType
from typing import Any

from fairlead.claims.errors import LookUnfinished
from fairlead.model.errors import FairleadError, FilterFailed, PluginFault
from fairlead.placement.profile import Profile
from fairlead.plugins.api import Plugin

_METHODS = ("allows", "rate", "rank", "pick")


def fault_of(error: Exception, profile: Profile) -> FairleadError:
    """The error with the plugin's name, file and line; one of our own names its file and line.

    LookUnfinished is no fault: it is for the caller that has set a limit.
    """
    if isinstance(error, FilterFailed | LookUnfinished):
        return error
    frames = list(_frames(error))
    said = str(error) if isinstance(error, PluginFault) else f"{type(error).__name__}: {error}"
    blamed = [(plugin, depth) for depth, (frame, _) in enumerate(frames)
              if (plugin := _owner(frame, profile)) is not None]  # fmt: skip
    if not blamed:
        frame, line = frames[-1]
        place = f"{frame.f_code.co_filename}:{line}"
        return PluginFault(f"the scheduler failed at {place}: {said}; report this as a bug")
    plugin, depth = blamed[-1]
    place = _place(plugin, frames[depth:])
    kind = _kind(plugin, profile)
    return PluginFault(f"a plugin failed: {kind} {plugin.name} ({place}): {said}")


def _frames(error: Exception) -> Iterator[tuple[FrameType, int]]:
    trace = error.__traceback__
    while trace is not None:
        yield trace.tb_frame, trace.tb_lineno
        trace = trace.tb_next


def _owner(frame: FrameType, profile: Profile) -> Plugin | None:
    """The plugin whose method it is, or that a function of ours had for its first argument."""
    first = frame.f_locals.get(next(iter(frame.f_code.co_varnames), ""))
    return next((plugin for plugin in profile.plugins if plugin is first), None)


def _place(plugin: Plugin, frames: list[tuple[FrameType, int]]) -> str:
    """The last line of the plugin's file that ran; of its answer, the line where it begins."""
    code = _code(plugin)
    file = code.co_filename if code else frames[0][0].f_code.co_filename
    lines = [line for frame, line in frames if frame.f_code.co_filename == file]
    begins = code.co_firstlineno if code else 0
    return f"{file}:{lines[-1] if lines else begins}"


def _code(plugin: Plugin) -> CodeType | None:
    methods: Iterator[Any] = (getattr(type(plugin), name, None) for name in _METHODS)
    return next((method.__code__ for method in methods if hasattr(method, "__code__")), None)


def _kind(plugin: Plugin, profile: Profile) -> str:
    if plugin is profile.picker:
        return "picker"
    return "filter" if any(plugin is rule for rule in profile.filters) else "score"
