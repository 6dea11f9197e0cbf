"""The token bucket: a limit on how often something happens, with room for bursts. Pure: time is handed in."""


class TokenBucket:
    """At most `rate` events per second in the long run, `burst` at once. Moments are handed in."""

    def __init__(self, rate: float = 10.0, burst: float = 100.0) -> None:
        self._rate = rate
        self._burst = burst
        self._tokens = burst
        self._at = float("-inf")

    def reserve(self, now: float) -> float:
        """Take a token, of the future if need be; seconds from `now` until it may be used."""
        self._fill(now)
        self._tokens -= 1
        return max(0.0, -self._tokens / self._rate)

    def try_take(self, now: float) -> bool:
        """Take a token if there is one."""
        self._fill(now)
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True

    def _fill(self, now: float) -> None:
        if self._at > float("-inf"):
            self._tokens = min(self._burst, self._tokens + (now - self._at) * self._rate)
        self._at = now
