"""What is asked next, and after how long: every error leads somewhere, none to a tight loop."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gkm.base.backoff import Backoff
from gkm.kube.errors import (
    CutListError,
    ExpiredError,
    ForbiddenError,
    FutureVersionError,
    InvalidError,
    KubeError,
    StreamingUnsupportedError,
    UnavailableError,
    UnreachableError,
)
from gkm.kube.progress import Mode, Progress, Timing

TIMING = Timing(backoff=Backoff(first=1, factor=2, longest=30, jitter=0))

ERRORS: list[KubeError] = [
    ExpiredError("", code=410),
    FutureVersionError("", code=504),
    InvalidError("", code=400),
    ForbiddenError("", code=403),
    UnavailableError("", code=503),
    UnreachableError(""),
    StreamingUnsupportedError(""),
    CutListError(""),
]
EITHER = pytest.mark.parametrize("streaming", [False, True])


def watching(version: str = "7", *, streaming: bool = False) -> Progress:
    progress = Progress(TIMING, streaming=streaming, random=lambda: 0.5)
    progress.query()
    progress.listed(version)
    return progress


def test_the_first_list_takes_what_the_server_has_at_hand() -> None:
    progress = Progress(TIMING)
    assert progress.mode is Mode.LIST
    assert progress.query() == {"resourceVersion": "0", "resourceVersionMatch": "NotOlderThan"}
    assert progress.in_pages, "for kinds that the server does not cache"
    progress.listed("7")
    assert progress.mode is Mode.WATCH


def test_so_does_a_first_list_that_is_streamed() -> None:
    query = Progress(TIMING, streaming=True).query()
    assert query["resourceVersion"] == "0"
    assert query["resourceVersionMatch"] == "NotOlderThan"
    assert query["sendInitialEvents"] == "true"


@given(st.floats(0, 1, exclude_max=True))
def test_watches_end_at_random_so_that_clients_do_not_reconnect_in_step(dice: float) -> None:
    query = Progress(Timing(), streaming=True, random=lambda: dice).query()
    assert 300 <= int(query["timeoutSeconds"]) <= 600
    assert abs(int(query["timeoutSeconds"]) - (300 + 300 * dice)) <= 0.5


def test_a_watch_starts_from_what_was_seen_last() -> None:
    progress = watching()
    progress.saw("9")
    assert progress.query()["resourceVersion"] == "9"
    assert "sendInitialEvents" not in progress.query()


@EITHER
def test_lost_history_relists_at_once_from_what_was_seen_and_backs_off_if_it_goes_on(streaming: bool) -> None:
    progress = watching(streaming=streaming)
    waits = []
    for _ in range(5):
        waits.append(progress.failed(ERRORS[0]))
        assert progress.mode is (Mode.STREAM if streaming else Mode.LIST)
        assert progress.query()["resourceVersion"] == "7"
        assert not progress.in_pages
        # The list succeeds each time: that alone is no reason to hurry again.
        progress.listed("7")
    assert waits == [0, 2, 4, 8, 16]
    progress.saw("8")
    assert progress.failed(ERRORS[0]) == 0


@EITHER
def test_a_list_that_cannot_start_from_what_was_seen_takes_the_newest(streaming: bool) -> None:
    progress = watching(streaming=streaming)
    progress.failed(ERRORS[0])
    progress.failed(ERRORS[0])
    assert "resourceVersion" not in progress.query()
    progress.listed("3")
    progress.failed(ERRORS[0])
    assert progress.query()["resourceVersion"] == "3"


@EITHER
@pytest.mark.parametrize("error", [FutureVersionError("", code=504), InvalidError("", code=400)])
def test_a_version_that_the_server_never_had_is_dropped(error: KubeError, streaming: bool) -> None:
    progress = watching(streaming=streaming)
    assert progress.failed(error) > 0
    assert progress.mode is not Mode.WATCH
    assert "resourceVersion" not in progress.query()


@pytest.mark.parametrize("error", [InvalidError("", code=422), StreamingUnsupportedError("")])
def test_a_server_that_does_not_stream_lists_is_asked_for_an_ordinary_one(error: KubeError) -> None:
    progress = Progress(TIMING, streaming=True)
    assert progress.failed(error) == 0
    assert progress.mode is Mode.LIST
    assert progress.query() == {"resourceVersion": "0", "resourceVersionMatch": "NotOlderThan"}
    progress.listed("5")
    assert progress.mode is Mode.WATCH


def test_a_watch_that_ends_in_order_is_resumed_at_once_unless_it_was_hasty() -> None:
    progress = watching()
    assert progress.closed(lived=300) == 0
    assert progress.closed(lived=0.1) == 1
    assert progress.closed(lived=0.1) == 2
    assert progress.mode is Mode.WATCH
    progress.query()
    progress.saw("8")
    assert progress.closed(lived=0.1) == 0


def test_a_list_that_is_cut_is_streamed_and_a_stream_that_ends_too_soon_is_listed() -> None:
    progress = Progress(TIMING)
    for _ in range(3):
        assert progress.failed(CutListError("")) > 0
        assert progress.mode is Mode.STREAM
        assert progress.closed(lived=300) > 0
        assert progress.mode is Mode.LIST
    assert progress.failed(UnreachableError("")) > 0
    assert progress.mode is Mode.LIST, "it did not even begin"


def test_a_snapshot_that_expires_between_pages_is_listed_in_one() -> None:
    progress = Progress(TIMING)
    progress.failed(ExpiredError("", code=410))
    assert not progress.in_pages
    assert progress.query() == {}
    progress.listed("7")
    assert progress.failed(FutureVersionError("", code=504)) > 0
    assert progress.in_pages
    assert progress.query() == {}


@given(st.booleans(), st.lists(st.sampled_from([*ERRORS, "closed"]), min_size=1, max_size=60))
def test_whatever_fails_there_is_a_next_request_and_the_waits_grow(
    streaming: bool, story: list[KubeError | str]
) -> None:
    progress = Progress(TIMING, streaming=streaming, random=lambda: 0.0)
    waits = []
    for failure in story:
        progress.query()
        waits.append(progress.closed(0.0) if isinstance(failure, str) else progress.failed(failure))
        if progress.mode is Mode.LIST and isinstance(failure, str):
            progress.listed("1")
    assert sum(wait == 0 for wait in waits) <= 1, "two in a row without a pause"
    assert waits[1:] == sorted(waits[1:])
    assert max(waits) <= 30
