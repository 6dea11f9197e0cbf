"""A reflector's store equals the server's truth, whatever happened on the way, and its handlers know why."""

import pytest

from gkm.kube.objects import ConfigMap, Key
from gkm.kube.reflector import Reflector
from gkm.kube.store import Change
from support.fault_apiserver import Fault, FaultServer
from support.waiting import until

Mirror = Reflector[ConfigMap]
LIST = pytest.mark.parametrize("reflector", ["list"], indirect=True)
STREAM = pytest.mark.parametrize("reflector", ["stream"], indirect=True)


def mirrored(reflector: Mirror) -> dict[str, tuple[str, str]]:
    return {
        f"{obj.metadata.namespace}/{obj.metadata.name}": (obj.metadata.uid, obj.metadata.resource_version)
        for obj in reflector.store.objects()
    }


async def in_step(server: FaultServer, reflector: Mirror) -> None:
    await until(lambda: reflector.synced.is_set() and mirrored(reflector) == server.truth())


def watch_versions(server: FaultServer) -> list[str]:
    """Where each plain watch (not a streaming list) started from."""
    return [
        a.query["resourceVersion"] for a in server.asked if a.is_watch and "sendInitialEvents" not in a.query
    ]


def lists(server: FaultServer) -> list[dict[str, str]]:
    """What each list asked, page by page."""
    return [asked.query for asked in server.asked if asked.is_list]


@LIST
async def test_lists_and_then_watches_from_there(server: FaultServer, reflector: Mirror) -> None:
    for number in range(20):
        server.put(f"object-{number}")
    await in_step(server, reflector)
    server.put("b")
    server.put("object-1", data={"x": "1"})
    server.remove("b")
    await in_step(server, reflector)
    assert lists(server) == [{"limit": "500", "resourceVersion": "0", "resourceVersionMatch": "NotOlderThan"}]
    assert watch_versions(server) == ["21"]
    assert len(server.asked) == 2


@LIST
async def test_a_list_that_is_cut_is_streamed_and_what_it_held_is_kept(
    server: FaultServer, reflector: Mirror
) -> None:
    for number in range(20):
        server.put(f"object-{number}")
    server.plan.extend([Fault("cut"), Fault("stall", after=0)])
    await until(lambda: len(server.asked) >= 2)
    # The stream is silent; what the cut list had shown is there, and is not taken for everything.
    assert 5 < len(reflector.store) < 20
    assert not reflector.synced.is_set()
    assert server.asked[1].query["sendInitialEvents"] == "true"
    await in_step(server, reflector)


@LIST
async def test_lists_in_parts_keep_the_rules_after_lost_history(
    server: FaultServer, reflector: Mirror
) -> None:
    """Nothing older than what was seen, in one answer; what went meanwhile is told; a new UID is a new object."""
    for name in ("stays", "goes", "changes"):
        server.put(name)
    # The list, then a watch that hears its first bookmark and no more.
    server.plan.extend([None, Fault("stall", after=1)])
    await until(reflector.synced.is_set)
    heard: list[Change[ConfigMap]] = []
    reflector.subscribe(heard.append)
    heard.clear()
    server.remove("goes")
    server.remove("changes")
    server.put("changes")
    server.put("comes")
    server.compact()
    await in_step(server, reflector)
    assert {(c.key.name, c.old is None, c.new is None) for c in heard} == {
        ("goes", False, True),
        ("changes", False, True),
        ("changes", True, False),
        ("comes", True, False),
    }
    assert lists(server)[1:] == [{"resourceVersion": "4", "resourceVersionMatch": "NotOlderThan"}]


@LIST
async def test_a_list_that_is_refused_its_version_asks_for_the_newest_in_pages(
    server: FaultServer, reflector: Mirror
) -> None:
    server.put("a")
    server.plan.extend([None, Fault("gone"), Fault("status", code=410)])
    await until(lambda: len(lists(server)) >= 3)
    await in_step(server, reflector)
    assert [query.get("resourceVersion") for query in lists(server)[:3]] == ["0", "2", None]


@LIST
async def test_storage_restored_to_an_older_state_is_listed(server: FaultServer, reflector: Mirror) -> None:
    for number in range(5):
        server.put(f"object-{number}")
    server.plan.extend([None, Fault("close", after=1)])
    await in_step(server, reflector)
    restore_an_older_state(server)
    await until(lambda: reflector.store.keys() == {Key("ns", "object-0")})
    assert {} in [{k: v for k, v in query.items() if k != "limit"} for query in lists(server)]


