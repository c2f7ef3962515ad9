"""`fairlead check-config`: what `fairlead run --config FILE` would make of the file."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, asdict, field, fields, is_dataclass
from pathlib import Path
from typing import Any, TextIO

import msgspec

from fairlead.apps.config import kube_scheduler, plugin_files
from fairlead.apps.config.findings import Finding
from fairlead.apps.config.kube_scheduler.format import KIND
from fairlead.apps.config.run_plan import RunOptions, plan
from fairlead.model.behaviour import KNOWN, Behaviour
from fairlead.model.errors import ConfigError
from fairlead.model.lazy_dataclass import dataclass
from fairlead.placement.profile import Profile
from fairlead.plugins.api import Plugin

_UNUSUAL = object()


@dataclass(frozen=True, slots=True)
class Report:
    """Profiles as plain data, and what there is to say about the file."""

    file: str
    kind: str
    profiles: Sequence[dict[str, Any]] = ()
    problems: Sequence[Finding] = ()
    notes: Sequence[Finding] = ()
    #: What is allowed, and probably not meant.
    warnings: Sequence[Finding] = ()
    #: What must change to serve it on the other versions of Kubernetes.
    refusals: Mapping[str, Sequence[Finding]] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        return not self.problems


def check(file: Path, versions: Sequence[Behaviour] = KNOWN) -> Report:
    """Fine is what can be served on any of these versions of Kubernetes."""
    try:
        moved = kube_scheduler.read(file, plugin_files.installed(), versions)
        if moved is None:
            found = plan(RunOptions(config=file))
            described = _described(found.profiles)
            return Report(str(file), "SchedulerConfiguration", described, warnings=found.warnings)
    except ConfigError as error:
        text = str(error).removeprefix(f"{file}: ")
        return Report(str(file), "unreadable", problems=[Finding("", text)])
    refused = {} if moved.problems else moved.refused_with
    return Report(
        str(file),
        KIND,
        _described(moved.profiles),
        moved.problems,
        moved.notes,
        refusals={behaviour.name: problems for behaviour, problems in refused.items()},
    )


def _described(profiles: Mapping[str, Profile]) -> list[dict[str, Any]]:
    return [_profile(name, profile) for name, profile in profiles.items()]


def _profile(name: str, profile: Profile) -> dict[str, Any]:
    return {
        "schedulerName": name,
        "filters": [_plugin(rule) for rule in profile.filters],
        "scores": [{**_plugin(score), "weight": weight} for score, weight in profile.scores],
        "picker": _plugin(profile.picker) if profile.picker else None,
        "preempts": profile.preempts,
    }


def _plugin(plugin: Plugin) -> dict[str, Any]:
    names: list[str] = [f.name for f in fields(plugin)] if is_dataclass(plugin) else []
    usual = type(plugin)() if names and _has_defaults(plugin) else None
    options = {
        name: value
        for name in names
        if (value := getattr(plugin, name)) != getattr(usual, name, _UNUSUAL)
    }
    plain = msgspec.json.decode(msgspec.json.encode(options, enc_hook=str))
    return {"plugin": plugin.name, "options": plain}


def _has_defaults(plugin: Plugin) -> bool:
    return is_dataclass(plugin) and all(
        f.default is not MISSING or f.default_factory is not MISSING for f in fields(plugin)
    )


def show(report: Report, output: str, out: TextIO) -> None:
    if output == "json":
        out.write(json.dumps({"ok": report.ok, **asdict(report)}, indent=2) + "\n")
        return
    out.writelines(f"{line}\n" for line in _lines(report))


def _lines(report: Report) -> Iterator[str]:
    for profile in report.profiles:
        yield f"pods of {profile['schedulerName']}"
        yield f"  filters: {', '.join(_named(rule) for rule in profile['filters'])}"
        weighed = (f"{_named(score)} × {score['weight']:g}" for score in profile["scores"])
        yield f"  scores: {', '.join(weighed) or 'none'}"
        if profile["picker"]:
            yield f"  picker: {_named(profile['picker'])}"
        yield f"  preemption: {'yes' if profile['preempts'] else 'no'}"
    yield from (f"note: {note}" for note in report.notes)
    yield from (f"warning: {warning}" for warning in report.warnings)
    for version, problems in report.refusals.items():
        yield from (f"not on Kubernetes {version}: {problem}" for problem in problems)
    yield from (f"problem: {problem}" for problem in report.problems)
    yield f"{report.file}: {_verdict(report)}"


def _verdict(report: Report) -> str:
    if report.ok:
        less = f", but not on Kubernetes {', '.join(report.refusals)}" if report.refusals else ""
        return f"fine; `fairlead run --config {report.file}` serves it{less}"
    count = len(report.problems)
    return f"{count} error{'s' * (count > 1)}: fix {'them' if count > 1 else 'it'} before running"


def _named(plugin: dict[str, Any]) -> str:
    options = {name: value for name, value in plugin["options"].items() if value}
    shown = ", ".join(f"{name}={json.dumps(value)}" for name, value in options.items())
    return f"{plugin['plugin']}({shown})" if shown else str(plugin["plugin"])
