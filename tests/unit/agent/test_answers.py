"""What pods are answered, and what asking sets off."""

import asyncio

import msgspec
import pytest

from gkm.agent.answers import Answer, Answers
from gkm.agent.fitness import Hardware
from gkm.agent.plan import Failure
from gkm.agent.state import NodeState
from gkm.api.grant import GKMGrant
from gkm.api.values import CacheKind, WhenUnavailable
from gkm.gpus.simulated import parse_simulated
from support.granting import HOST, SM_90, digest, grant

A, B = digest("a"), digest("b")


class Node:
    """Answers over grants and a state that the test sets."""

    def __init__(self, *grants: GKMGrant, gpus: str = "A100", synced: bool = True) -> None:
        self.grants = list(grants)
        self.state = NodeState()
        self.demanded: list[str] = []
        self.now = 0.0
        self.answers = Answers(
            self.state,
            grants=lambda: self.grants,
            synced=lambda: synced,
            judge=Hardware(parse_simulated(gpus)).judge,
            demand=lambda _, digest: self.demanded.append(digest),
            clock=lambda: self.now,
        )

    def ask(
        self, name: str = "vector-add", pod_namespace: str = "dev", *, namespace: str | None = "dev"
    ) -> Answer:
        kind = CacheKind.GKM_CACHE if namespace else CacheKind.CLUSTER_GKM_CACHE
        return self.answers.lookup(kind, namespace, name, pod_namespace)


def test_a_staged_and_granted_digest_is_served_and_promised() -> None:
    node = Node(grant(A))
    node.state.staged[A] = 10
    assert node.ask().digest == A
    assert A in node.state.promised


def test_the_newest_staged_digest_is_served_without_waiting_for_a_newer_one() -> None:
    node = Node(grant(A, B))
    node.state.staged[B] = 10
    assert node.ask().digest == B
    assert node.demanded == [A]
    node.state.staged[A] = 10
    assert node.ask().digest == A


def test_a_tree_that_is_staged_but_no_longer_granted_is_not_served() -> None:
    node = Node(grant(A))
    node.state.staged[B] = 10
    answer = node.ask()
    assert (answer.digest, answer.awaited) == (None, A)


def test_missing_and_forbidden_caches_are_answered_alike() -> None:
    node = Node(grant(A, name="there"), grant(A, name="theirs", namespace=None, namespaces=("prod",)))
    node.state.staged[A] = 10
    missing = node.ask("nowhere")
    assert missing == node.ask("there", "other")
    assert missing == node.ask("theirs", "dev", namespace=None)
    assert not missing.final
    assert missing.wait_seconds == 30.0
    assert node.demanded == []
    assert node.ask("theirs", "prod", namespace=None).digest == A


def test_a_cluster_cache_open_to_all_serves_every_namespace() -> None:
    node = Node(grant(A, namespace=None))
    node.state.staged[A] = 10
    assert node.ask("vector-add", "anywhere", namespace=None).digest == A


def test_a_cache_that_does_not_fit_is_final_and_downloads_nothing() -> None:
    node = Node(grant(A, targets=(SM_90,)))
    answer = node.ask()
    assert (answer.digest, answer.final, answer.reason) == (None, True, "ArchMismatch")
    assert "sm_90" in answer.message
    assert node.demanded == []


def test_a_node_without_gpus_is_final_too() -> None:
    answer = Node(grant(A), gpus="none").ask()
    assert (answer.final, answer.reason) == (True, "NoGPU")


def test_wait_is_never_final_and_waits_as_long_as_it_takes() -> None:
    for waiting in (
        grant(A, targets=(SM_90,), when_unavailable=WhenUnavailable.WAIT),
        grant(A, when_unavailable=WhenUnavailable.WAIT, ending=True),
        grant(A, when_unavailable=WhenUnavailable.WAIT),
    ):
        answer = Node(waiting).ask()
        assert not answer.final
        assert answer.wait_seconds is None


@pytest.mark.parametrize(
    ("when", "seconds"), [(WhenUnavailable.WAIT, None), (WhenUnavailable.START_COLD, 7.0)]
)
def test_with_a_digest_it_is_told_how_long_to_wait_should_that_not_be_mountable(
    when: WhenUnavailable, seconds: float | None
) -> None:
    node = Node(grant(A, when_unavailable=when, wait_seconds=7))
    node.state.staged[A] = 10
    assert (node.ask().digest, node.ask().wait_seconds) == (A, seconds)


def test_asking_is_the_first_use_that_staging_waits_for() -> None:
    node = Node(grant(A, wait_seconds=7))
    answer = node.ask()
    assert (answer.reason, answer.awaited, answer.wait_seconds) == ("Staging", A, 7.0)
    assert node.demanded == [A]


def test_it_is_told_who_is_slow() -> None:
    node = Node(grant(A))
    assert "turn" in node.ask().message
    node.state.begin(A, 10)
    assert f"{HOST} has sent nothing" in node.ask().message
    node.state.moving.add(A)
    assert f"{HOST} is still sending" in node.ask().message
    node.state.begin(A, 10)
    assert f"{HOST} has sent nothing" in node.ask().message


def test_a_failure_is_told_as_the_reason() -> None:
    node = Node(grant(A))
    node.state.fail(A, Failure(1, 0, 1, ()), "Unavailable", "the registry is down")
    answer = node.ask()
    assert (answer.reason, answer.message, answer.final) == ("Unavailable", "the registry is down", False)


def test_a_cache_being_deleted_starts_new_pods_cold() -> None:
    node = Node(grant(A, ending=True))
    node.state.staged[A] = 10
    answer = node.ask()
    assert (answer.digest, answer.final, answer.reason) == (None, True, "CacheDeleting")


def test_a_cache_made_again_under_its_name_is_the_new_one() -> None:
    node = Node(grant(A, uid="old", ending=True), grant(B, uid="new"))
    node.state.staged |= {A: 1, B: 1}
    assert node.ask().digest == B


def test_a_cache_of_which_nothing_is_allowed_yet_waits() -> None:
    answer = Node(grant()).ask()
    assert (answer.reason, answer.final, answer.awaited) == ("NotGranted", False, None)


def test_before_the_grants_are_known_nobody_is_refused() -> None:
    answer = Node(grant(A), synced=False).ask()
    assert (answer.reason, answer.final) == ("NotSynced", False)


async def test_whoever_waits_hears_of_the_next_change() -> None:
    node = Node(grant(A))
    waiting = asyncio.create_task(node.answers.changed(60))
    await asyncio.sleep(0)
    assert not waiting.done()
    node.state.succeed(A, 10)
    await waiting
    assert node.ask().digest == A


async def test_waiting_ends_with_its_time() -> None:
    await Node().answers.changed(0.01)


@pytest.mark.parametrize("limit", [None, 5])
def test_the_write_limit_is_handed_on(limit: int | None) -> None:
    given = grant(A)
    node = Node(
        msgspec.structs.replace(given, spec=msgspec.structs.replace(given.spec, write_limit_bytes=limit))
    )
    assert node.ask().write_limit_bytes == limit
    node.state.staged[A] = 1
    assert node.ask().write_limit_bytes == limit
