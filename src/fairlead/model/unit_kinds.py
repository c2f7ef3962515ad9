"""Which units are alike: they are expected to run for about as long."""

import re
from functools import lru_cache
from hashlib import blake2b

from fairlead.model.lazy_dataclass import dataclass

#: A suffix that Kubernetes draws: five letters and digits, without vowels.
_SUFFIX = re.compile(r"[bcdfghjklmnpqrstvwxz2456789]{5}", re.ASCII)
#: A hash, or a part of a UUID: hexadecimal, or with letters among digits.
_HASH = re.compile(r"(?=[a-f]*\d)[0-9a-f]{4,}|(?=[a-z]*\d+[a-z]+\d)[0-9a-z]{8,}", re.ASCII)
_DIGITS = re.compile(r"\d+", re.ASCII)
_LONGEST_NAME = 128
#: A longer name of an image is cut.
LONGEST_IMAGE = 256


@dataclass(frozen=True, slots=True)
class UnitKind:
    """What units have in common."""

    namespace: str
    #: Kind and name of the controller, as `name_pattern` has it; of a bare pod its own.
    name: str
    image: str
    #: The GPUs of all of its pods, in thousandths.
    gpus_milli: int


#: From the most specific to all units of the cluster: whether units of one namespace, of one name,
#: of one image and of one size are meant.
LEVELS = (
    (True, True, True, True),
    (True, True, False, True),
    (True, True, False, False),
    (True, False, True, True),
    (True, False, False, True),
    (False, False, False, True),
    (False, False, False, False),
)
#: Those by which declared run times are judged.
DECLARED_LEVELS = ((True, True, False, False), (True, False, False, False))


@lru_cache(maxsize=4096)
def name_pattern(name: str) -> str:
    """The name without what differs from run to run: numbers, hashes and random suffixes.

    >>> name_pattern("Job/train-resnet50-28391820-x7k2p")
    'Job/train-resnet#-#'
    """
    kind, slash, rest = name[:_LONGEST_NAME].rpartition("/")
    parts: list[str] = []
    for part in map(_pattern_of, re.split(r"[-._]", rest)):
        if part != "#" or parts[-1:] != ["#"]:
            parts.append(part)
    return f"{kind}{slash}{'-'.join(parts)}"


def _pattern_of(part: str) -> str:
    if _SUFFIX.fullmatch(part) or _HASH.fullmatch(part):
        return "#"
    return _DIGITS.sub("#", part)


@lru_cache(maxsize=4096)
def space_key(namespace: str) -> bytes:
    """What a namespace is kept under; the empty one is the whole cluster."""
    return _digest("namespace", namespace)


@lru_cache(maxsize=4096)
def level_keys(kind: UnitKind) -> tuple[bytes, ...]:
    """What each of the `LEVELS` is kept under."""
    return tuple(_level_key("ran", kind, level) for level in LEVELS)


@lru_cache(maxsize=4096)
def declared_keys(kind: UnitKind) -> tuple[bytes, ...]:
    """What each of the `DECLARED_LEVELS` is kept under."""
    return tuple(_level_key("declared", kind, level) for level in DECLARED_LEVELS)


def _level_key(what: str, kind: UnitKind, level: tuple[bool, bool, bool, bool]) -> bytes:
    words = (kind.namespace, kind.name, kind.image, str(kind.gpus_milli))
    chosen = (word if meant else "" for word, meant in zip(words, level, strict=True))
    return _digest(what, "".join("01"[meant] for meant in level), *chosen)


def _digest(*words: str) -> bytes:
    return blake2b("\0".join(words).encode(), digest_size=8).digest()
