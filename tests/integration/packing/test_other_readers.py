"""Our images through the tools that others read images with: the same files come out."""

import shutil
import subprocess
from pathlib import Path

import pytest

from gkm.images.filelist import LIST_PATH
from gkm.images.layout import LayoutRepository
from gkm.images.limits import Compression
from gkm.images.pack import PackedImage, pack
from support import archives, parts

FILES = {
    "HASH/__grp__add.json": b'{"child_paths": {"add.cubin": "/root/.triton/cache/HASH/add.cubin"}}',
    "HASH/add.cubin": bytes(range(256)) * 500,
    "OTHER/add.cubin": bytes(range(256)) * 500,
    "OTHER/launcher.so": b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x03\x00\x3e\x00" + bytes(5000),
    "deep/" + "component-of-a-long-path/" * 8 + "entry": b"",
}
COMPRESSIONS: list[Compression] = ["gzip", "zstd"]


async def write_layout(directory: Path, compression: Compression) -> PackedImage:
    """A layout directory with FILES as an image tagged ``cache``, one file executable."""
    root = archives.write_tree(directory / "root", FILES)
    (root / "OTHER/launcher.so").chmod(0o755)
    image = pack(
        archives.image_files(root, "io.triton.cache"),
        labels={"cache.triton.image/entry-count": "2"},
        title="test",
        compression=compression,
        into=directory,
    )
    repository = LayoutRepository(directory / "layout")
    for descriptor, path in image.blobs:
        await repository.write_blob(descriptor, path)
    await repository.write_manifest(image.manifest, image.manifest_descriptor.media_type, "cache")
    return image


def assert_same_files(rootfs: Path) -> None:
    assert archives.contents(rootfs / "io.triton.cache") == FILES
    assert (rootfs / "io.triton.cache/OTHER/launcher.so").stat().st_mode & 0o777 == 0o755
    assert (rootfs / "io.triton.cache/HASH/add.cubin").stat().st_mode & 0o777 == 0o644
    subprocess.run(["sha256sum", "--check", "--quiet", LIST_PATH], cwd=rootfs, check=True)


def run(*command: str | Path) -> str:
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


async def test_umoci_unpacks_the_gzip_form(tmp_path: Path, umask_022: None) -> None:
    umoci = parts.need_program("umoci", "umoci")
    await write_layout(tmp_path, "gzip")
    run(umoci, "unpack", "--rootless", "--image", f"{tmp_path}/layout:cache", tmp_path / "bundle")
    assert_same_files(tmp_path / "bundle/rootfs")


@pytest.mark.parametrize("compression", COMPRESSIONS)
async def test_skopeo_copies_and_inspects(tmp_path: Path, compression: Compression) -> None:
    """It checks every digest, the diff IDs among them where it decompresses."""
    skopeo = parts.need_program("skopeo", "skopeo")
    image = await write_layout(tmp_path, compression)
    policy = ["--insecure-policy"]
    source, copy = f"oci:{tmp_path}/layout:cache", f"oci:{tmp_path}/copy:cache"
    run(skopeo, *policy, "copy", "--preserve-digests", source, copy)
    assert (tmp_path / "copy/blobs" / image.digest.replace(":", "/")).is_file()
    assert '"cache.triton.image/entry-count": "2"' in run(skopeo, "inspect", copy)

    run(skopeo, *policy, "copy", "--dest-decompress", source, f"dir:{tmp_path}/plain")
    (archive,) = [path for path in (tmp_path / "plain").iterdir() if path.stat().st_size > 100_000]
    (tmp_path / "rootfs").mkdir()
    run("tar", "-C", tmp_path / "rootfs", "-xpf", archive)
    assert_same_files(tmp_path / "rootfs")


@pytest.mark.root
@pytest.mark.parametrize("compression", COMPRESSIONS)
async def test_buildah_pulls_and_mounts(
    tmp_path: Path, compression: Compression, monkeypatch: pytest.MonkeyPatch
) -> None:
    buildah = parts.need_program("buildah", "buildah")
    monkeypatch.delenv("DOCKER_CONFIG")  # it insists on the file being there
    await write_layout(tmp_path, compression)
    state = ["--storage-driver", "vfs", "--root", str(tmp_path / "root-of-buildah")]
    state += ["--runroot", str(tmp_path / "run-of-buildah")]
    policy = tmp_path / "policy.json"
    policy.write_text('{"default": [{"type": "insecureAcceptAnything"}]}')
    container = run(
        *[buildah, *state, "from", "--pull-always", "--signature-policy", policy],
        f"oci:{tmp_path}/layout:cache",
    ).strip()
    try:
        rootfs = Path(run(buildah, *state, "mount", container).strip())
        assert_same_files(rootfs)
    finally:
        run(buildah, *state, "umount", container)
        run(buildah, *state, "rm", container)
        shutil.rmtree(tmp_path / "root-of-buildah")
