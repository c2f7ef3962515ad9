"""Units that are not planned for a while."""

#: How many are kept.
_MOST = 1024
#: Until a unit is planned again for which there was no start.
NO_PLAN_S = 30.0


class Pauses:
    def __init__(self) -> None:
        self._until_s: dict[str, float] = {}

    def add(self, key: str, now: float, length_s: float) -> None:
        if len(self._until_s) >= _MOST:
            self._until_s = {k: until_s for k, until_s in self._until_s.items() if until_s > now}
        if len(self._until_s) < _MOST:
            self._until_s[key] = now + length_s

    def has(self, key: str, now: float) -> bool:
        until_s = self._until_s.get(key)
        if until_s is not None and until_s <= now:
            del self._until_s[key]
        return until_s is not None and now < until_s
