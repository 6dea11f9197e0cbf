"""What people may write to name an image."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gkm.images.errors import InvalidReferenceError
from gkm.images.reference import LayoutReference, RegistryReference, parse_reference

DIGEST = "sha256:" + "0123456789abcdef" * 4


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("quay.io/gkm/cache:v1", RegistryReference("quay.io", "gkm/cache", "v1")),
        ("quay.io/gkm/cache", RegistryReference("quay.io", "gkm/cache", "latest")),
        (f"quay.io/gkm/cache@{DIGEST}", RegistryReference("quay.io", "gkm/cache", None, DIGEST)),
        (f"quay.io/c:v1@{DIGEST}", RegistryReference("quay.io", "c", "v1", DIGEST)),
        ("localhost/cache", RegistryReference("localhost", "cache", "latest")),
        ("localhost:5000/a/b/c:x", RegistryReference("localhost:5000", "a/b/c", "x")),
        ("127.0.0.1:5000/cache", RegistryReference("127.0.0.1:5000", "cache", "latest")),
        ("[::1]:5000/cache", RegistryReference("[::1]:5000", "cache", "latest")),
        ("Quay.IO/gkm/cache", RegistryReference("quay.io", "gkm/cache", "latest")),
        ("docker.io/triton", RegistryReference("docker.io", "library/triton", "latest")),
        ("index.docker.io/a/b", RegistryReference("docker.io", "a/b", "latest")),
        ("oci:images", LayoutReference(Path("images"))),
        ("oci:./images:v1", LayoutReference(Path("images"), "v1")),
        ("oci:/srv/images:v1", LayoutReference(Path("/srv/images"), "v1")),
        (f"oci:/srv/images@{DIGEST}", LayoutReference(Path("/srv/images"), None, DIGEST)),
        (f"oci:/srv/images:v1@{DIGEST}", LayoutReference(Path("/srv/images"), "v1", DIGEST)),
        ("oci:/srv/a:b/images", LayoutReference(Path("/srv/a:b/images"))),
        ("oci:/srv/a:b/", LayoutReference(Path("/srv/a:b"))),
        ("oci:me@home:v1", LayoutReference(Path("me@home"), "v1")),
    ],
)
def test_forms_that_name_an_image(text, expected):
    assert parse_reference(text) == expected


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no registry host"),
        ("cache", "no registry host"),
        ("gkm/cache:v1", "no registry host"),
        ("https://quay.io/gkm/cache", "without it, as"),
        ("docker://quay.io/gkm/cache", "without it, as"),
        ("quay.io/", "repository name"),
        ("quay.io/gkm//cache", "repository name"),
        ("quay.io/GKM/cache", "lower-case"),
        ("quay.io/gkm/../cache", "repository name"),
        ("quay.io/gkm/cache:", "tag"),
        ("quay.io/gkm/cache:a b", "tag"),
        ("quay.io/gkm/cache:" + "x" * 129, "tag"),
        ("quay.io/gkm/cache@sha256:123", "digest"),
        ("quay.io/gkm/cache@latest", "digest"),
        ("quay.io/gkm/cache@" + DIGEST.upper(), "digest"),
        ("quay..io/cache", "host"),
        ("-quay.io/cache", "host"),
        ("quay.io:0/cache", "port"),
        ("quay.io:65536/cache", "port"),
        ("quay.io:http/cache", "host"),
        ("[::g]:5000/cache", "host"),
        (" quay.io/cache", "blanks"),
        ("quay.io/cache\n", "blanks"),
        ("quay.io/ca\0che", "NUL"),
        ("quay.io/" + "a" * 250, "too long"),
        ("oci:", "no directory"),
        ("oci::v1", "no directory"),
        ("oci:images:", "tag"),
        ("oci:images:a b", "tag"),
    ],
)
def test_what_names_no_image_is_refused_with_the_part_that_is_wrong(text, words):
    with pytest.raises(InvalidReferenceError, match=words):
        parse_reference(text)


_TAGS = st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,20}", fullmatch=True)
_DIGESTS = st.from_regex(r"sha256:[0-9a-f]{64}", fullmatch=True)
_PARTS = st.from_regex(r"[a-z0-9]{1,5}((\.|_|__|-{1,3})[a-z0-9]{1,5}){0,2}", fullmatch=True)
_HOSTS = st.one_of(
    st.from_regex(r"[a-z0-9]{1,8}\.[a-z0-9]{1,8}(:[1-9][0-9]{1,3})?", fullmatch=True),
    st.ip_addresses(v=4).map(str),
    st.ip_addresses(v=6).map(lambda a: f"[{a}]:5000"),
)
_DIRECTORIES = st.lists(
    st.text(st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1),
    min_size=1,
    max_size=3,
).map(lambda names: Path("/".join(names)))


@settings(deadline=None)
@given(_HOSTS, st.lists(_PARTS, min_size=2, max_size=4).map("/".join), _TAGS, st.none() | _DIGESTS)
def test_the_text_of_a_registry_reference_reads_back(host, repository, tag, digest):
    reference = RegistryReference(host, repository, tag, digest)
    assert parse_reference(str(reference)) == reference


@settings(deadline=None)
@given(_DIRECTORIES, st.none() | _TAGS, st.none() | _DIGESTS)
def test_the_text_of_a_layout_reference_reads_back(directory, tag, digest):
    reference = LayoutReference(directory, tag, digest)
    assert parse_reference(str(reference)) == reference


@settings(deadline=None)
@given(st.text())
def test_any_text_is_read_or_refused(text):
    try:
        reference = parse_reference(text)
    except InvalidReferenceError:
        return
    assert parse_reference(str(reference)) == reference


def test_writing_without_a_tag_moves_latest_and_with_a_digest_no_tag():
    assert parse_reference("oci:images").tag_to_write == "latest"
    assert parse_reference("oci:images:v1").tag_to_write == "v1"
    assert parse_reference(f"oci:images@{DIGEST}").tag_to_write is None
    assert parse_reference("quay.io/cache").tag_to_write == "latest"
    assert parse_reference(f"quay.io/cache@{DIGEST}").tag_to_write is None
