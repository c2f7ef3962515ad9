"""What goes wrong with an expression: when it is compiled, and when it is evaluated."""


class CelError(Exception):
    """An expression that cannot be compiled, or has no answer for a device."""


class CelCompileError(CelError):
    """The text is not an expression of the language, or its types do not fit."""


class MisplacedError(CelError):
    """A part of the text that is wrong, and its place. The compiler makes one message of all."""

    def __init__(self, text: str, at: int) -> None:
        super().__init__(text)
        self.at = at


class CelEvaluationError(CelError):
    """The expression has no answer for this device. `&&`, `||` and macros may absorb it."""


class CelCostError(CelError):
    """The evaluation takes too long. Nothing absorbs it."""

    def __init__(self) -> None:
        super().__init__("operation cancelled: actual cost limit exceeded")


def no_such_overload() -> CelEvaluationError:
    return CelEvaluationError("no such overload")
