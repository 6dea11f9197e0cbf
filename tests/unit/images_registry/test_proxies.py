"""Which requests take a proxy."""

import pytest

from gkm.base.errors import UsageError
from gkm.images.hosts import is_loopback, split_host
from gkm.images.proxies import proxy_for

PROXY = "http://proxy.example:3128"


@pytest.mark.parametrize("host", ["localhost", "registry.localhost", "127.0.0.1", "127.8.9.1", "::1"])
def test_loopback_never_takes_a_proxy(host):
    assert proxy_for("https", host, 5000, {"HTTPS_PROXY": PROXY}) is None


@pytest.mark.parametrize(
    ("environ", "scheme", "expected"),
    [
        ({}, "https", None),
        ({"HTTPS_PROXY": PROXY}, "https", PROXY),
        ({"HTTPS_PROXY": PROXY}, "http", None),
        ({"HTTP_PROXY": PROXY}, "http", PROXY),
        ({"https_proxy": "http://lower:1", "HTTPS_PROXY": PROXY}, "https", "http://lower:1"),
        ({"https_proxy": "", "HTTPS_PROXY": PROXY}, "https", PROXY),
        ({"HTTPS_PROXY": "proxy.example:3128"}, "https", PROXY),
    ],
)
def test_the_variable_of_the_scheme_counts(environ, scheme, expected):
    assert proxy_for(scheme, "quay.io", 443, environ) == expected


@pytest.mark.parametrize(
    ("rules", "host", "direct"),
    [
        ("*", "quay.io", True),
        ("quay.io", "quay.io", True),
        ("QUAY.io", "quay.io", True),
        ("quay.io", "cdn.quay.io", True),
        ("quay.io", "notquay.io", False),
        (".quay.io", "cdn.quay.io", True),
        (".quay.io", "quay.io", False),
        ("*.quay.io", "cdn.quay.io", True),
        ("quay.io:443", "quay.io", True),
        ("quay.io:5000", "quay.io", False),
        ("10.0.0.0/8", "10.1.2.3", True),
        ("10.0.0.0/8", "11.1.2.3", False),
        ("10.0.0.0/8", "quay.io", False),
        ("10.1.2.3", "10.1.2.3", True),
        ("10.1.2.3:443", "10.1.2.3", True),
        ("10.1.2.3:80", "10.1.2.3", False),
        ("fd00::/8", "fd00::1", True),
        ("fd00::1", "fd00::1", True),
        ("[fd00::1]:443", "fd00::1", True),
        ("[fd00::1]:80", "fd00::1", False),
        ("10.0.0.0/8", "fd00::1", False),
        (" a.example , quay.io ", "quay.io", True),
        ("", "quay.io", False),
    ],
)
def test_no_proxy_is_read_as_go_reads_it(rules, host, direct):
    environ = {"HTTPS_PROXY": PROXY, "NO_PROXY": rules}
    assert proxy_for("https", host, 443, environ) == (None if direct else PROXY)


@pytest.mark.parametrize("proxy", ["socks5://secret@proxy:1080", "http://", "ftp://proxy"])
def test_a_proxy_that_is_none_is_refused_without_its_secrets(proxy):
    with pytest.raises(UsageError, match="HTTPS_PROXY names no HTTP proxy") as caught:
        proxy_for("https", "quay.io", 443, {"HTTPS_PROXY": proxy})
    assert "secret" not in str(caught.value)


def test_hosts_come_apart():
    assert split_host("quay.io") == ("quay.io", None)
    assert split_host("quay.io:443") == ("quay.io", 443)
    assert split_host("[::1]") == ("::1", None)
    assert split_host("[::1]:5000") == ("::1", 5000)


def test_only_this_machine_is_loopback():
    assert all(map(is_loopback, ["localhost:5000", "127.0.0.1:5000", "[::1]:5000", "a.localhost"]))
    assert not any(map(is_loopback, ["localhost.example", "10.0.0.1", "[fd00::1]:5000", "notlocalhost"]))
