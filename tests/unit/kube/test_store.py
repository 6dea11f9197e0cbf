"""The store is what was put in, its indexes agree with it, and its changes tell the whole story."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from gkm.base.errors import UsageError
from gkm.kube.errors import IndexingError
from gkm.kube.objects import ConfigMap, Key, ObjectMeta
from gkm.kube.store import Change, Store

NAMES = st.sampled_from("abcd")


def make(name: str, uid: str = "u", version: int = 1, group: str = "x") -> ConfigMap:
    metadata = ObjectMeta(name=name, namespace="ns", uid=uid, resource_version=str(version))
    return ConfigMap(metadata=metadata, data={"group": group})


def group(obj: ConfigMap) -> list[str]:
    return [(obj.data or {})["group"]]


class StoreMachine(RuleBasedStateMachine):
    """Replaying the changes gives the store; the indexes give what a scan gives."""

    def __init__(self) -> None:
        super().__init__()
        self.store: Store[ConfigMap] = Store()
        self.store.add_index("group", group)
        self.model: dict[Key, ConfigMap] = {}
        self.replayed: dict[Key, ConfigMap] = {}

    def replay(self, changes: list[Change[ConfigMap]]) -> None:
        for change in changes:
            assert self.replayed.get(change.key) is change.old
            if change.old and change.new:
                assert change.old.metadata.uid == change.new.metadata.uid, "an object became another"
            if change.new is None:
                del self.replayed[change.key]
            else:
                self.replayed[change.key] = change.new

    @rule(name=NAMES, uid=st.sampled_from("uv"), version=st.integers(1, 4), group=st.sampled_from("xyz"))
    def put(self, name: str, uid: str, version: int, group: str) -> None:
        obj, key = make(name, uid, version, group), Key("ns", name)
        known = self.model.get(key)
        changes = self.store.put(obj)
        same = known and (known.metadata.uid, known.metadata.resource_version) == (uid, str(version))
        if same:
            assert changes == []
        else:
            self.model[key] = obj
        self.replay(changes)

    @rule(name=NAMES)
    def remove(self, name: str) -> None:
        self.model.pop(Key("ns", name), None)
        self.replay(self.store.remove(Key("ns", name)))

    @rule(names=st.sets(NAMES))
    def keep_only(self, names: set[str]) -> None:
        kept = {Key("ns", name) for name in names}
        self.model = {key: obj for key, obj in self.model.items() if key in kept}
        self.replay(self.store.keep_only(kept))

    @invariant()
    def agrees(self) -> None:
        assert self.store.keys() == self.model.keys() == self.replayed.keys()
        assert all(self.store.get(key) is obj is self.replayed[key] for key, obj in self.model.items())
        for value in "xyz":
            found = {obj.metadata.name for obj in self.store.by_index("group", value)}
            assert found == {key.name for key, obj in self.model.items() if group(obj) == [value]}


TestStore = StoreMachine.TestCase


@given(st.lists(st.tuples(NAMES, st.sampled_from("xyz"))))
def test_an_index_added_late_holds_what_is_there(objects: list[tuple[str, str]]) -> None:
    early: Store[ConfigMap] = Store()
    late: Store[ConfigMap] = Store()
    early.add_index("group", group)
    for version, (name, value) in enumerate(objects):
        early.put(make(name, version=version, group=value))
        late.put(make(name, version=version, group=value))
    late.add_index("group", group)
    for value in "xyz":
        assert {o.metadata.name for o in early.by_index("group", value)} == {
            o.metadata.name for o in late.by_index("group", value)
        }


def test_an_index_function_that_raises_leaves_the_store_as_it_was() -> None:
    store: Store[ConfigMap] = Store()
    store.add_index("group", group)
    store.add_index("strict", lambda obj: [{"x": "fine"}[group(obj)[0]]])
    store.put(make("a", group="x"))
    with pytest.raises(IndexingError, match="ns/a"):
        store.put(make("a", version=2, group="y"))
    assert [o.metadata.resource_version for o in store.by_index("group", "x")] == ["1"]
    assert store.by_index("group", "y") == []


def test_unknown_and_repeated_indexes_are_refused() -> None:
    store: Store[ConfigMap] = Store()
    store.add_index("group", group)
    with pytest.raises(UsageError, match="group"):
        store.add_index("group", group)
    with pytest.raises(UsageError, match=r"add_index .*\['group'\]"):
        store.by_index("groop", "x")
