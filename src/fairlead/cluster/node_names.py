"""Which of many names patterns match: all names are walked through together, letter by letter."""

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from fairlead.cluster.arrays import NodeMask
from fairlead.cluster.work import Work
from fairlead.model.name_patterns import NamePattern

#: (letters, names): a column is a name, with zeros behind its end.
_Letters = npt.NDArray[np.uint8]


def names_matching(patterns: Iterable[NamePattern], names: Sequence[str], work: Work) -> NodeMask:
    """True for names that one of the patterns matches."""
    found = np.zeros(len(names), dtype=np.bool_)
    letters = _letters(names)
    for pattern in dict.fromkeys(patterns):
        work.ask(letters.size)
        found |= _matched(pattern, letters)
    return found


def _letters(names: Sequence[str]) -> _Letters:
    if not names:
        return np.zeros((0, 0), dtype=np.uint8)
    table = np.array([name.encode("latin-1", "replace") for name in names])
    return np.ascontiguousarray(table.view(np.uint8).reshape(len(names), -1).T)


def _matched(pattern: NamePattern, letters: _Letters) -> NodeMask:
    """A state is kept as where its row begins in the table, so that one look-up finds the next."""
    states, classes = len(pattern.table), len(pattern.table[0])
    table = np.empty((states, classes + 1), dtype=np.intp)
    table[:, :-1] = pattern.table
    table[:, -1] = range(states)  # behind the end of a name nothing changes
    following = table.ravel() * (classes + 1)
    class_of = np.zeros(256, dtype=np.intp)
    class_of[0] = classes
    class_of[[ord(letter) for letter in pattern.class_of]] = list(pattern.class_of.values())
    state = np.zeros(letters.shape[1], dtype=np.intp)
    for row in letters:
        state = following.take(state + class_of.take(row), mode="clip")
    matched: NodeMask = np.array(pattern.ends)[state // (classes + 1)]
    return matched
