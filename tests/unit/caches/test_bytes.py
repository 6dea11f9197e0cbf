"""Facts read from bytes that are never loaded: ELF headers, texts inside pickles, absolute paths."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gkm.caches.formats.artifact import read_artifact
from gkm.caches.formats.elf import elf_target
from gkm.caches.formats.facts import targets_in, toolchain_in
from gkm.caches.formats.paths import absolute_paths, stood_at
from gkm.caches.model import Target
from support.made_caches import artifact, elf


@pytest.mark.parametrize(
    ("machine", "flags", "abi", "target"),
    [
        (190, 0x4B054B, 7, Target(backend="cuda", arch="sm_75", warp_size=32)),
        (190, 0x9005A04, 8, Target(backend="cuda", arch="sm_90", warp_size=32)),
        (190, 0x9006402, 8, Target(backend="cuda", arch="sm_100", warp_size=32)),
        (224, 0x3F, 2, Target(backend="hip", arch="gfx90a", warp_size=64)),
        (224, 0x41, 3, Target(backend="hip", arch="gfx1100", warp_size=32)),
        (62, 0, 0, Target(backend="cpu", arch="x86_64", warp_size=0)),
        (183, 0, 0, Target(backend="cpu", arch="aarch64", warp_size=0)),
        (224, 0xFF, 3, None),
        (8, 0, 0, None),
    ],
)
def test_an_elf_header_tells_the_processor(machine: int, flags: int, abi: int, target: Target | None) -> None:
    assert elf_target(elf(machine, flags, abi)) == target


@given(st.binary(max_size=80))
def test_any_bytes_are_an_elf_header_or_none(data: bytes) -> None:
    elf_target(data)
    elf_target(b"\x7fELF\x02\x01" + data)


def test_text_decides_over_device_code_and_device_code_over_host_code() -> None:
    text = b'x"target": {"backend": "hip", "arch": "gfx90a", "warp_size": 64}y'
    device, host = elf(190, 0x9005A04, 8), elf(62)

    assert {t.arch for t in targets_in(text + device + host)} == {"gfx90a"}
    assert {t.arch for t in targets_in(device + host)} == {"sm_90"}
    assert {t.arch for t in targets_in(host)} == {"x86_64"}
    assert targets_in(b"") == set()


def test_inductors_device_properties_tell_the_target() -> None:
    hip = (
        b"DeviceProperties(type='hip', index=0, multi_processor_count=104, cc='gfx90a', major=9, "
        b"regs_per_multiprocessor=65536, max_threads_per_multi_processor=2048, warp_size=64)"
    )
    cuda = b"DeviceProperties(type='cuda', index=0, multi_processor_count=40, cc=75, major=7)"

    assert targets_in(hip) == {Target(backend="hip", arch="gfx90a", warp_size=64)}
    assert targets_in(cuda) == {Target(backend="cuda", arch="sm_75", warp_size=32)}


def test_versions_are_found_and_known_ones_win() -> None:
    data = (
        b'"triton_version": "3.5.1"\n# torch version: 2.9.1+cu128\n# torch cuda version: 12.8\n'
        b"\0Cuda compilation tools, release 13.4, V13.4.59\0"
    )

    found = toolchain_in(data)

    assert (found.triton, found.torch, found.cuda, found.ptxas) == ("3.5.1", "2.9.1+cu128", "12.8", "13.4.59")
    assert toolchain_in(data, cuda="12.9").cuda == "12.9"
    assert toolchain_in(b"# torch cuda version: None").cuda is None


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b"'/tmp/torchinductor_me/ab/file.py'", {"/tmp/torchinductor_me": "cache"}),
        (b"dir = '/workspace/.cache/inductor'", {"/workspace/.cache/inductor": "cache"}),
        (b"# kernel path: /c/vllm/torch_compile_cache/h/x.py\n", {"/c/vllm": "cache"}),
        (b"\x8c\x20/old/place/d6/cd6" + b"a" * 49 + b".py", {"/old/place": "cache"}),
        (
            b'File "/usr/lib/python3/dist-packages/vllm/a.py", line 1',
            {"/usr/lib/python3/dist-packages": "installation"},
        ),
        (b"'/v/lib/site-packages/torch/_inductor/x.py'", {"/v/lib/site-packages": "installation"}),
        (b"# File: /workspace/model.py:10 in forward", {"/workspace/model.py": "source"}),
        (b"#include <torch/csrc/inductor/cpp_prefix.h>", {}),
        (b"x = a/b/c.py + 1 // 2", {}),
        (b"'/proc/self/x.py' '/etc/hosts'", {}),
    ],
)
def test_absolute_paths_are_cut_to_what_matters(data: bytes, found: dict[str, str]) -> None:
    assert absolute_paths(data) == found


@pytest.mark.parametrize(
    ("path", "now", "root"),
    [
        ("/a/b/K/f", "K/f", "/a/b"),
        ("/a/b/K/f", "b/K/f", "/a"),
        ("/a/b/K/f", "new/K/f", "/a/b"),
        ("/K/f", "K/f", "/"),
        ("/K/f", "x/K/f", "/"),
        ("/a/K/other", "K/f", "/a/K/other"),
    ],
)
def test_where_a_tree_stood(path: str, now: str, root: str) -> None:
    assert stood_at(path, now) == root


@given(st.binary(max_size=200))
def test_any_bytes_are_an_artifact_or_none(data: bytes) -> None:
    assert read_artifact(data) is None


@given(st.binary(max_size=100), st.binary(min_size=32, max_size=32), st.data())
def test_an_artifact_is_read_whole_and_refused_when_one_bit_flips(
    payload: bytes, torch_key: bytes, data: st.DataObject
) -> None:
    good = artifact(payload, torch_key)
    read = read_artifact(good)
    assert read is not None
    assert read.torch_key == torch_key.hex()

    bit = data.draw(st.integers(0, len(good) * 8 - 1))
    bad = bytearray(good)
    bad[bit // 8] ^= 1 << bit % 8
    assert read_artifact(bytes(bad)) is None
