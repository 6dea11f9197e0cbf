"""Names obey Kubernetes' syntax and keep upstream's bytes."""

import re

import pytest

from gkm.api import names

QUALIFIED = re.compile(
    r"([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
)


@pytest.mark.parametrize("name", [*names.Label, *names.Annotation, *names.Finalizer])
def test_keys_are_qualified_names(name: str) -> None:
    assert QUALIFIED.fullmatch(name)


@pytest.mark.parametrize("word", [*names.ConditionType, *names.Reason, *names.EventReason])
def test_words_of_conditions_and_events_are_camel_case(word: str) -> None:
    assert re.fullmatch("([A-Z][A-Za-z]*)", word)


@pytest.mark.parametrize(
    ("name", "upstream"),
    [
        (names.Label.PVC_MUTATION, "gkm.io/pvc-mutation"),
        (names.Label.SIGNATURE_FORMAT, "gkm.io/signature-format"),
        (names.Annotation.RESOLVED_DIGEST, "gkm.io/resolvedDigest"),
        (names.Annotation.CACHE_SIZE_BYTES, "gkm.io/cache-size-bytes"),
        (names.Annotation.MUTATION_SIGNATURE, "gkm.io/mutationSig"),
        (names.Annotation.LAST_MUTATED_BY, "gkm.io/lastMutatedBy"),
        (names.Finalizer.GKM_CACHE, "gkm.io.gkmcachenode/finalizer"),
        (names.Finalizer.CLUSTER_GKM_CACHE, "gkm.io.clustergkmcachenode/finalizer"),
        (names.CSI_DRIVER, "csi.gkm.io"),
        (names.CSI_ATTRIBUTE_CACHE, "csi.gkm.io/GKMCache"),
        (names.CSI_ATTRIBUTE_NAMESPACE, "csi.gkm.io/namespace"),
    ],
)
def test_upstream_names_stay(name: str, upstream: str) -> None:
    assert name == upstream
