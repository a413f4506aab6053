from __future__ import annotations

import asyncio
import io
import os
import signal
import struct
import subprocess
import sys

import msgspec
import pytest

from extproc import decoder as module
from extproc.decoder import Decoder, DecoderFailed, work
from filter_config.load import decode
from filter_config.model import Config
from filter_config.redact import Secret, dec_hook
from tests.support.children import child

DOCUMENT = b"""
version: v1
backends:
- name: ns/openai/route/chat/rule/0/ref/0
  schema: {name: OpenAI}
  auth: {apiKey: {key: sk-secret}}
  unknown: 1
models:
- {Name: m, OwnedBy: o, CreatedAt: "2024-01-02T03:04:05Z"}
modelsByHost: {"example.com": [{Name: m}]}
"""
BROKEN = b"backends: [{name: 1}, {name: [x]}]\nversion: {}\n"


def run(coroutine):
    return asyncio.run(asyncio.wait_for(coroutine, 60))


def with_decoder(story, **options):
    async def whole():
        decoder = Decoder(**options)
        try:
            return await story(decoder)
        finally:
            await decoder.close()

    return run(whole())


@pytest.mark.parametrize("document", [DOCUMENT, BROKEN, b"", b"{", b"\xff\xfe"])
def test_the_worker_decodes_as_this_process_would(document):
    async def story(decoder):
        decoded = await decoder.decode(document)
        assert decoder.pid not in (None, os.getpid())
        return decoded

    assert with_decoder(story) == decode(document)


PLAIN = {
    "version": "v1",
    "llmRequestCosts": [{"metadataKey": "k", "type": "CEL", "cel": "total_tokens", "routeName": "ns/r"}],
    "backends": [
        {"name": "ns/b/route/r/rule/0/ref/0", "schema": {"name": "OpenAI"}, "auth": {"apiKey": {"key": "sk"}}},
        {"name": "ns/c/route/r/rule/0/ref/1", "modelNameOverride": "m", "schema": {"name": "Nobody"}},
    ],
    "models": [{"Name": "m", "OwnedBy": "o", "CreatedAt": "2024-01-02T03:04:05.5Z"}],
    "modelsByHost": {"A.example.com": [{"Name": "m"}]},
}


def canonical(document):
    return msgspec.json.encode(decode(msgspec.json.encode(document)).config, enc_hook=module._reveal)


def slow(data):
    raise AssertionError(data)


def test_a_document_as_we_write_it_is_read_quickly(monkeypatch):
    data = canonical(PLAIN)
    wanted = decode(data)
    monkeypatch.setattr(module, "decode", slow)

    decoded = module.decode_quickly(data)

    assert decoded == wanted
    assert decoded.config.backends[0].auth.api_key.key == Secret("sk")
    assert decoded.problems


OTHERS = {
    "blanks": lambda data: data + b"\n",
    "an unknown key": lambda data: data[:-1] + b',"unknown":1}',
    "a repeated key": lambda data: data[:-1] + b',"version":"v2"}',
    "another spelling": lambda data: data.replace(b'"version"', b'"Version"'),
    "a number for a text": lambda data: data.replace(b'"v1"', b"1"),
    "a wrong type": lambda data: data.replace(b'"v1"', b"[]"),
    "null": lambda data: data.replace(b'"v1"', b"null"),
    "a default": lambda data: data[:-1] + b',"uuid":""}',
    "another order": lambda data: b'{"uuid":"u",' + data[1:],
    "another zone": lambda data: data.replace(b"05.5Z", b"05.5+02:00"),
    "cut off": lambda data: data[:-1],
    "no text": lambda data: data.replace(b"v1", b"\xff"),
    "a lone surrogate": lambda data: data.replace(b"v1", b"\\ud800"),
    "YAML": lambda _: DOCUMENT,
}


@pytest.mark.parametrize("change", OTHERS.values(), ids=OTHERS)
def test_any_other_document_is_read_as_it_always_is(change):
    data = change(canonical(PLAIN))

    assert module.decode_quickly(data) == decode(data)


def test_what_refuses_a_document_refuses_it_quickly():
    broken = {**PLAIN, "llmRequestCosts": [{"metadataKey": "k", "type": "CEL", "cel": "1 +", "routeName": "ns/r"}]}
    data = msgspec.json.encode(msgspec.convert(broken, Config, dec_hook=dec_hook), enc_hook=module._reveal)

    decoded = module.decode_quickly(data)

    assert decoded.config is None
    assert decoded == decode(data)


