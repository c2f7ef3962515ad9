"""No text takes for ever to match: users write most of what regular expressions are asked about.

An expression of which two parts can take the same characters tries every division of a text that
does not match. Of 100,000 digits, these are thousands of millions.
"""

import importlib
import pkgutil
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

import fairlead

#: Each is repeated, and followed by what no expression expects.
PUMPS = (
    "1", "a", "A", ".", "-", "_", " ", "0", "1.", "a-", "a.", "1s", "1h", "=", "{", "}",
    '"', "'", "\\", '"a', ",", "a,", "/", "x1", "+", "[", "(", ":", "e1", "g.", "}1",
    "1,", "a=", '="', "=1,",
)  # fmt: skip
LENGTH = 100_000
#: Of CPU time, for all of the texts: an expression that ends takes a thousandth of it.
ENDS_WITHIN_S = 30.0


def expressions() -> dict[str, re.Pattern[str] | re.Pattern[bytes]]:
    """Those of all packages that read what others write."""
    found: dict[str, re.Pattern[str] | re.Pattern[bytes]] = {}
    for package in pkgutil.walk_packages(fairlead.__path__, "fairlead."):
        if package.name.startswith(("fairlead.apps", "fairlead.sim", "fairlead.testing")):
            continue
        module = importlib.import_module(package.name)
        for name, value in vars(module).items():
            if isinstance(value, re.Pattern):
                found.setdefault(f"{package.name}.{name}", value)
    return found


@contextmanager
def ending() -> Iterator[None]:
    def late(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGVTALRM, late)
    signal.setitimer(signal.ITIMER_VIRTUAL, ENDS_WITHIN_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)
        signal.signal(signal.SIGVTALRM, before)


def ends(expression: re.Pattern[str] | re.Pattern[bytes]) -> bool:
    try:
        with ending():
            for pump in PUMPS:
                text = pump * (LENGTH // len(pump)) + "!"
                if isinstance(expression.pattern, bytes):
                    expression.fullmatch(text.encode())  # type: ignore[arg-type]
                else:
                    expression.fullmatch(text)  # type: ignore[arg-type]
    except TimeoutError:
        return False
    return True


EXPRESSIONS = expressions()


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_no_text_takes_for_ever(name: str) -> None:
    assert ends(EXPRESSIONS[name]), "two of its parts can take the same characters"


def test_an_expression_that_takes_for_ever_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("test_expressions.ENDS_WITHIN_S", 0.5)
    assert not ends(re.compile(r"\d+\.?\d*s"))
