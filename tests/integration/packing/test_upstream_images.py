"""Images that upstream's own tool built unpack to the caches they were built from."""

import tarfile
from pathlib import Path

import pytest

from gkm.images.bridge import unpack_image
from gkm.images.image import fetch_image
from gkm.images.layout import LayoutRepository
from gkm.images.pack import pack
from gkm.images.reference import parse_reference
from support import archives


def extracted(archive: Path, into: Path) -> Path:
    with tarfile.open(archive) as opened:
        # Python before 3.11.4 has no filters; these archives are our own samples.
        opened.extraction_filter = getattr(tarfile, "data_filter", None)
        opened.extractall(into)
    return into


def below(prefix: str, name: str) -> str | None:
    return name.removeprefix(prefix) if name.startswith(prefix) else None


@pytest.mark.parametrize(("cache", "kind"), [("vector-add-cache", "triton"), ("vllm-cache", "vllm")])
async def test_upstream_image(sample_dir: Path, tmp_path: Path, cache: str, kind: str) -> None:
    extracted(sample_dir / f"mcv-images/{cache}.oci.tar", tmp_path / "layout")
    original = extracted(sample_dir / f"{cache}.tar.xz", tmp_path / "original")
    layout = LayoutRepository(tmp_path / "layout")
    image = await fetch_image(layout, parse_reference(f"oci:{tmp_path}/layout"))
    assert image.config.rootfs.diff_ids

    await unpack_image(layout, image, tmp_path / "tree", select=lambda name: below(f"io.{kind}.cache/", name))
    expected = {name.partition("/")[2]: data for name, data in archives.contents(original).items()}
    assert archives.contents(tmp_path / "tree") == expected

    await unpack_image(layout, image, tmp_path / "all", select=archives.everything)
    assert (tmp_path / f"all/io.{kind}.manifest/manifest.json").is_file()


def test_a_cache_of_many_identical_files_becomes_small(sample_dir: Path, tmp_path: Path) -> None:
    """The measurement that decided against links (docs/adr/0011): 36 MB in 0.29 MB."""
    root = extracted(sample_dir / "llama-binary-cache.tar.xz", tmp_path / "original")
    image = pack(archives.image_files(root, "io.vllm.cache"), labels={}, title=None, into=tmp_path)
    assert image.files_bytes == 35_691_852
    assert image.size < 300_000
    result = archives.unpacked(tmp_path / "tree", *archives.packed_layers(image))
    assert archives.contents(tmp_path / "tree/io.vllm.cache") == archives.contents(root)
    assert len({member.digest for member in result.members}) == 9