def restore_an_older_state(server: FaultServer) -> None:
    """As from a backup: fewer objects, and a version that runs behind what was seen."""
    server.objects = {key: obj for key, obj in server.objects.items() if key[2] == "object-0"}
    server.version, server.oldest = 3, 0
    server.history.clear()


@STREAM
async def test_streams_the_list_and_goes_on_as_a_watch(server: FaultServer, reflector: Mirror) -> None:
    server.put("a")
    await in_step(server, reflector)
    server.put("b")
    server.put("a", data={"x": "1"})
    server.remove("b")
    await in_step(server, reflector)
    assert len(server.asked) == 1
    query = server.asked[0].query
    assert query.pop("timeoutSeconds") in ("1", "2")
    assert query == {
        "watch": "true",
        "sendInitialEvents": "true",
        "resourceVersionMatch": "NotOlderThan",
        "resourceVersion": "0",
        "allowWatchBookmarks": "true",
    }


@STREAM
async def test_not_synced_before_the_server_says_that_the_initial_events_are_over(
    server: FaultServer, reflector: Mirror
) -> None:
    server.put("a")
    server.put("b")
    server.plan.append(Fault("stall", after=2))
    await until(lambda: len(reflector.store) == 2)
    assert not reflector.synced.is_set()
    await in_step(server, reflector)


@STREAM
async def test_pages_where_lists_are_not_streamed(server: FaultServer, reflector: Mirror) -> None:
    server.streams_lists = False
    server.page_size = 3
    for number in range(10):
        server.put(f"object-{number}")
    await in_step(server, reflector)
    server.put("later")
    await in_step(server, reflector)
    first, *others = lists(server)
    assert len(others) == 3
    assert first == {"limit": "500", "resourceVersion": "0", "resourceVersionMatch": "NotOlderThan"}
    # A continue token names its version itself: the API server refuses both together.
    assert all(set(query) == {"limit", "continue"} for query in others)
    assert watch_versions(server) == ["11"]


@STREAM
async def test_pages_where_the_initial_events_never_end(server: FaultServer, reflector: Mirror) -> None:
    server.put("a")
    server.chance = lambda asked: Fault("silent-end") if asked.is_watch else None
    await in_step(server, reflector)
    assert any(asked.is_list for asked in server.asked)


@LIST
async def test_a_snapshot_that_expires_between_pages_is_listed_in_one(
    server: FaultServer, reflector: Mirror
) -> None:
    server.page_size = 1
    server.put("a")
    server.put("b")
    server.plan.extend([None, Fault("status", code=410)])
    await until(lambda: len(lists(server)) >= 2)
    server.page_size = 500
    await in_step(server, reflector)
    assert lists(server)[2] == {}


@pytest.mark.parametrize(
    "fault",
    [
        Fault("cut", after=2),
        Fault("reset", after=2),
        Fault("stall", after=2),
        Fault("close", after=2),
        Fault("garbage", after=2),
        Fault("gone", after=2, code=500),
        Fault("gone", after=2, code=410),
        Fault("status", code=503),
        Fault("status", code=429),
        Fault("status", code=503, plain=True),
        Fault("status", code=404),
        Fault("status", code=403),
        Fault("status", code=401),
        Fault("status", code=410),
        Fault("status", code=504),
    ],
    ids=lambda fault: f"{fault.kind}-{fault.code}" + ("-plain" if fault.plain else ""),
)
async def test_recovers_from_any_fault_in_list_and_watch(
    server: FaultServer, reflector: Mirror, fault: Fault
) -> None:
    server.put("a")
    server.put("b")
    server.put("c")
    server.plan.extend([fault] * 2)
    await in_step(server, reflector)
    # Now the same on the way: the watch that runs is ended in order, its successors are struck.
    server.plan.extend([fault] * 2)
    server.put("d")
    server.remove("a")
    server.put("b", data={"x": "2"})
    await until(lambda: not server.plan)
    await in_step(server, reflector)
    await until(lambda: reflector.problem == "")


@STREAM
async def test_the_cut_half_of_a_line_is_no_event(server: FaultServer, reflector: Mirror) -> None:
    server.put("a")
    server.plan.extend([Fault("cut", after=0), Fault("status", code=503)])
    await until(lambda: len(server.asked) >= 2)
    assert len(reflector.store) == 0
    await in_step(server, reflector)


@STREAM
async def test_a_lost_watch_goes_on_where_it_stood(server: FaultServer, reflector: Mirror) -> None:
    server.put("a")
    server.plan.extend([Fault("reset", after=3)])
    await until(reflector.synced.is_set)
    server.put("b")
    await until(lambda: watch_versions(server))
    # "b" was the third event and lost; the bookmark before it stands at version 2.
    assert watch_versions(server)[0] == "2"
    await in_step(server, reflector)
    assert sum("sendInitialEvents" in asked.query for asked in server.asked) == 1


