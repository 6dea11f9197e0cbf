"""What the ``index.json`` of a layout directory says, and how it changes (image-spec, image-layout.md).

Pure: `gkm.images.layout` does the reading and writing.
"""

from typing import Any

import msgspec

from gkm.images.errors import AmbiguousReferenceError, NotFoundError
from gkm.images.media import REF_NAME, Descriptor, Index
from gkm.images.reference import DEFAULT_TAG, LayoutReference


def choose(index: Index, reference: LayoutReference) -> Descriptor:
    """The entry that `reference` means: by digest, by tag, or the only one.

    Tools that make one image per directory leave out the tag (MCV through buildah does), so a directory's
    only image is found without one. Of several, the one tagged ``latest`` is meant, as in a registry.

    Raises:
        NotFoundError: no such digest or tag, or no image at all.
        AmbiguousReferenceError: several fit; the message lists the tags.
    """
    wanted, named = list(index.manifests), "image"
    if reference.digest:
        wanted, named = [d for d in wanted if d.digest == reference.digest], reference.digest
    elif reference.tag:
        wanted, named = [d for d in wanted if _tag(d) == reference.tag], f"tag {reference.tag!r}"
    elif len({d.digest for d in wanted}) > 1:
        wanted = [d for d in wanted if _tag(d) == DEFAULT_TAG] or wanted
    tags = ", ".join(sorted({tag for d in index.manifests if (tag := _tag(d))})) or "none"
    if not wanted:
        raise NotFoundError(f"there is no {named} in {reference.directory}: its tags are {tags}")
    if len({d.digest for d in wanted}) > 1:
        raise AmbiguousReferenceError(
            f"{reference} fits {len(wanted)} images: add :TAG (tags there: {tags}) or @DIGEST"
        )
    return wanted[0]


def listed(document: dict[str, Any], descriptor: Descriptor, tag: str | None) -> dict[str, Any]:
    """`document`, the decoded ``index.json``, with `descriptor` in it, under `tag` alone if one is given.

    An image that loses its tag here loses its entry, else a directory packed into twice would hold two
    images without saying which is meant. What other tools wrote beside stays, unknown fields included.
    """
    kept = [entry for entry in document["manifests"] if not _superseded(entry, descriptor, tag)]
    if tag is None and any(entry["digest"] == descriptor.digest for entry in kept):
        return document
    if tag is not None:
        descriptor = msgspec.structs.replace(
            descriptor, annotations={**descriptor.annotations, REF_NAME: tag}
        )
    return {**document, "manifests": [*kept, msgspec.to_builtins(descriptor)]}


def _superseded(entry: dict[str, Any], descriptor: Descriptor, tag: str | None) -> bool:
    if tag is None:
        return False
    own = (entry.get("annotations") or {}).get(REF_NAME)
    return own == tag or (own is None and entry["digest"] == descriptor.digest)


def _tag(descriptor: Descriptor) -> str | None:
    return descriptor.annotations.get(REF_NAME)
