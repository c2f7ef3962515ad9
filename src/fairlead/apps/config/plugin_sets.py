"""The plugins of a profile: those of a built-in one, with some enabled and some disabled."""

from collections.abc import Callable, Sequence
from difflib import get_close_matches
from typing import TypeVar

from fairlead.model.errors import ConfigError

ALL = "*"

T = TypeVar("T")


def changed(
    base: Sequence[T], enabled: Sequence[T], disabled: Sequence[str], name: Callable[[T], str]
) -> tuple[T, ...]:
    """What the base has and is not disabled, in its order, and then what is enabled beyond it.

    One that is enabled and in the base as well takes its place there, with its own options.
    """
    known = [name(each) for each in base]
    for each in disabled:
        if each not in (ALL, *known):
            raise ConfigError(
                f"{each!r} cannot be disabled: it is not in the profile; {_near(each, known)}"
            )
    again = {name(each): each for each in enabled}
    if len(again) < len(enabled):
        names = [name(each) for each in enabled]
        twice = next(each for each in names if names.count(each) > 1)
        raise ConfigError(f"{twice} is enabled twice; remove one")
    kept = [each for each in base if ALL not in disabled and name(each) not in disabled]
    replaced = [again.pop(name(each), each) for each in kept]
    return (*replaced, *again.values())


def _near(wrong: str, known: Sequence[str]) -> str:
    near = get_close_matches(wrong, known, n=1, cutoff=0.5)
    return f"did you mean {near[0]!r}?" if near else f"it has {', '.join(known)}"
