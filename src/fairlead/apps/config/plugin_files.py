"""Users' own plugins: entry points of installed packages, or a class in a Python file."""

import sys
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from hashlib import sha256
from importlib.metadata import entry_points
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec

from fairlead.model.errors import ConfigError
from fairlead.plugins.api import AnyScore, Filter, Picker, Plugin, RelativeScore, Score
from fairlead.plugins.registry import Registry

GROUPS = ("fairlead.filters", "fairlead.scores", "fairlead.pickers")


def installed() -> Registry:
    """The built-in plugins and those of every installed package that offers some."""
    registry = Registry()
    for group in GROUPS:
        for point in entry_points(group=group):
            try:
                registry.add(point.load())
            except ConfigError:
                raise
            except Exception as error:
                raise ConfigError(
                    f"plugin {point.name!r} of group {group} cannot be loaded: {error}; "
                    "fix or uninstall its package"
                ) from error
    return registry


def make(registry: Registry, reference: str, options: Mapping[str, Any], base: Path) -> Plugin:
    """The plugin that a configuration names: `Name`, or `path/to/file.py:ClassName`."""
    kind = _from_file(reference, base) if ".py:" in reference else registry.find(reference)
    if is_dataclass(kind):
        _refuse_unknown(options, [field.name for field in fields(kind)], reference)
    try:
        return msgspec.convert(options, kind) if is_dataclass(kind) else kind(**options)
    except (TypeError, msgspec.ValidationError) as error:
        raise ConfigError(f"plugin {reference!r} does not accept these options: {error}") from error


def _refuse_unknown(options: Mapping[str, Any], known: list[str], reference: str) -> None:
    unknown = sorted(set(options) - set(known))
    if unknown:
        there = f"it has {', '.join(known)}" if known else "it has none"
        raise ConfigError(f"plugin {reference!r} has no option {unknown[0]!r}; {there}")


def _from_file(reference: str, base: Path) -> type[Plugin]:
    file_name, _, class_name = reference.rpartition(":")
    path = (base / file_name).resolve()
    if not path.is_file():
        raise ConfigError(
            f"the plugin file {path} does not exist; correct the path in the configuration"
        )
    kind = getattr(_load(path), class_name, None)
    if kind is None:
        raise ConfigError(f"{path} does not define {class_name!r}; use a class that it defines")
    if not isinstance(kind, type) or not _is_plugin(kind):
        raise ConfigError(
            f"{path}:{class_name} is not a plugin; give it a name and either allows(), rate(), "
            "rank() or pick() as fairlead.plugin describes"
        )
    return kind


def _is_plugin(kind: type) -> bool:
    # Protocols with data members cannot be checked on classes, so look for what makes each one.
    methods = ("allows", "rate", "rank", "pick", "count")
    return hasattr(kind, "name") and any(callable(getattr(kind, m, None)) for m in methods)


def _load(path: Path) -> ModuleType:
    # A name made from the path: two files called picker.py must not replace each other.
    name = f"fairlead_user_{path.stem}_{sha256(str(path).encode()).hexdigest()[:8]}"
    if name in sys.modules:
        return sys.modules[name]
    spec = spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ConfigError(f"{path} is not a Python file")
    module = module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise ConfigError(f"{path} cannot be loaded: {error!r}") from error
    return module


def as_filter(plugin: Plugin, reference: str) -> Filter:
    if not isinstance(plugin, Filter):
        raise ConfigError(f"{reference!r} is not a filter; list it under scores or picker")
    return plugin


def as_score(plugin: Plugin, reference: str) -> AnyScore:
    if not isinstance(plugin, Score | RelativeScore):
        raise ConfigError(f"{reference!r} is not a score; list it under filters or picker")
    return plugin


def as_picker(plugin: Plugin, reference: str) -> Picker:
    if not isinstance(plugin, Picker):
        raise ConfigError(f"{reference!r} is not a picker; list it under filters or scores")
    return plugin
