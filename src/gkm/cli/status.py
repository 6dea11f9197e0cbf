"""Exit statuses (contracts.md, "The command"): 0 done, 1 the answer is no, 2 wrong usage, 3 the world failed.

`gkm run` passes its command's status through, so there GKM's own failures are 125, as env(1) has them.
"""

from gkm.base.errors import GKMError, UsageError

ANSWER_IS_NO = 1
WRONG_USAGE = 2
WORLD_FAILED = 3
RUN_FAILED = 125
INTERRUPTED = 130


def status_of(error: BaseException) -> int | None:
    """The exit status for `error`, or None for a bug that deserves its traceback."""
    if isinstance(error, UsageError):
        return WRONG_USAGE
    if isinstance(error, GKMError | OSError):
        return WORLD_FAILED
    return None


def describe(error: BaseException) -> str:
    """One paragraph for people. `OSError`s name the file; chained causes are in the message already."""
    if isinstance(error, OSError) and not isinstance(error, GKMError):
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror or error}"
    return str(error)


def reason_of(error: BaseException) -> str:
    """The stable word for `--output json`."""
    return error.reason if isinstance(error, GKMError) else type(error).__name__
