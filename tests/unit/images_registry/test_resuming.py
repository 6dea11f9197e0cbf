"""Which bytes of a response are new, when some are here already."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gkm.images.errors import ProtocolError, SizeMismatchError
from gkm.images.ranges import bytes_to_skip, range_headers, strong_etag
from support.images import describe

DATA = b"0123456789" * 10
BLOB = describe(DATA)


@settings(deadline=None)
@given(st.integers(0, 99), st.integers(0, 99))
def test_whatever_range_comes_the_stream_goes_on_where_it_stood(position, start):
    headers = {"content-range": f"bytes {start}-99/100"}
    if start > position:
        with pytest.raises(ProtocolError):
            bytes_to_skip(206, headers, position, BLOB)
        return
    skip = bytes_to_skip(206, headers, position, BLOB)
    assert DATA[:position] + DATA[start:][skip:] == DATA


@settings(deadline=None)
@given(st.integers(0, 99))
def test_a_whole_response_is_skipped_up_to_where_the_stream_stood(position):
    skip = bytes_to_skip(200, {"content-length": "100"}, position, BLOB)
    assert DATA[:position] + DATA[skip:] == DATA
    assert bytes_to_skip(200, {}, position, BLOB) == position


@pytest.mark.parametrize(
    ("status", "headers", "error"),
    [
        (200, {"content-length": "99"}, SizeMismatchError),
        (206, {"content-range": "bytes 50-98/99"}, SizeMismatchError),
        (206, {"content-range": "bytes 0-49/100"}, ProtocolError),
        (206, {"content-range": "bytes */100"}, ProtocolError),
        (206, {"content-range": "lines 1-2/3"}, ProtocolError),
        (206, {}, ProtocolError),
        (416, {"content-range": "bytes */10"}, SizeMismatchError),
    ],
)
def test_an_answer_to_something_else_is_refused(status, headers, error):
    with pytest.raises(error):
        bytes_to_skip(status, headers, 50, BLOB)


def test_a_range_of_unknown_total_is_taken():
    assert bytes_to_skip(206, {"content-range": "bytes 50-99/*"}, 50, BLOB) == 0


def test_a_request_names_what_is_missing():
    assert range_headers(0, '"x"') == {}
    assert range_headers(7, None) == {"range": "bytes=7-"}
    assert range_headers(7, '"x"') == {"range": "bytes=7-", "if-match": '"x"'}
    assert strong_etag({"etag": '"x"'}) == '"x"'
    assert strong_etag({"etag": 'W/"x"'}) is None
    assert strong_etag({}) is None