async def test_bookmarks_move_the_version_on(server: FaultServer, reflector: Mirror) -> None:
    server.put("mine")
    await in_step(server, reflector)
    # Other kinds' changes are not ours, but history moves on; a bookmark tells us.
    server.put("other", plural="secrets")
    await until(lambda: "3" in watch_versions(server))


@STREAM
async def test_410_relists_from_the_last_version_and_tells_what_went_meanwhile(
    server: FaultServer, reflector: Mirror
) -> None:
    server.put("stays")
    server.put("goes")
    server.plan.append(Fault("stall", after=4))
    await until(reflector.synced.is_set)
    heard: list[Change[ConfigMap]] = []
    reflector.subscribe(heard.append)
    heard.clear()
    server.remove("goes")
    server.put("comes")
    server.compact()
    await in_step(server, reflector)
    assert {(c.key.name, c.old is None, c.new is None) for c in heard} == {
        ("goes", False, True),
        ("comes", True, False),
    }
    streams = [a.query["resourceVersion"] for a in server.asked if "sendInitialEvents" in a.query]
    assert streams == ["0", "3"], "the second list must ask for nothing older than what was seen"


@STREAM
async def test_a_410_to_the_list_itself_asks_for_the_newest(server: FaultServer, reflector: Mirror) -> None:
    server.put("a")
    server.plan.extend([Fault("gone", after=2), Fault("status", code=410)])
    await until(reflector.synced.is_set)
    await in_step(server, reflector)
    await until(lambda: len(server.asked) >= 4)
    streams = [a.query for a in server.asked if "sendInitialEvents" in a.query]
    assert [query.get("resourceVersion") for query in streams[:3]] == ["0", "2", None]


@STREAM
async def test_storage_restored_to_an_older_state(server: FaultServer, reflector: Mirror) -> None:
    for number in range(5):
        server.put(f"object-{number}")
    server.plan.append(Fault("close", after=7))
    await in_step(server, reflector)
    restore_an_older_state(server)
    await until(lambda: reflector.store.keys() == {Key("ns", "object-0")})
    assert any("sendInitialEvents" in a.query and "resourceVersion" not in a.query for a in server.asked)


@STREAM
async def test_another_uid_under_the_same_name_is_delete_and_add(
    server: FaultServer, reflector: Mirror
) -> None:
    server.put("a")
    server.plan.append(Fault("stall", after=3))
    await until(reflector.synced.is_set)
    heard: list[Change[ConfigMap]] = []
    reflector.subscribe(heard.append)
    heard.clear()
    server.remove("a")
    server.put("a")
    server.compact()
    await in_step(server, reflector)
    gone, came = heard
    assert gone.old is not None
    assert came.new is not None
    assert (gone.new, came.old) == (None, None)
    assert gone.old.metadata.uid != came.new.metadata.uid


@pytest.mark.parametrize("code", [401, 403, 404])
async def test_refusals_show_for_as_long_as_they_last(
    server: FaultServer, reflector: Mirror, code: int
) -> None:
    server.chance = lambda _: Fault("status", code=code)
    word = {401: "Unauthorized", 403: "Forbidden", 404: "NotFound"}[code]
    await until(lambda: reflector.problem.startswith(word))
    assert not reflector.synced.is_set()
    server.put("a")
    server.chance = lambda _: None
    await in_step(server, reflector)
    await until(lambda: reflector.problem == "")


async def test_an_unreadable_object_costs_only_itself(server: FaultServer, reflector: Mirror) -> None:
    server.put("good", data={"x": "1"})
    server.put("bad", data={"x": 7})
    await until(reflector.synced.is_set)
    assert reflector.store.keys() == {Key("ns", "good")}
    server.put("good", data={"x": "2"})
    server.put("good-too")
    await until(lambda: len(reflector.store) == 2)
    # One that was readable and is no more stays as it was, also through a new list.
    server.put("good", data={"x": 8})
    server.compact()
    server.put("marker")
    await until(lambda: reflector.store.get(Key("ns", "marker")))
    kept = reflector.store.get(Key("ns", "good"))
    assert kept is not None
    assert kept.data == {"x": "2"}


async def test_a_handler_that_raises_costs_neither_the_watch_nor_the_others(
    server: FaultServer, reflector: Mirror
) -> None:
    heard: list[str] = []

    def broken(change: Change[ConfigMap]) -> None:
        raise RuntimeError("bug")

    reflector.subscribe(broken)
    reflector.subscribe(lambda change: heard.append(change.key.name))
    server.put("a")
    await in_step(server, reflector)
    assert heard == ["a"]