def test_secrets_arrive_as_secrets():
    async def story(decoder):
        return await decoder.decode(DOCUMENT)

    key = with_decoder(story).config.backends[0].auth.api_key.key
    assert isinstance(key, Secret)
    assert key.reveal() == "sk-secret"


def test_one_worker_takes_one_document_after_the_other():
    async def story(decoder):
        await decoder.warm_up()
        pid = decoder.pid
        results = await asyncio.gather(*(decoder.decode(document) for document in [DOCUMENT, BROKEN] * 5))
        assert decoder.pid == pid
        return results

    assert with_decoder(story) == [decode(DOCUMENT), decode(BROKEN)] * 5


def test_a_worker_that_died_is_replaced():
    async def story(decoder):
        await decoder.warm_up()
        first = decoder.pid
        os.kill(first, signal.SIGKILL)
        decoded = await decoder.decode(DOCUMENT)
        assert decoder.pid not in (None, first)
        return decoded

    assert with_decoder(story) == decode(DOCUMENT)


def test_a_document_that_takes_too_long_costs_the_worker():
    async def story(decoder):
        await decoder.warm_up()
        first = decoder.pid
        os.kill(first, signal.SIGSTOP)
        with pytest.raises(DecoderFailed, match=r"^decoding took longer than 0\.2 s$"):
            await decoder.decode(DOCUMENT)
        assert decoder.pid is None
        decoder._timeout = 30
        assert await decoder.decode(DOCUMENT) == decode(DOCUMENT)

    with_decoder(story, timeout=0.2)


def test_a_document_that_kills_two_workers_is_not_tried_here(monkeypatch):
    async def die(worker, _):
        worker.kill()
        raise asyncio.IncompleteReadError(b"", 8)

    monkeypatch.setattr(module, "_ask", die)
    monkeypatch.setattr(module, "decode", None)

    async def story(decoder):
        with pytest.raises(DecoderFailed, match="died over the document"):
            await decoder.decode(DOCUMENT)

    with_decoder(story)


def test_without_a_worker_this_process_decodes(monkeypatch):
    monkeypatch.setattr(sys, "executable", "/nonexistent/python")

    async def story(decoder):
        await decoder.warm_up()
        assert decoder.pid is None
        return await decoder.decode(DOCUMENT)

    assert with_decoder(story) == decode(DOCUMENT)


def test_a_worker_that_does_not_greet_is_none(monkeypatch):
    monkeypatch.setattr(sys, "executable", "/bin/true")

    async def story(decoder):
        return await decoder.decode(DOCUMENT)

    assert with_decoder(story) == decode(DOCUMENT)


def test_a_cancelled_document_does_not_answer_for_the_next():
    async def story(decoder):
        await decoder.warm_up()
        os.kill(decoder.pid, signal.SIGSTOP)
        task = asyncio.create_task(decoder.decode(BROKEN))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return await decoder.decode(DOCUMENT)

    assert with_decoder(story) == decode(DOCUMENT)


def test_closing_ends_the_worker():
    async def story(decoder):
        await decoder.warm_up()
        pid = decoder.pid
        await decoder.close()
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)

    with_decoder(story)


def test_the_worker_ends_when_its_parent_is_gone():
    command = [sys.executable, "-m", "extproc.decoder"]
    with child(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as worker:
        assert worker.stdout.readline() == b"decoder ready\n"
        # It decodes when nobody asks for anything else.
        assert os.getpriority(os.PRIO_PROCESS, worker.pid) > os.getpriority(os.PRIO_PROCESS, 0)
        worker.stdin.close()
        assert worker.wait(timeout=30) == 0


def test_half_a_length_ends_the_worker():
    sink = io.BytesIO()
    work(io.BytesIO(b"\0\0\0"), sink)
    assert sink.getvalue() == b"decoder ready\n"


def test_the_protocol_of_the_worker():
    sink = io.BytesIO()
    work(io.BytesIO(struct.pack(">Q", 2) + b"{}" + struct.pack(">Q", 0)), sink)
    sink.seek(len(b"decoder ready\n"))
    for document in (b"{}", b""):
        (length,) = struct.unpack(">Q", sink.read(8))
        config, problems = module._DECODER.decode(sink.read(length))
        assert (config, problems) == (decode(document).config, decode(document).problems)
    assert sink.read() == b""
