"""Calls of a library that often has no answer."""

from typing import Any

#: nvidia-ml-py, or whatever has its function names and its NVMLError.
Library = Any

NO_PERMISSION, NOT_FOUND, DRIVER_NOT_LOADED = 4, 6, 9
TIMEOUT, LIBRARY_NOT_FOUND, LOST, RESET_REQUIRED = 10, 12, 15, 16
#: Not of one GPU: the driver has gone, or another one has come. Only a new process helps.
#: Uninitialized, Driver Not Loaded, Library Not Found, version mismatch, Unknown Error.
OF_THE_DRIVER = frozenset({1, DRIVER_NOT_LOADED, LIBRARY_NOT_FOUND, 18, 999})
#: Invalid Argument, Not Supported, Insufficient Permissions, Not Found, Function Not Found,
#: No Data, version mismatch of an argument, Deprecated, Not Ready, Invalid State: on this GPU,
#: driver or setting there is no answer, and nothing is wrong.
_NO_ANSWER = frozenset({2, 3, NO_PERMISSION, NOT_FOUND, 13, 21, 25, 26, 27, 29})


def maybe(library: Library, name: str, *args: Any) -> Any:
    """What the function answers; None if it is not supported. Other errors are raised."""
    function = getattr(library, name, None)
    if function is None:
        return None
    try:
        return function(*args)
    except library.NVMLError as error:
        no_answer(error)
        return None


def no_answer(error: Any) -> None:
    """Raises what means more than that there is none."""
    if error.value not in _NO_ANSWER:
        raise error


def text(value: Any) -> str:
    """Older versions of nvidia-ml-py answer bytes."""
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)
