"""Writes in their order, and what becomes of those that fail."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest

from deploy.controller.apply import Result, Writer
from deploy.controller.backoff import Backoff
from deploy.controller.errors import ApiFailed, ServerUnreachable
from deploy.controller.kinds import Key
from deploy.controller.metrics import ControllerMetrics
from deploy.controller.writes import Apply, Delete, Patch, Plan, Write

OWNER = Key("AIGatewayRoute", "default", "r")
SECRET = Key("Secret", "default", "s")
STATUS = Patch(key=OWNER, patch={"status": {}}, subresource="status")
PLAIN = Backoff(first=1.0, most=8.0, random=lambda: 0.0)


def secret(name: str) -> Apply:
    return Apply(value={"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": "default"}})


class Server:
    """Answers as it is told, and notes what it was asked."""

    def __init__(self, *answers: Exception | None) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []

    def _next(self, what: str) -> None:
        self.asked.append(what)
        answer = self.answers.pop(0) if self.answers else None
        if answer is not None:
            raise answer

    async def apply(self, kind, value):
        self._next(f"apply {value['metadata']['name']}")
        return {**value, "metadata": {**value["metadata"], "resourceVersion": "5"}}

    async def patch(self, kind, key, patch, *, subresource=""):
        self._next(f"patch {key.name} {subresource}".strip())
        return {"apiVersion": "v1", "kind": kind.name, "metadata": {"name": key.name, "namespace": key.namespace}}

    async def delete(self, kind, key, *, uid=""):
        self._next(f"delete {key.name} {uid}")


class Seen:
    def __init__(self) -> None:
        self.what: list[str] = []

    def put(self, value: dict[str, Any]) -> None:
        self.what.append(f"put {value['kind']} {value['metadata']['name']}")

    def gone(self, key: Key, uid: str = "") -> None:
        self.what.append(f"gone {key.name}")


def write(server: Server, *plans: Iterable[Write]) -> tuple[list[Result], Seen]:
    async def run() -> tuple[list[Result], Seen]:
        seen = Seen()
        writer = Writer(server, seen, ControllerMetrics(), backoff=PLAIN)
        return [await writer.write(Plan(owner=OWNER, writes=tuple(writes))) for writes in plans], seen

    return asyncio.run(run())


def test_answers_are_taken_for_what_is_there():
    server = Server()
    (result,), seen = write(server, [secret("a"), Delete(key=SECRET, uid="u"), STATUS])
    assert server.asked == ["apply a", "delete s u", "patch r status"]
    assert seen.what == ["put Secret a", "put AIGatewayRoute r"]
    assert result == Result(owner=OWNER)


@pytest.mark.parametrize("status", [400, 403, 422])
def test_after_a_refusal_only_the_status_is_written(status: int):
    server = Server(ApiFailed(status, "is not valid"))
    (result,), _ = write(server, [secret("a"), secret("b"), Delete(key=SECRET, uid="u"), STATUS])
    assert server.asked == ["apply a", "patch r status"]
    assert result.refusal == "Secret default/a: is not valid"
    assert result.retry_after == 300.0


@pytest.mark.parametrize(
    "error",
    [
        ApiFailed(409, "modified"),
        ApiFailed(500, "oops"),
        ApiFailed(503, "busy"),
        ApiFailed(504, "late"),
        ServerUnreachable("no route to host"),
    ],
    ids=str,
)
def test_a_failure_ends_the_writes_and_the_pauses_grow(error: Exception):
    server = Server(error, error, error, None, None, error)
    results, _ = write(server, *[[secret("a"), STATUS]] * 5)
    assert [result.retry_after for result in results] == [1.0, 2.0, 4.0, None, 1.0]
    assert server.asked == ["apply a"] * 4 + ["patch r status"] + ["apply a"]


def test_a_busy_server_says_how_long_to_wait():
    (result,), _ = write(Server(ApiFailed(429, "too many requests", retry_after=7.0)), [secret("a")])
    assert result.retry_after == 7.0


@pytest.mark.parametrize("status", [404, 409])
def test_what_somebody_else_deleted_is_deleted(status: int):
    server = Server(ApiFailed(status, "no such"))
    (result,), _ = write(server, [Delete(key=SECRET, uid="u"), STATUS])
    assert server.asked == ["delete s u", "patch r status"]
    assert result == Result(owner=OWNER)


def test_the_status_of_what_is_gone_is_nobodys():
    (result,), seen = write(Server(ApiFailed(404, "no such")), [STATUS])
    assert seen.what == ["gone r"]
    assert result.retry_after is None
