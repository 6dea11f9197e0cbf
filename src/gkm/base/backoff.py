"""How long to wait before trying again: exponential with jitter, so that many clients spread out."""

import random
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Backoff:
    """Delays in seconds that grow by `factor` from `first` up to `longest`, each cut to a random part.

    `jitter` 0 gives the plain series, 1 a delay anywhere between zero and the series' value ("full jitter").
    """

    first: float = 0.5
    factor: float = 2.0
    longest: float = 30.0
    jitter: float = 0.5

    def delay(self, failures: int) -> float:
        """Seconds to wait after `failures` failures in a row (1 after the first)."""
        # The exponent is bounded first: 2.0**5000 would overflow.
        plain = min(self.longest, self.first * self.factor ** min(max(failures - 1, 0), 64))
        return plain * (1.0 - self.jitter * random.random())  # noqa: S311  spreading load, not a secret
