"""Credentials of every kind are planted, used, refused and looked at; nothing that can be seen shows one."""

from __future__ import annotations

import asyncio
import io
import logging
import time
from contextlib import suppress

import msgspec
import pytest
import structlog

from extproc import cli
from extproc.admin.status import config_page
from extproc.credentials import CredentialKeeper
from extproc.decoder import Decoder
from extproc.reload import ConfigManager, VersionRule
from extproc.telemetry import exposition, levels, logs
from extproc.telemetry.redaction import redact_tree
from filter_config.watch import FileSource
from tests.support.playbook import Gateway

BODY = b'{"model":"m","messages":[]}'
MINE = {
    "x-mine": "canary-of-the-request",
    "x-my-aws-access-key-id": "AKIACANARYMINE",
    "x-my-aws-secret-access-key": "canary-mine-secret",
    "x-my-aws-session-token": "canary-mine-session",
    "authorization": "Bearer canary-of-the-client",
}
HALF = {"x-my-aws-secret-access-key": "canary-mine-secret"}


@pytest.fixture
def seen():
    """Every log line of the process, at debug."""
    stream = io.StringIO()
    root, before = logging.getLogger(), structlog.get_config()
    handlers, level = root.handlers, root.level
    logs.configure(levels.DEBUG, "json", stream=stream)
    # Loggers of modules outlive this test.
    structlog.configure(cache_logger_on_first_use=False)
    root.setLevel(logging.DEBUG)
    yield stream
    root.handlers, root.level = handlers, level
    structlog.configure(**before)


@pytest.fixture
def path(document, tmp_path):
    path = tmp_path / "filter-config.json"
    path.write_bytes(msgspec.json.encode(document))
    return path


def clean(text):
    at = text.lower().find("canary")
    assert at < 0, text[max(at - 200, 0) : at + 50]


async def until_all_were_asked(keeper):
    async with asyncio.timeout(60):
        while any(state.error is None and not state.usable for state in keeper.states()):  # noqa: ASYNC110 - threads
            await asyncio.sleep(0.01)


def used(gateway, auths):
    """Ask every backend, without and with credentials of the request, and with half of one; gives all the replies."""
    statuses = {}
    for headers in ({}, MINE, HALF):
        for name in auths:
            exchange = gateway.exchange()
            exchange.request(BODY, headers)
            reply = exchange.attempt(f"default/{name}/rule/0", host="bedrock-runtime.us-east-1.amazonaws.com")
            if reply.kind == "immediate_response":
                statuses[name, len(headers)] = reply.status
                clean(str(reply.message))
            else:
                statuses[name, len(headers)] = 200
                exchange.response({"content-type": "application/json"}, status="403", eos=True)
            exchange.close()
    return statuses


def test_nothing_that_can_be_seen_shows_a_credential(planted, auths, path, seen, capsys):
    gateway = Gateway(debug=True, redact=False)

    async def live():
        keeper = CredentialKeeper(gateway.metrics)
        manager = ConfigManager(
            FileSource(path),
            processor=gateway.processor,
            metrics=gateway.metrics,
            version=VersionRule(own="dev"),
            decoder=Decoder(),
            credentials=keeper,
        )
        manager.load_first()
        running = asyncio.create_task(keeper.run())
        await until_all_were_asked(keeper)
        statuses = used(gateway, auths)
        page = config_page(manager.status, claimed="dev", started_at=0.0, now=time.time(), credentials=keeper.states())
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
        return statuses, keeper, page

    statuses, keeper, page = asyncio.run(live())

    # What was planted was in use: all that can be had is, and the rest fails alone.
    assert {state.name: state.usable for state in keeper.states()} == {
        "aws-default-chain/us-east-1": True,
        "azure-client-secret/tenant/client": False,
        next(state.name for state in keeper.states() if state.name.startswith("gcp")): False,
    }
    assert {name for (name, headers), status in statuses.items() if not headers and status == 200} == {*auths} - {
        "azure-secret",
        "gcp-default",
        "own-aws",
    }
    assert statuses["azure-secret", 0] == statuses["gcp-default", 0] == 503
    assert statuses["own-aws", 0] == statuses["own-aws", len(HALF)] == 401
    assert statuses["own-aws", len(MINE)] == 200

    shown = {
        "logs": seen.getvalue(),
        "page": msgspec.json.encode(redact_tree(page)).decode(),
        "page before it is redacted once more": str(page),
        "metrics": exposition.render(gateway.metrics.registry),
        "repr": f"{gateway.processor.runtime!r} {keeper.known!r} {keeper.states()!r}",
    }
    assert "Bearer" not in shown["logs"]
    assert "aws-default-chain" in shown["logs"]
    assert "aws-default-chain" in shown["page"]
    for text in shown.values():
        clean(text)

    assert cli.main(["check", "--credentials", str(path)]) == 1
    printed = capsys.readouterr()
    clean(printed.out + printed.err)
    assert "credential of default/aws-chain/rule/0: aws-default-chain/us-east-1: ok, lasts" in printed.out
