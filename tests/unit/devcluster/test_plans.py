"""What devcluster decides before it touches the machine."""

import hashlib
import ipaddress
import json
import os
import tarfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from devcluster import audit, binaries, images, network, parts, ports
from devcluster.layout import Layout, Spec, node_names
from devcluster.parts import Module
from devcluster.processes import Identity
from gkm.base.errors import UsageError

networks = st.builds(
    lambda address, length: str(ipaddress.ip_network((address, length), strict=False)),
    st.integers(0x0A000000, 0x0AFFFFFF),
    st.integers(12, 32),
)


@given(st.lists(networks, max_size=30))
def test_a_cluster_gets_a_network_that_no_route_leads_into(routes: list[str]) -> None:
    try:
        octet = network.free_octet([*routes, "default"])
    except UsageError:
        taken = [ipaddress.ip_network(route) for route in routes]
        for octet in range(200, 250):
            assert any(ipaddress.ip_network(f"10.{octet}.0.0/16").overlaps(other) for other in taken)
        return
    chosen = ipaddress.ip_network(f"10.{octet}.0.0/16")
    assert not any(chosen.overlaps(ipaddress.ip_network(route)) for route in routes)


def test_nodes_pods_services_and_host_have_addresses_of_their_own() -> None:
    spec = Spec(
        name="a",
        nodes=network.MAX_NODES,
        programs={},
        etcd_port=1,
        etcd_peer_port=2,
        apiserver_port=3,
        controller_manager_port=4,
        scheduler_port=5,
        network=200,
    )
    names = node_names(spec.nodes)
    pods = [ipaddress.ip_network(network.pod_cidr(spec, name)) for name in names]
    services = ipaddress.ip_network(spec.services)
    hosts = [spec.address, *(network.node_address(spec, name) for name in names)]
    assert len({*pods}) == len(pods)
    assert len({*hosts}) == len(hosts)
    assert {ipaddress.ip_address(spec.service_ip), ipaddress.ip_address(spec.dns_ip)} < {*services}
    assert all(ipaddress.ip_address(h) in ipaddress.ip_network("10.200.0.0/24") for h in hosts)
    everything = [ipaddress.ip_network("10.200.0.0/24"), services, *pods]
    assert not any(a.overlaps(b) for i, a in enumerate(everything) for b in everything[:i])
    assert all(p.subnet_of(ipaddress.ip_network(network.all_pods(spec))) for p in pods)


@pytest.mark.parametrize("name", ["", "Upper", "twelve-chars", "a/b", "-a", "a-", "..", "a b", "1a", "a\n"])
def test_a_name_that_cannot_be_an_interface_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="lower-case"):
        Layout.of(name)


@pytest.mark.parametrize("name", ["a", "default", "a-b", "t1234567890"])
def test_a_name_that_fits_into_an_interface_is_taken(name: str, tmp_path: Path) -> None:
    assert len(network.interface(Layout.of(name, tmp_path).name)) <= 15


def test_this_process_is_itself_and_not_another_of_its_pid() -> None:
    me = Identity.of(os.getpid())
    assert me is not None
    assert me.alive()
    assert Identity.parse(str(me)) == me
    assert not Identity(me.pid, me.start + 1, me.boot).alive()
    assert not Identity(me.pid, me.start, "another boot").alive()


def test_free_ports_are_distinct() -> None:
    assert len(set(ports.free(20))) == 20


def test_built_programs_are_kept_apart_by_all_that_makes_them(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(parts, "MODULES", tmp_path)
    monkeypatch.setenv("GKM_DEVCLUSTER_CACHE", str(tmp_path / "cache"))
    (tmp_path / "m").mkdir()
    (tmp_path / "m/go.mod").write_text("module m\n")

    seen = {binaries.module_folder(Module("m"), "go1.26.1")}
    seen.add(binaries.module_folder(Module("m"), "go1.26.2"))
    seen.add(binaries.module_folder(Module("m", tags="seccomp"), "go1.26.1"))
    seen.add(binaries.module_folder(Module("m", cgo=True), "go1.26.1"))
    (tmp_path / "m/go.sum").write_text("x v1 h1:abc\n")
    seen.add(binaries.module_folder(Module("m"), "go1.26.1"))
    assert len(seen) == 5
    assert binaries.module_folder(Module("m"), "go1.26.1") in seen
    assert {folder.parent for folder in seen} == {tmp_path / "cache"}


def test_kubernetes_is_pinned_once_and_its_parts_follow() -> None:
    version = parts.KUBERNETES.kubernetes_version
    assert version is not None
    replaced = [
        line.split("=>")[1].split()
        for line in (parts.KUBERNETES.folder / "go.mod").read_text().splitlines()
        if "=>" in line
    ]
    assert len(replaced) == 33
    assert {v for _, v in replaced} == {version.replace("v1.", "v0.", 1)}
    assert f"gitVersion={version}" in parts.KUBERNETES.ldflags


def test_every_program_is_a_tool_of_its_module() -> None:
    for program in parts.programs(nodes=1):
        if program.package != ".":
            assert f"\t{program.package}\n" in (program.module.folder / "go.mod").read_text() or (
                f"tool {program.package}" in (program.module.folder / "go.mod").read_text()
            )


def test_an_image_archive_is_whole_and_always_the_same(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_bytes(b"\x7fELF pretended")
    images.pause(tmp_path / "a.tar", program)
    images.pause(tmp_path / "b.tar", program)
    assert (tmp_path / "a.tar").read_bytes() == (tmp_path / "b.tar").read_bytes()

    with tarfile.open(tmp_path / "a.tar") as tar:
        files = {member.name: tar.extractfile(member).read() for member in tar}
    for name, data in files.items():
        if name.startswith("blobs/"):
            assert hashlib.sha256(data).hexdigest() == name.rsplit("/", 1)[1]
    (entry,) = json.loads(files["index.json"])["manifests"]
    assert entry["annotations"]["io.containerd.image.name"] == images.PAUSE
    manifest = json.loads(files[blob(entry)])
    config = json.loads(files[blob(manifest["config"])])
    assert config["rootfs"]["diff_ids"] == [layer["digest"] for layer in manifest["layers"]]
    assert all(len(files[blob(layer)]) == layer["size"] for layer in manifest["layers"])


def blob(descriptor: dict[str, str]) -> str:
    return f"blobs/sha256/{descriptor['digest'].removeprefix('sha256:')}"


def test_an_audit_log_is_read_from_a_mark_and_without_a_line_that_is_being_written(tmp_path: Path) -> None:
    def line(user: str, verb: str) -> str:
        event = {
            "auditID": "1",
            "stage": "ResponseComplete",
            "verb": verb,
            "requestURI": "/",
            "user": {"username": user},
        }
        return json.dumps(event) + "\n"

    log = tmp_path / "audit.log"
    log.write_text(line("a", "create"))
    mark = log.stat().st_size
    log.write_text(line("a", "create") + line("a", "get") + line("b", "delete") + line("c", "patch")[:-9])
    assert audit.writes_by_user(audit.read(log)) == {"a": 1, "b": 1}
    assert audit.writes_by_user(audit.read(log, offset=mark)) == {"b": 1}
