"""What is known of objects, and what changes with them."""

from __future__ import annotations

from typing import Any

import pytest

from deploy.controller.backoff import Backoff
from deploy.controller.kinds import Key
from deploy.controller.ownership import differs
from deploy.controller.store import Store, View, live
from tests.support.kube_cluster import Cluster, Place, public

KEY = Key("Secret", "default", "s")
LIVE = live(KEY)


def secret(version: str = "1", uid: str = "u", value: str = "a", **rest: Any) -> dict[str, Any]:
    metadata = {"name": "s", "namespace": "default", "uid": uid, "resourceVersion": version}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": {"k": value}, **rest}


def test_content_and_the_whole_change_apart():
    store = Store()
    assert store.put(secret()) == {KEY, LIVE}
    assert store.put(secret("2")) == set()
    assert store.put(secret("3", status={"x": 1})) == {LIVE}
    assert store.put(secret("4", value="b", status={"x": 1})) == {KEY, LIVE}
    assert store.remove(KEY) == {KEY, LIVE}
    assert store.remove(KEY) == {KEY, LIVE}


def test_the_document_stays_the_same_as_long_as_the_content_does():
    store = Store()
    store.put(secret())
    before = store.get(KEY)
    store.put(secret("2", status={"x": 1}))
    after = store.get(KEY)
    assert before is not None
    assert after is not None
    assert after.document is before.document


def test_what_is_older_is_passed_over():
    store = Store()
    store.put(secret("10", value="new"))
    assert store.put(secret("9", value="old")) == set()
    assert store.put(secret("9", uid="another", value="old")) == {KEY, LIVE}
    store.put(secret("not a number", uid="another", value="last"))
    found = store.get(KEY)
    assert found is not None
    assert found.value["data"] == {"k": "last"}


def test_what_was_deleted_does_not_come_back_and_another_of_its_name_does():
    store = Store()
    store.put(secret())
    store.remove(KEY, uid="u")
    assert store.put(secret("9")) == set()
    assert store.put(secret("10", uid="v")) == {KEY, LIVE}
    assert store.remove(KEY, uid="u") == set()
    assert store.get(KEY) is not None


def test_what_was_only_not_seen_comes_back():
    store = Store()
    store.put(secret())
    store.remove(KEY)
    assert store.put(secret()) == {KEY, LIVE}


def test_marks_that_are_lost_and_won_have_changed():
    store = Store({"Secret": lambda value: [("by", value["data"]["k"])]})
    store.put(secret(value="a"))
    assert store.put(secret("2", value="b")) == {KEY, LIVE, ("by", "a"), ("by", "b")}
    assert store.found(("by", "a")) == []
    assert [entry.key for entry in store.found(("by", "b"))] == [KEY]


def test_a_view_notes_what_was_asked_also_where_nothing_was():
    view = View(Store())
    assert view.get(*KEY) is None
    assert view.live("Pod", "n", "p") is None
    assert view.found(("by", "x")) == []
    assert view.reads == {KEY, live(Key("Pod", "n", "p")), ("by", "x")}


@pytest.mark.parametrize(("failures", "seconds"), [(1, 1.0), (2, 2.0), (3, 4.0), (4, 5.0), (10_000, 5.0)])
def test_pauses_double_up_to_the_most(failures: int, seconds: float):
    assert Backoff(first=1.0, most=5.0, random=lambda: 0.0).seconds(failures) == seconds
    assert Backoff(first=1.0, most=5.0, random=lambda: 1.0).seconds(failures) == seconds / 2


# --- what is there against what should be ---

PLACE = Place("", "secrets", "default", "s")
MANAGER = "envoy-llm-extproc-controller"


def wanted(**data: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "s", "namespace": "default", "labels": {"l": "1"}},
        "data": data,
    }


def applied(value: dict[str, Any]) -> Cluster:
    cluster = Cluster()
    cluster.apply(PLACE, value, MANAGER, force=True)
    return cluster


def test_what_was_applied_does_not_differ():
    assert not differs(wanted(a="1"), public(applied(wanted(a="1")).get(PLACE)))


@pytest.mark.parametrize("value", [wanted(a="2"), wanted(a="1", b="1"), wanted(b="1"), wanted()], ids=str)
def test_a_value_more_or_less_or_other_is_a_difference(value: dict[str, Any]):
    cluster = applied(wanted(a="1"))
    assert differs(value, public(cluster.get(PLACE)))
    cluster.apply(PLACE, value, MANAGER, force=True)
    assert not differs(value, public(cluster.get(PLACE)))
    assert cluster.get(PLACE).get("data", {}) == value["data"]


def test_the_fields_of_others_are_no_difference():
    cluster = applied(wanted(a="1"))
    cluster.merge_patch(PLACE, {"metadata": {"labels": {"theirs": "1"}}, "data": {"theirs": "1"}})
    assert not differs(wanted(a="1"), public(cluster.get(PLACE)))


def test_what_somebody_else_made_is_to_be_applied():
    cluster = Cluster()
    cluster.create(PLACE, wanted(a="1"))
    assert differs(wanted(a="1"), public(cluster.get(PLACE)))


def test_owner_references_of_others_stay():
    ours = {"uid": "o", "kind": "AIGatewayRoute", "name": "r", "apiVersion": "v1", "controller": True}
    value = wanted(a="1")
    value["metadata"]["ownerReferences"] = [ours]
    cluster = applied(value)
    theirs = {"uid": "t", "kind": "Other", "name": "x", "apiVersion": "v1"}
    cluster.merge_patch(PLACE, {"metadata": {"ownerReferences": [theirs, {**ours, "blockOwnerDeletion": True}]}})
    assert not differs(value, public(cluster.get(PLACE)))
    cluster.merge_patch(PLACE, {"metadata": {"ownerReferences": [theirs]}})
    assert differs(value, public(cluster.get(PLACE)))


def test_what_came_and_went_unseen_is_a_change_for_who_has_asked_for_it():
    store = Store()
    key = Key("Secret", "default", "s")
    view = View(store)
    assert view.live(*key) is None
    assert view.reads & store.remove(key, uid="u")
