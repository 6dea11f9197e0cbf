"""What a run was: the document of `gkm run --report`, and the words a person reads after it."""

import msgspec

from gkm.caches.usage import MissedEntry


class RunReport(msgspec.Struct, frozen=True, rename="camel"):
    """One run of a command with (or without) a cache. Null where something could not be measured."""

    command: tuple[str, ...]
    image: str | None
    digest: str | None
    verdict: str | None
    """Compatible, Incompatible or Unknown; null where no cache was asked for."""
    reason: str | None
    cold: bool
    """True where the command started without a cache: none asked for, incompatible, or not to be had."""
    cold_because: str | None
    mount: str
    """`overlay`, `user-overlay` or `copy`."""
    path: str
    """Where the command saw the cache."""
    entries: int
    """Entries in the cache that was mounted."""
    hits: int | None
    """Entries of the cache that the command used; null where observation is `none`."""
    misses: int
    """Entries that the command compiled although a cache was mounted."""
    missed: tuple[MissedEntry, ...]
    compiled: int
    """Entries the command made: the misses, or all of a cold run's."""
    observation: str
    """`complete`, `partial(REASON)` or `none`."""
    seconds: float
    """The command's own time, staging and mounting not counted."""
    staging_seconds: float
    exit_status: int
    saved: str | None
    """The digest of the image that `--save` wrote."""
    saved_image: str | None


def summary(report: RunReport) -> list[str]:
    """A few plain lines for stderr: what happened, and after misses what to do about them."""
    if report.cold:
        head = (
            f"cold start ({report.cold_because})"
            if report.cold_because
            else "cold start (no cache asked for)"
        )
        return [f"{head}: {_count(report.compiled, 'entry', 'entries')} compiled in {report.seconds:.2f} s"]
    used = "an unknown number" if report.hits is None else str(report.hits)
    counts = f"{used} of {report.entries} cached entries used, {_count(report.misses, 'miss', 'misses')}"
    lines = [f"{counts}, {report.seconds:.2f} s ({report.mount}, observation {report.observation})"]
    for entry in report.missed:
        lines.append(f"  missed {entry.format} {entry.name}")
        lines.extend(f"    {difference}" for difference in entry.differences)
    if report.missed and report.saved is None:
        lines.append("  to carry these too, run again with --save IMAGE")
    return lines


def _count(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"
