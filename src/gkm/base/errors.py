"""The root of GKM's exceptions.

A room adds a subclass only where a caller treats the case differently. Two kinds matter to everyone:
`UsageError` (the request is wrong; asking again changes nothing) and every other `GKMError` (the world
failed or lied). Messages are for the person who reads them: what happened, then what to do. Causes are
always chained with ``raise … from``.
"""

from typing import ClassVar


class GKMError(Exception):
    """Something GKM was asked to do could not be done; `str(error)` says what to do about it.

    `reason` is a stable CamelCase word for conditions, events, JSON and tests. It is the class's name
    unless the class says otherwise, so renaming a class is an interface change.
    """

    reason: ClassVar[str] = "GKMError"

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "reason" not in cls.__dict__:
            cls.reason = cls.__name__.removesuffix("Error")


class UsageError(GKMError):
    """The request itself is wrong: a malformed reference, no cache in a directory, an unknown GPU name."""

    reason = "InvalidUsage"
