"""What answers to writes say and what lists and watches say, in every order: what is gone is not there again."""

from __future__ import annotations

from typing import Any

import pytest

from deploy.controller.api import KubeApi
from deploy.controller.cache import Changes, Gone, Reflector
from deploy.controller.kinds import KINDS, Key
from deploy.controller.metrics import ControllerMetrics
from deploy.controller.store import Store

KEY = Key("HTTPRouteFilter", "default", "f")


class Unused(KubeApi):
    """Nobody is asked."""

    def __init__(self) -> None:
        pass


def item(version: int, uid: str = "u") -> dict[str, Any]:
    metadata = {"name": KEY.name, "namespace": KEY.namespace, "uid": uid, "resourceVersion": str(version)}
    return {"apiVersion": "gateway.envoyproxy.io/v1alpha1", "kind": KEY.kind, "metadata": metadata}


class Seen:
    """What a store knows after each word."""

    def __init__(self, namespace: str = "") -> None:
        self.changes, self.store = Changes(), Store()
        self.reflector = Reflector(
            Unused(), KINDS[KEY.kind], self.changes, ControllerMetrics(), namespace=namespace, _version="1"
        )

    def listed(self, version: int, *items: dict[str, Any]) -> None:
        self.reflector._version = str(version)
        self.reflector._replace(items)

    def watched(self, event: str, value: dict[str, Any]) -> None:
        self.reflector._take(event, value)

    def answered(self, value: dict[str, Any]) -> None:
        self.changes.put(value)

    def is_there(self) -> bool:
        for key, change in self.changes.drain().items():
            if isinstance(change, Gone):
                self.store.remove(key, uid=change.uid)
            else:
                self.store.put(change)
        return self.store.get(KEY) is not None


STORIES: dict[str, tuple[list[tuple[str, Any]], bool]] = {
    "written": ([("answered", item(5))], True),
    "written, and then seen": ([("answered", item(5)), ("watched", ("ADDED", item(5)))], True),
    "seen before it is answered": ([("watched", ("ADDED", item(5))), ("answered", item(5))], True),
    "deleted before a list": ([("answered", item(5)), ("listed", (7,))], False),
    "written after a list was made": ([("answered", item(9)), ("listed", (7,))], True),
    "answered after the list that it is gone from": ([("listed", (7,)), ("answered", item(5))], False),
    "answered after a watch has gone past it": (
        [("watched", ("ADDED", item(5))), ("watched", ("DELETED", item(6))), ("answered", item(5))],
        False,
    ),
    "written anew": ([("answered", item(5)), ("listed", (7,)), ("answered", item(8, "v"))], True),
    "seen, changed, and gone from a list": (
        [("watched", ("ADDED", item(5))), ("answered", item(6)), ("listed", (7,))],
        False,
    ),
}


@pytest.mark.parametrize("namespace", ["", "default"], ids=["all namespaces", "its namespace"])
@pytest.mark.parametrize(("words", "is_there"), STORIES.values(), ids=STORIES)
@pytest.mark.parametrize("at_once", [False, True], ids=["one by one", "at once"])
def test_what_is_there_is_known(words: list[tuple[str, Any]], *, is_there: bool, at_once: bool, namespace: str):
    seen = Seen(namespace)
    for word, said in words:
        getattr(seen, word)(*(said if isinstance(said, tuple) else (said,)))
        if not at_once:
            seen.is_there()
    assert seen.is_there() is is_there
