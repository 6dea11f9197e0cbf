"""Our labels of real caches against those that upstream's own tool put on its images of the same caches."""

import json
import tarfile
from pathlib import Path

import pytest

from gkm.caches.image_paths import manifests
from gkm.caches.labels import formats_from_labels, image_labels, targets_from_labels
from gkm.caches.model import Inventory
from gkm.caches.scan import scan
from support.parts import samples
from support.samples import extract


def sample(name: str, directory: Path) -> Inventory:
    with tarfile.open(samples() / f"{name}.tar.xz") as archive:
        extract(archive, directory)
    return scan(directory / name)


def labels_by_mcv(name: str) -> dict[str, str]:
    with tarfile.open(samples() / f"mcv-images/{name}.oci.tar") as archive:

        def document(path: str) -> dict[str, object]:
            file = archive.extractfile("./" + path)
            assert file is not None
            content: dict[str, object] = json.load(file)
            return content

        def blob(descriptor: object) -> dict[str, object]:
            assert isinstance(descriptor, dict)
            return document("blobs/" + descriptor["digest"].replace(":", "/"))

        index = document("index.json")
        manifest = blob(index["manifests"][0])  # type: ignore[index]
        labels: dict[str, str] = blob(manifest["config"])["config"]["Labels"]  # type: ignore[index]
        return labels


@pytest.mark.parametrize("name", ["vector-add-cache", "vllm-cache"])
def test_mcvs_labels_are_ours_and_read_back_as_what_the_cache_holds(name: str, tmp_path: Path) -> None:
    theirs = labels_by_mcv(name)
    inventory = sample(name, tmp_path)
    ours = image_labels(inventory)
    # The title is taken from the reference, which no inventory knows.
    assert {key: value for key, value in ours.items() if not key.startswith("gkm.io/")} == {
        key: value for key, value in theirs.items() if key != "org.opencontainers.image.title"
    }
    assert targets_from_labels(theirs) == targets_from_labels(ours) == inventory.targets
    assert formats_from_labels(theirs) == formats_from_labels(ours)


def test_vllms_environment_stays_out_of_labels_and_manifest(tmp_path: Path) -> None:
    inventory = sample("llama-binary-cache", tmp_path)
    (factors,) = tmp_path.rglob("cache_key_factors.json")
    environment = json.loads(factors.read_bytes())["env"]
    assert "VLLM_API_KEY" in environment
    written = json.dumps(image_labels(inventory)) + "".join(d.decode() for d in manifests(inventory).values())
    assert not [name for name in environment if name in written.replace("VLLM_CACHE_ROOT=", "")]
