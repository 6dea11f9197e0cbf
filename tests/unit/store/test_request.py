"""A session's words to its supervising process arrive whole, bytes that are no text included."""

import os
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gkm.store.mode import Mode
from gkm.store.overlay import Overlay
from gkm.store.request import Report, Request

anything = st.binary(max_size=20).map(os.fsdecode)


@given(st.lists(anything, min_size=1), st.dictionaries(anything, anything), st.sampled_from(list(Mode)))
def test_a_request_comes_back(argv: list[str], env: dict[str, str], mode: Mode) -> None:
    sent = Request(mode, Overlay("/t", ("/a", "/b"), "/u", "/w"), tuple(argv), env, (1, 15), ("x",), "/r")
    received = through_a_pipe(sent)
    assert received.overlay.lowers == ["/a", "/b"]
    assert received._replace(overlay=sent.overlay) == sent


def test_one_larger_than_a_pipe_holds_comes_back() -> None:
    sent = Request(Mode.COPY, Overlay("/t", (), "/u", "/w"), ("a",), {"BIG": "x" * (1 << 21)}, (), (), "/r")
    assert through_a_pipe(sent).env == sent.env


def through_a_pipe(request: Request) -> Request:
    reading, writing = os.pipe()
    sender = threading.Thread(target=request.send, args=(writing,))
    sender.start()
    try:
        return Request.receive(reading)
    finally:
        sender.join()
        os.close(reading)
        os.close(writing)


def test_a_dead_sender_is_noticed() -> None:
    reading, writing = os.pipe()
    os.write(writing, (100).to_bytes(8, "big") + b"{")
    os.close(writing)
    with pytest.raises(EOFError):
        Request.receive(reading)
    os.close(reading)


def test_a_report_comes_back(tmp_path: Path) -> None:
    report = Report(returncode=-9, seconds=1.5, kind="partial", reason="Overflow", opened=("a", "\udcff"))
    assert Report.read(tmp_path / "report") is None
    report.write(str(tmp_path / "report"))
    assert Report.read(tmp_path / "report") == report
    assert [p.name for p in tmp_path.iterdir()] == ["report"]
