"""Bytes against their descriptors, however they are cut into chunks."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gkm.images.errors import DigestMismatchError, SizeMismatchError
from gkm.images.verify import check_bytes, verified
from support.images import describe


async def chunks_of(data, cuts):
    start = 0
    for cut in [*sorted(cut % (len(data) + 1) for cut in cuts), len(data)]:
        yield data[start:cut]
        start = cut


def stream(data, cuts, descriptor):
    """What came out, and how it ended."""

    async def run():
        out = bytearray()
        try:
            async for chunk in verified(chunks_of(data, cuts), descriptor):
                out += chunk
        except (DigestMismatchError, SizeMismatchError) as error:
            return bytes(out), type(error)
        return bytes(out), None

    return asyncio.run(run())


_CUTS = st.lists(st.integers(0, 1000), max_size=5)


@settings(deadline=None)
@given(st.binary(max_size=200), _CUTS)
def test_the_right_bytes_pass_however_they_are_cut(data, cuts):
    assert stream(data, cuts, describe(data)) == (data, None)
    assert check_bytes(data, describe(data)) == data


@settings(deadline=None)
@given(st.binary(max_size=200), st.binary(max_size=200), _CUTS)
def test_other_bytes_never_pass(data, other, cuts):
    if data == other:
        return
    wrong = DigestMismatchError if len(data) == len(other) else SizeMismatchError
    out, error = stream(other, cuts, describe(data))
    assert error is wrong
    assert len(out) <= len(data)
    with pytest.raises(wrong):
        check_bytes(other, describe(data))
