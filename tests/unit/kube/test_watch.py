"""Lines come out whole, whatever the pieces were."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gkm.kube.errors import ExpiredError, FutureVersionError, ProtocolError
from gkm.kube.watch import Event, LineSplitter, read_bookmark, read_error

LINES = st.lists(
    st.binary(min_size=1, max_size=20).map(lambda b: b.replace(b"\n", b"n").replace(b" ", b"_") + b".")
)


@given(LINES, st.lists(st.integers(1, 9)))
def test_any_cutting_gives_the_same_lines(lines: list[bytes], cuts: list[int]) -> None:
    stream = b"".join(line + b"\n" for line in lines)
    splitter, out = LineSplitter(), []
    for size in [*cuts, len(stream) + 1]:
        piece, stream = stream[:size], stream[size:]
        out += splitter.feed(piece)
    splitter.end()
    assert out == lines


def test_a_half_line_at_the_end_is_an_error() -> None:
    splitter = LineSplitter()
    assert splitter.feed(b"whole\nha") == [b"whole"]
    with pytest.raises(ProtocolError, match="middle of a line"):
        splitter.end()


def test_an_endless_line_does_not_fill_the_memory() -> None:
    splitter = LineSplitter(longest=100)
    for _ in range(100):
        splitter.feed(b"x")
    with pytest.raises(ProtocolError, match="100 bytes"):
        splitter.feed(b"x")


def event(kind: str, body: object) -> Event:
    return Event(kind, msgspec.Raw(msgspec.json.encode(body)))


def test_a_real_pod_bookmark_is_read_though_it_is_no_pod() -> None:
    body = {
        "kind": "Pod",
        "metadata": {"resourceVersion": "12746", "creationTimestamp": None},
        "spec": {"containers": None},
        "status": {},
    }
    assert read_bookmark(event("BOOKMARK", body)) == ("12746", False)
    body["metadata"] = {"resourceVersion": "5", "annotations": {"k8s.io/initial-events-end": "true"}}
    assert read_bookmark(event("BOOKMARK", body)) == ("5", True)


def test_a_bookmark_without_a_version_is_refused() -> None:
    with pytest.raises(ProtocolError, match="resourceVersion"):
        read_bookmark(event("BOOKMARK", {"metadata": {}}))


def test_error_events_become_the_error_they_stand_for() -> None:
    gone = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version: 1 (2)"}
    assert isinstance(read_error(event("ERROR", gone)), ExpiredError)
    future = {
        "kind": "Status",
        "code": 504,
        "reason": "Timeout",
        "details": {
            "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]
        },
    }
    assert isinstance(read_error(event("ERROR", future)), FutureVersionError)
