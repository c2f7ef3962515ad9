"""Which branches of the rules the cases took, and how often the two sides agreed."""

from collections import Counter
from collections.abc import Collection, Iterable

from oracle.arena import Result
from oracle.branches import BRANCHES
from oracle.branches_claims import SINCE
from oracle.compare import Difference
from oracle.exceptions import EXCEPTIONS
from oracle.seen import Seen


class Coverage:
    """Adds up results as they come."""

    def __init__(self, features: Collection[str], minor: int) -> None:
        #: Of the Kubernetes version.
        self._minor = minor
        self._features = [name for name in BRANCHES if name in features]
        #: Probes that took each branch.
        self.branches: Counter[str] = Counter()
        self.exceptions: Counter[str] = Counter()
        self.differences: list[tuple[str, Difference]] = []
        self.cases = self.probes = self.placed = self.asked_again = 0

    def add(self, result: Result) -> None:
        self.cases += 1
        for probed in result.probed:
            self.probes += 1
            self.placed += bool(probed.theirs.node)
            self.asked_again += probed.attempts > 1
            self._add_branches(Seen(result.case, probed))
            if probed.exception:
                self.exceptions[probed.exception] += 1
            elif probed.difference:
                self.differences.append((result.case.name, probed.difference))

    def unreached(self) -> list[str]:
        """Branches of the enabled features that nobody took."""
        return [name for name in self._names() if not self.branches[name]]

    def missing_exceptions(self) -> list[str]:
        """Exceptions that this version of Kubernetes has and that never occurred."""
        return [
            exception.name
            for exception in EXCEPTIONS
            if exception.feature in self._features
            and self._minor in exception.minors
            and not self.exceptions[exception.name]
        ]

    def lines(self) -> list[str]:
        """For people."""
        head = (
            f"{self.cases} cases, {self.probes} probes: {self.placed} placed, "
            f"{self.probes - self.placed} refused, {self.asked_again} asked again, "
            f"{len(self.differences)} differences"
        )
        on_purpose = [f"{n:6} {name} (on purpose)" for name, n in self.exceptions.items()]
        return [head, *on_purpose, *(f"{self.branches[name]:6} {name}" for name in self._names())]

    def _names(self) -> Iterable[str]:
        named = (name for feature in self._features for name in BRANCHES[feature])
        return (name for name in named if SINCE.get(name, 0) <= self._minor)

    def _add_branches(self, seen: Seen) -> None:
        for feature in self._features:
            for name, took in BRANCHES[feature].items():
                self.branches[name] += bool(took(seen))


def shown(case: str, found: Difference) -> str:
    probe = found.probe["metadata"]["name"]
    return f"{case} {probe}, {found.kind}:\n{found.text}"
