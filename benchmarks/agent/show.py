"""The report: medians, differences and ratios of one run."""

import statistics
from collections.abc import Callable, Sequence

from bench_pods import Start
from counting import Counting
from footprint import Footprint
from publish import Calls
from starts import BARE, RIVAL, Starts


def show_starts(starts: Starts) -> None:
    """From creation to Running, and to the first instruction."""
    views: tuple[tuple[str, Callable[[Start], float]], ...] = (
        ("created to Running (as the API server's watch shows it), s", lambda start: start.running),
        ("created to the container's first instruction, s", lambda start: start.began),
    )
    for title, value in views:
        print(f"\n{title}: medians of {len(starts.absent[BARE])} rounds")
        print(f"{'':16}{'absent':>8}{'- bare':>8}{'/ rival':>8}{'present':>9}{'- bare':>8}{'/ rival':>8}")
        absent, present = (
            {kind: statistics.median(map(value, found)) for kind, found in book.items()}
            for book in (starts.absent, starts.present)
        )
        for kind in absent:
            print(f"{kind:16}", end="")
            for book, width in ((absent, 8), (present, 9)):
                print(
                    f"{book[kind]:{width}.2f}{book[kind] - book[BARE]:8.2f}{book[kind] / book[RIVAL]:8.2f}",
                    end="",
                )
            print()
    print(f"(bare: {BARE}; rival: {RIVAL})")
    if starts.staging:
        print(f"staging, the agent's own measure: {statistics.median(starts.staging):.2f} s")


def show_calls(calls: Calls) -> None:
    """The calls' percentiles."""
    for name, seconds in (("NodePublishVolume", calls.publish), ("NodeUnpublishVolume", calls.unpublish)):
        half, most = percentile(seconds, 50), percentile(seconds, 99)
        print(
            f"{name}: p50 {1000 * half:.1f} ms, p99 {1000 * most:.1f} ms ({len(seconds)} calls, one at a time)"
        )
    print(f"    the agent computes {1000 * calls.cpu:.0f} ms for one of each, with its count")


def show_footprint(found: Footprint) -> None:
    """Memory and CPU at rest."""
    held = ", ".join(f"{each.name} {each.rss:.0f} ({each.pss:.0f})" for each in found.memory)
    total = sum(each.pss for each in found.memory)
    share = 100 * found.cpu_seconds / found.seconds
    print(f"agent with {found.mounts} mounts at rest: PSS {total:.0f} MiB; RSS (PSS) of each: {held}")
    print(f"    {found.cpu_seconds:.2f} s of CPU in {found.seconds:.0f} s: {share:.2f} % of one core")
    # volumeStatsAggPeriod in devcluster/node_files.py: two calls on a connection of their own for each volume.
    print(
        "    (mostly its answers to a kubelet that asks for figures six times as often as it does by default)"
    )


def show_counting(found: Counting) -> None:
    """What counting costs who opens files."""
    ratio = found.observed / found.unobserved
    print(
        f"counting: {found.files} files opened in {1000 * found.observed:.0f} ms observed, "
        f"{1000 * found.unobserved:.0f} ms not: ratio {ratio:.2f}; "
        f"the agent computes {1e6 * found.agent_seconds_per_file:.0f} µs per file"
    )


def percentile(values: Sequence[float], percent: int) -> float:
    """The smallest value that so many percent of `values` do not exceed (nearest rank)."""
    ordered = sorted(values)
    return ordered[max(0, -(-percent * len(ordered) // 100) - 1)]
