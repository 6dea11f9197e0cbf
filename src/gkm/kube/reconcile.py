"""The contract of a reconcile function.

It is given a key, and brings the world in line with what the stores say about that key now. It is not told
what happened: events are merged, repeated after a restart, and missed while no one leads; so it must come to
the same end whatever it finds (level-based), the object's absence included.

For one key it never runs twice at the same time. How it ends decides what comes next:

* `Result()`: nothing until the next change.
* `Result(requeue_after=s)`: again in `s` seconds, or at the next change if that is sooner.
* an exception: again after a backoff that grows with each failure in a row. That is the way to say "not yet".
* `TerminalError`: not again until the next change; retrying could not mend it.
* no end within the controller's timeout: it is cancelled, and treated as an exception.

What it changes through the client is fenced: without the lease the request is not sent (`NotLeaderError`).
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from gkm.kube.objects import Key


@dataclass(frozen=True, slots=True)
class Result:
    """A reconcile that did what it could; `requeue_after` in seconds asks for another without a change."""

    requeue_after: float | None = None


Reconciler = Callable[[Key], Awaitable[Result]]
"""The reconcile function."""
