"""gkm-config: what is not understood ends a process with words that help, and never passes for a default."""

from pathlib import Path

import msgspec
import pytest

from gkm.processes.authorities import authorities
from gkm.processes.config import Bytes, Config, ConfigError, LogLevel, parse_config, read_config
from gkm.trust.gate import Default

_UPSTREAM = {
    "gkm.operator.log.level": "debug",
    "gkm.agent.log.level": "trace",
    "gkm.extract.log.level": "info",
    "gkm.agent.image": "quay.example/gkm/agent:latest",
    "gkm.extract.image": "quay.example/gkm/gkm-extract:latest",
    "gkm.nogpu": "true",
    "gkm.kindcluster": "false",
    "gkm.kyverno.enabled": "true",
}


def test_every_key_of_the_go_operator_is_read() -> None:
    config = parse_config(_UPSTREAM)
    assert (config.operator_log_level, config.agent_log_level) == (LogLevel.DEBUG, LogLevel.TRACE)
    assert (config.nogpu, config.kindcluster, config.kyverno_enabled) == (True, False, True)


def test_nothing_given_is_every_default_and_blank_is_nothing() -> None:
    keys = [field.encode_name for field in msgspec.structs.fields(Config)]
    assert parse_config(dict.fromkeys(keys, " \n")) == parse_config({}) == Config()


def test_values_become_what_they_mean() -> None:
    config = parse_config(
        {
            "gkm.pod.write.limit": "500M",
            "gkm.node.disk.limit": "3Ti",
            "gkm.registry.plain.http": "registry.test:5000, [::1]:5000,other.test",
            "gkm.trust.default": "Enforce",
            "gkm.node.disk.free": "25",
        }
    )
    assert (config.pod_write_limit, config.node_disk_limit) == (500_000_000, 3 * 2**40)
    assert config.registry_plain_http == {"registry.test:5000", "[::1]:5000", "other.test"}
    assert (config.trust_default, config.node_disk_free) == (Default.ENFORCE, 25)


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("gkm.no.gpu", "true", "did you mean gkm.nogpu?"),
        ("something", "else", "known are gkm.operator.log.level,"),
        ("gkm.nogpu", "yes please", "gkm.nogpu"),
        ("gkm.operator.log.level", "loud", "gkm.operator.log.level"),
        ("gkm.trust.default", "warn", "gkm.trust.default"),
        ("gkm.pod.write.limit", "2GB", "write a whole number above 0 with a unit, as in 2Gi"),
        ("gkm.pod.write.limit", "0", "write a whole number above 0"),
        ("gkm.node.disk.free", "100", "a percentage from 0 to 99"),
        ("gkm.staging.parallel", "0", "from 1 to 64"),
        ("gkm.kubelet.root", "var/lib", "an absolute path"),
        ("gkm.registry.plain.http", "http://registry.test", "write HOST or HOST:PORT"),
    ],
)
def test_what_cannot_be_read_is_refused_by_name(key: str, value: str, said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse_config({key: value})
    assert said in str(refused.value)


@pytest.mark.parametrize(("text", "value"), [("1", 1), ("7k", 7000), ("2Ki", 2048), ("1Ti", 2**40)])
def test_sizes_are_kubernetes_quantities(text: str, value: int) -> None:
    assert Bytes.parse(text) == value


def test_a_mounted_config_map_is_read_without_the_links_beside_its_keys(tmp_path: Path) -> None:
    # As kubelet lays it out: KEY -> ..data/KEY, ..data -> ..2026_11_21 (pkg/volume/util/atomic_writer.go).
    version = tmp_path / "..2026_11_21"
    version.mkdir()
    (version / "gkm.nogpu").write_text("true\n")
    (version / "gkm.registry.ca").write_text("-----BEGIN CERTIFICATE-----\n")
    (tmp_path / "..data").symlink_to(version.name)
    for path in version.iterdir():
        (tmp_path / path.name).symlink_to(f"..data/{path.name}")
    assert read_config(tmp_path).nogpu
    assert authorities(tmp_path) == tmp_path / "gkm.registry.ca"


def test_no_certificates_are_no_file(tmp_path: Path) -> None:
    (tmp_path / "gkm.registry.ca").write_text("")
    assert authorities(tmp_path) is None
    assert authorities(None) is None


def test_a_directory_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="mount the ConfigMap gkm-config there"):
        read_config(tmp_path / "nothing")
