"""Good objects through kubectl: what first users write, the columns they see, and our own structs."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gkm.api.cache import CacheSpec, GKMCache
from gkm.api.definitions import DEFINITIONS, Definition
from gkm.api.grant import CacheReference, GKMGrant, GrantSpec
from gkm.api.meta import Condition, ConditionStatus, Object, ObjectMeta
from gkm.api.names import ConditionType, Reason
from gkm.api.node import DetectedGPUs, DigestReport, GKMCacheNode, GPUVerdict, NodeStatus, PodUse
from gkm.api.status import CacheStatus, Counts, Target
from gkm.api.values import (
    CacheKind,
    Delivery,
    Observation,
    Phase,
    StageState,
    Staging,
    Verdict,
    WhenUnavailable,
)
from gkm.api.wire import API_VERSION
from support.devcluster import Cluster

DIGEST = "sha256:" + "a" * 64
NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
COUNTS = Counts(
    node_cnt=10,
    node_in_use_cnt=4,
    node_not_in_use_cnt=3,
    node_error_cnt=2,
    pod_running_cnt=7,
    pod_deleting_cnt=1,
    pod_outdated_cnt=5,
)
STATUS = CacheStatus(
    observed_generation=1,
    phase=Phase.RUNNING,
    resolved_digest=DIGEST,
    delivery=Delivery.CSI,
    targets=(Target(backend="cuda", arch="sm_90", warp_size=32),),
    counts=COUNTS,
    conditions=(
        Condition(
            type=ConditionType.READY,
            status=ConditionStatus.FALSE,
            reason=Reason.STAGING,
            message="3 of 4 nodes",
            last_transition_time=NOW,
        ),
    ),
    last_updated=NOW,
)


def documents(path: Path) -> list[dict[str, Any]]:
    return [msgspec.yaml.decode(text) for text in path.read_text().split("\n---\n")]


@pytest.fixture
def namespaces_of_first_users(with_crds: Cluster, sample_dir: Path) -> list[Path]:
    """The sample manifests, with every namespace that they name."""
    files = sorted((sample_dir / "manifests").glob("*.yaml"))
    names = {document["metadata"].get("namespace") for path in files for document in documents(path)} - {None}
    made = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in sorted(names)]
    everything = msgspec.json.encode({"apiVersion": "v1", "kind": "List", "items": made}).decode()
    with_crds.kubectl("apply", "-f", "-", stdin=everything)
    for name in names:
        with_crds.kubectl("wait", "-n", name, "--for=create", "--timeout=30s", "serviceaccount/default")
    return files


@pytest.mark.parametrize("mode", ["--server-side=false", "--server-side"])
def test_manifests_of_first_users_are_accepted_unchanged(
    mode: str, with_crds: Cluster, namespaces_of_first_users: list[Path]
) -> None:
    assert namespaces_of_first_users
    for path in namespaces_of_first_users:
        try:
            told = with_crds.run_kubectl("apply", mode, "--filename", str(path))
            assert (told.returncode, told.stderr) == (0, ""), path.name
            for document in documents(path):
                if document["apiVersion"] == API_VERSION:
                    assert includes(stored(with_crds, document)["spec"], document["spec"]), path.name
        finally:
            with_crds.kubectl("delete", "--ignore-not-found", "--filename", str(path))


def stored(cluster: Cluster, document: dict[str, Any]) -> dict[str, Any]:
    metadata = document["metadata"]
    where = ("--namespace", metadata["namespace"]) if "namespace" in metadata else ()
    found: dict[str, Any] = msgspec.json.decode(
        cluster.kubectl("get", document["kind"], metadata["name"], *where, "--output", "json")
    )
    return found


def includes(found: Any, wanted: Any) -> bool:
    """Whether all of `wanted` is in `found`; what the API server filled in beside it is no difference."""
    if isinstance(wanted, dict):
        return all(key in found and includes(found[key], value) for key, value in wanted.items())
    return bool(found == wanted)


def test_defaults_are_filled_in(server) -> None:
    body = {
        "apiVersion": API_VERSION,
        "kind": "GKMCache",
        "metadata": {"name": "plain"},
        "spec": {"image": "registry.example/a:1"},
    }
    assert server.create(body)["spec"] == {
        "image": "registry.example/a:1",
        "accessModes": ["ReadWriteOnce"],
        "staging": "Eager",
        "mountPath": "/cache",
        "whenUnavailable": "StartCold",
        "waitSeconds": 30,
    }


@pytest.mark.parametrize("limit", [1, 2 * 10**9, "2000000000", "2Gi", "500M"])
@pytest.mark.parametrize(
    "image",
    [
        "registry.example/a",
        "registry.example:5000/a/b_c/d--e:v1.2-rc_3",
        f"registry.example/a@{DIGEST}",
        f"localhost:5000/a:1@{DIGEST}",
        "[::1]:5000/a:1",
        "127.0.0.1:5000/a:1",
    ],
)
def test_images_and_limits_that_are_fine(image: str, limit: int | str, server) -> None:
    body = {
        "apiVersion": API_VERSION,
        "kind": "ClusterGKMCache",
        "metadata": {"generateName": "fine-"},
        "spec": {"image": image, "writeLimit": limit},
    }
    made = server.create(body)
    server.delete(made)
    assert made["kind"] == "ClusterGKMCache", made
    assert made["spec"]["writeLimit"] == limit


SAMPLES: dict[str, Object] = {
    "GKMCache": GKMCache(
        metadata=ObjectMeta(name="ours"),
        spec=CacheSpec(image="registry.example/a:1", delivery=Delivery.CSI),
        status=STATUS,
    ),
    "GKMCacheNode": GKMCacheNode(
        metadata=ObjectMeta(name="node-1"),
        status=NodeStatus(
            node_name="node-1",
            counts=COUNTS,
            gpus=(DetectedGPUs(gpu_type="H100", driver_version="580.1", ids=(0, 1)),),
            caches={
                "ours": {
                    DIGEST: DigestReport(
                        state=StageState.STAGED,
                        bytes=2**40,
                        gpus=(GPUVerdict(id=0, verdict=Verdict.INCOMPATIBLE, reason="ArchMismatch"),),
                        compatible_gpus=(),
                        incompatible_gpus=(0,),
                        pods=(
                            PodUse(
                                uid="u1",
                                namespace="n",
                                name="p",
                                hits=12,
                                misses=0,
                                observation=Observation.COMPLETE,
                            ),
                            PodUse(
                                uid="u2", namespace="n", name="q", cold=True, observation=Observation.NONE
                            ),
                        ),
                        last_updated=NOW,
                    )
                }
            },
        ),
    ),
    "GKMGrant": GKMGrant(
        metadata=ObjectMeta(name="0-1-2"),
        spec=GrantSpec(
            cache=CacheReference(kind=CacheKind.GKM_CACHE, namespace="n", name="ours", uid="0-1-2"),
            digests=(DIGEST,),
            image=f"registry.example/a@{DIGEST}",
            targets=(Target(backend="cuda", arch="sm_90", warp_size=32),),
            bytes=2**40,
            namespaces=("n",),
            staging=Staging.EAGER,
            when_unavailable=WhenUnavailable.START_COLD,
            wait_seconds=30,
        ),
    ),
}


@pytest.mark.parametrize("kind", SAMPLES)
def test_what_a_struct_says_is_stored_and_read_back(kind: str, server) -> None:
    ours = SAMPLES[kind]
    body = msgspec.json.decode(msgspec.json.encode(ours))
    made = server.create(body)
    assert made["kind"] == kind, made
    if "status" in body:
        made = server.replace(body, made, "status")
        assert made["kind"] == kind, made
    read = msgspec.convert(made, type(ours))
    assert includes(msgspec.to_builtins(read), msgspec.to_builtins(ours))
    server.delete(made)


def test_grant_without_digests_is_a_grant(server) -> None:
    grant = SAMPLES["GKMGrant"]
    assert isinstance(grant, GKMGrant)
    empty = msgspec.structs.replace(grant, spec=msgspec.structs.replace(grant.spec, digests=(), image=None))
    made = server.create(msgspec.json.decode(msgspec.json.encode(empty)))
    server.delete(made)
    assert made["kind"] == "GKMGrant", made


def test_columns(with_crds: Cluster, home: str, server) -> None:
    made = server.create(
        {
            "apiVersion": API_VERSION,
            "kind": "GKMCache",
            "metadata": {"name": "shown"},
            "spec": {"image": "registry.example/a:1"},
        }
    )
    server.replace({**made, "status": msgspec.to_builtins(STATUS)}, made, "status")
    get = ("get", "gkmc", "shown", "--namespace", home)
    header, row = (line.split() for line in with_crds.kubectl(*get).splitlines())
    counters = ["NODES", "NODE-IN-USE", "NODE-NOT-IN-USE", "NODE-ERROR", "POD-RUNNING", "POD-OUTDATED"]
    usual = ["NAME", "AGE", "STATUS", *counters]
    assert header == usual
    assert [row[0], *row[2:]] == ["shown", "Running", "10", "4", "3", "2", "7", "5"]
    header, row = (line.split() for line in with_crds.kubectl(*get, "--output", "wide").splitlines())
    assert header == [*usual, "DIGEST", "DELIVERY"]
    assert row[-2:] == [DIGEST, "CSI"]


@pytest.mark.parametrize("definition", DEFINITIONS, ids=lambda definition: definition.kind)
def test_printed_columns_are_those_of_the_definition(
    definition: Definition, server, with_crds: Cluster
) -> None:
    sample = msgspec.json.decode(msgspec.json.encode(SAMPLES[definition.kind.removeprefix("Cluster")]))
    made = server.create({**sample, "kind": definition.kind})
    get = ["get", definition.short_name, "--output", "wide"]
    if definition.namespaced:
        get += ["--namespace", made["metadata"]["namespace"]]
    printed = with_crds.kubectl(*get).splitlines()[0].split()
    server.delete(made)
    usual = [column.name.upper() for column in definition.columns if not column.wide]
    assert printed == ["NAME", *usual, *(column.name.upper() for column in definition.columns if column.wide)]


def test_category_lists_all_kinds(with_crds: Cluster) -> None:
    listed = with_crds.kubectl("api-resources", "--categories=gkm", "--no-headers").splitlines()
    assert sorted(line.split()[0] for line in listed) == sorted(
        definition.plural for definition in DEFINITIONS
    )
