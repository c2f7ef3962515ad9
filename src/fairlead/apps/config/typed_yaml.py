"""Typed YAML files: what cannot be used is one line that names the place and the fix."""

import re
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import yaml

from fairlead.apps.config import typed_paths
from fairlead.model.errors import ConfigError

LARGEST_FILE = 1 << 20

T = TypeVar("T")

_HALF = re.compile("[\ud800-\udfff]")
_UNKNOWN = re.compile(r"unknown field `(?P<key>[^`]+)`(?: - at `(?P<path>[^`]+)`)?")
_WRONG_VALUE = re.compile(r"Invalid enum value '(?P<value>[^']*)'(?: - at `(?P<path>[^`]+)`)")


def read(path: Path, what: str, parse: Callable[[str], T]) -> T:
    """What `parse` makes of the file; its errors get the file's name in front."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise ConfigError(f"cannot read the {what} {path}: {reason}") from error
    try:
        return parse(text)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error


def convert(text: str, kind: type[T], reword: Callable[[str], str]) -> T:
    """The text as a value of this type. `reword` makes msgspec's complaints ours."""
    return shaped(load(text), kind, reword)


def load(text: str) -> Any:
    """The text as plain data; nothing at all is an empty mapping."""
    if len(text) > LARGEST_FILE:
        raise ConfigError("the file is larger than 1 MiB, the maximum for a configuration")
    try:
        found = [each for each in yaml.load_all(text, Loader=_Strict) if each is not None]
    except yaml.YAMLError as error:
        raise ConfigError(f"this is not valid YAML: {' '.join(str(error).split())}") from error
    except (ValueError, RecursionError) as error:  # a date without a day, a million brackets
        raise ConfigError(f"this cannot be read as YAML: {str(error).split(';')[0]}") from error
    if len(found) > 1:
        raise ConfigError(f"the file has {len(found)} documents; keep only one")
    return found[0] if found else {}


def shaped(found: Any, kind: type[T], reword: Callable[[str], str]) -> T:
    """Plain data as a value of this type."""
    try:
        return msgspec.convert(found, kind)
    except msgspec.ValidationError as error:
        raise ConfigError(reword(str(error))) from error


def suggest(complaint: str, keys_at: Callable[[str], Iterable[str]]) -> str | None:
    """A better complaint about an unknown key, or None if this one is about something else.

    `keys_at` tells which keys are known at a path such as "$.profiles[...]", or "" at the top.
    """
    unknown = _UNKNOWN.search(complaint)
    if unknown is None:
        return None
    path = unknown["path"] or ""
    return _unknown_key(unknown["key"], path, hint(unknown["key"], keys_at(path)))


def reworded(complaint: str, root: type[msgspec.Struct]) -> str:
    """A complaint about a file of this type, with what to write in place of the wrong word."""
    if unknown := _UNKNOWN.search(complaint):
        key, path = unknown["key"], unknown["path"] or ""
        home = typed_paths.home_of(root, key)
        known = typed_paths.keys_at(root, path)
        return _unknown_key(key, path, f"it belongs under {home}" if home else hint(key, known))
    if wrong := _WRONG_VALUE.search(complaint):
        value, path = wrong["value"], wrong["path"]
        advice = _one_of(value, typed_paths.choices_at(root, path))
        return f"{value!r} at {path} is not known; {advice}"
    return complaint


def _unknown_key(key: str, path: str, advice: str) -> str:
    place = f" at {path}" if path else ""
    return f"unknown key {key!r}{place}; {advice}"


def _one_of(value: str, choices: list[str]) -> str:
    if len(choices) == 1:
        return f"use {choices[0]}"
    near = get_close_matches(value, choices, n=1, cutoff=0.5)
    meant = f"did you mean {near[0]!r}? " if near else ""
    return f"{meant}use one of {', '.join(choices)}"


def hint(key: str, known: Iterable[str]) -> str:
    """What may have been meant in place of an unknown key."""
    keys = sorted(known)
    near = get_close_matches(key, keys, n=1, cutoff=0.5)
    return f"did you mean {near[0]!r}?" if near else f"known keys are {', '.join(keys)}"


class _Strict(yaml.SafeLoader):
    """Without what would be misread.

    A few aliases of aliases make a file of a kilobyte grow beyond any memory. Of two keys with one
    name, the first would silently be lost.
    """

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            text = "aliases are not supported: write the value in full"
            raise yaml.MarkedYAMLError(problem=text, problem_mark=mark)
        found = super().compose_node(parent, index)
        if isinstance(found, yaml.ScalarNode) and _HALF.search(found.value):
            text = r"an escape such as \ud83d is half a character: write the character itself"
            raise yaml.MarkedYAMLError(problem=text, problem_mark=found.start_mark)
        return found

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value in seen:
                text = f"the key {key.value!r} is a duplicate: remove one"
                raise yaml.MarkedYAMLError(problem=text, problem_mark=key.start_mark)
            seen.add(str(key.value))
        return super().construct_mapping(node, deep)
