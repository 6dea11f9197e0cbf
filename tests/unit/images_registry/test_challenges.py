"""What a registry may write into WWW-Authenticate, and what is made of it."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gkm.images.challenge import Challenge, parse_challenges


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("Basic", [Challenge("basic")]),
        ("Basic realm=plain", [Challenge("basic", {"realm": "plain"})]),
        ('BASIC REALM="Harbor, of course"', [Challenge("basic", {"realm": "Harbor, of course"})]),
        (
            'Bearer realm="https://a/token",service="s",scope="repository:a/b:pull,push"',
            [
                Challenge(
                    "bearer",
                    {"realm": "https://a/token", "service": "s", "scope": "repository:a/b:pull,push"},
                )
            ],
        ),
        (
            'Bearer realm = "x" , error="invalid_token", Basic realm="y"',
            [
                Challenge("bearer", {"realm": "x", "error": "invalid_token"}),
                Challenge("basic", {"realm": "y"}),
            ],
        ),
        ('Negotiate, Basic realm="x"', [Challenge("negotiate"), Challenge("basic", {"realm": "x"})]),
        ('Negotiate YWJj==, Basic realm="x"', [Challenge("negotiate"), Challenge("basic", {"realm": "x"})]),
        (r'Basic realm="a \"quoted\" one"', [Challenge("basic", {"realm": 'a "quoted" one'})]),
        ('Basic realm="a", realm="b"', [Challenge("basic", {"realm": "a"})]),
        (", ,Basic", [Challenge("basic")]),
        ("", []),
        ('"nonsense"', []),
        ('Basic realm="never closed', [Challenge("basic")]),
    ],
)
def test_challenges_are_read(header, expected):
    assert parse_challenges([header]) == expected


def test_several_headers_are_one_list():
    assert [c.scheme for c in parse_challenges(["Bearer realm=a", "Basic realm=b"])] == ["bearer", "basic"]


@settings(deadline=None)
@given(st.text() | st.text('Basic "=,\\ab'))
def test_nothing_a_server_sends_makes_it_fail(header):
    for challenge in parse_challenges([header]):
        assert challenge.scheme == challenge.scheme.lower()


_NAMES = st.from_regex(r"[a-z]{1,8}", fullmatch=True)


@settings(deadline=None)
@given(_NAMES, st.dictionaries(_NAMES, st.text(st.characters(codec="ascii", exclude_categories=["Cc"]))))
def test_quoted_values_come_out_as_they_went_in(scheme, parameters):
    quoted = (v.replace("\\", "\\\\").replace('"', '\\"') for v in parameters.values())
    header = f"{scheme} " + ", ".join(f'{k}="{v}"' for k, v in zip(parameters, quoted, strict=True))
    assert parse_challenges([header]) == [Challenge(scheme, parameters)]
