"""How much was looked at, counted: what a turn may cost is decided by this, not by a clock.

The same events then give the same answers on every machine, and a test can say what an object may
cost at most.
"""


class Work:
    """Counts that only grow. `spent` weighs them: one is about a microsecond."""

    __slots__ = ("asks", "pods", "rows", "terms", "trials")

    def __init__(self) -> None:
        #: Rules that were asked, and rows that they were asked about.
        self.asks = 0
        self.rows = 0
        #: Pods that were looked at one by one.
        self.pods = 0
        #: Terms, selectors and budgets that were compared with one pod.
        self.terms = 0
        #: Pods that were taken from a node, or put back, in drafts.
        self.trials = 0

    def ask(self, rows: int) -> None:
        """One rule is asked about so many rows."""
        self.asks += 1
        self.rows += rows

    @property
    def spent(self) -> int:
        return 5 * self.asks + self.rows // 200 + self.pods + self.terms + 20 * self.trials
