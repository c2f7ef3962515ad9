"""Records as bytes that are kept across restarts: a line that names them, the record, and a sum.

What cannot be read is refused as a whole.
"""

import struct
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from zlib import crc32

_SUM = struct.Struct("<I")
#: What `with_seal` adds.
SEAL_BYTES = _SUM.size


def with_seal(parts: Iterable[bytes]) -> bytes:
    """The first part is the line that names the record."""
    body = b"".join(parts)
    return body + _SUM.pack(crc32(body))


def unsealed(data: bytes, line: bytes, largest: int) -> bytes:
    """What `with_seal` was given. Raises ValueError if these bytes are not of such a record."""
    body = data[:-SEAL_BYTES]
    if len(data) > largest:
        raise ValueError(f"{len(data)} bytes are more than a dump has")
    if not data.startswith(line) or _SUM.pack(crc32(body)) != data[-SEAL_BYTES:]:
        raise ValueError("it is damaged, or of another version")
    return body


@contextmanager
def reading() -> Iterator[None]:
    """What is read too far is a ValueError as well."""
    try:
        yield
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise ValueError("it ends too early") from error
