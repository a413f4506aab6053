"""A secret is never shown, whatever it lies in; the config as it may be shown keeps everything else."""

from __future__ import annotations

import copy
import io
import json
import logging
import pickle
import traceback

import msgspec
import pytest
import structlog

from filter_config.load import decode
from filter_config.model import APIKeyAuth, HTTPBodyField
from filter_config.redact import REDACTED, Secret, dec_hook, enc_hook, redacted

PLANTED = "sk-planted-0123456789"

DOCUMENT = f"""
version: dev
uuid: u1
backends:
- name: a
  schema: {{name: OpenAI, prefix: v1}}
  auth: {{apiKey: {{key: {PLANTED}}}}}
  httpHeaderMutation: {{set: [{{name: x-key, value: {PLANTED}}}], remove: [x-gone]}}
  httpBodyMutation: {{set: [{{path: user, value: {PLANTED}}}], remove: [seed]}}
- name: b
  auth: {{aws: {{credentialFileLiteral: {PLANTED}, region: eu-west-1}}}}
- name: c
  auth: {{azureAPIKey: {{key: {PLANTED}}}, azure: {{accessToken: {PLANTED}, clientSecret: {PLANTED}}}}}
- name: d
  auth: {{gcp: {{accessToken: {PLANTED}, region: r1, projectName: p1}}, anthropicAPIKey: {{key: {PLANTED}}}}}
"""


@pytest.fixture
def config():
    decoded = decode(DOCUMENT.encode())
    assert decoded.config is not None
    return decoded.config


SHOWN = {
    "str": str,
    "repr": repr,
    "format": lambda secret: f"{secret}",
    "format with a width": lambda secret: f"{secret:>20}",
    "percent": lambda secret: "%s %r" % (secret, secret),  # noqa: UP031
    "in a list": lambda secret: str([secret]),
    "in a struct": lambda secret: repr(APIKeyAuth(key=secret)),
    "msgspec json": lambda secret: msgspec.json.encode(APIKeyAuth(key=secret), enc_hook=enc_hook).decode(),
    "msgspec builtins": lambda secret: str(msgspec.to_builtins(APIKeyAuth(key=secret), enc_hook=enc_hook)),
    "json with a default": lambda secret: json.dumps({"key": secret}, default=str),
}


@pytest.mark.parametrize("show", SHOWN.values(), ids=SHOWN)
def test_shown_as_the_placeholder(show):
    text = show(Secret(PLANTED))
    assert REDACTED in text
    assert PLANTED not in text


def test_encoding_without_the_hook_is_refused():
    with pytest.raises(TypeError):
        msgspec.json.encode(APIKeyAuth(key=Secret(PLANTED)))
    with pytest.raises(TypeError):
        json.dumps(Secret(PLANTED))
    with pytest.raises(NotImplementedError):
        enc_hook(object())


def test_a_value_all_the_same():
    secret = Secret(PLANTED)
    assert secret.reveal() == PLANTED
    assert secret == Secret(PLANTED)
    assert secret != Secret("other")
    assert secret != PLANTED
    assert len({secret, Secret(PLANTED)}) == 1
    assert len(secret) == len(PLANTED)
    assert secret
    assert not Secret()
    assert copy.deepcopy(secret) == secret


def test_pickling_carries_the_value_to_another_process(config):
    assert pickle.loads(pickle.dumps(config)) == config
    assert pickle.loads(pickle.dumps(Secret(PLANTED))).reveal() == PLANTED


def test_decoding_with_the_hook():
    assert msgspec.convert({"key": PLANTED}, APIKeyAuth, dec_hook=dec_hook).key.reveal() == PLANTED
    with pytest.raises(msgspec.ValidationError, match=r"expected a text - at `\$.key`"):
        msgspec.convert({"key": 1}, APIKeyAuth, dec_hook=dec_hook)
    with pytest.raises(NotImplementedError):
        dec_hook(complex, "1")


def test_an_empty_secret_is_seen_to_be_empty():
    assert enc_hook(Secret()) == ""


def test_no_secret_in_the_repr_of_a_config(config):
    assert PLANTED not in repr(config)
    assert repr(HTTPBodyField(path="user", value=PLANTED)) == "HTTPBodyField(path='user', value=[REDACTED])"


def test_no_secret_in_the_config_as_shown(config):
    document = redacted(config)
    text = json.dumps(document)
    assert PLANTED not in text
    assert text.count(REDACTED) == 9


def test_everything_else_stays(config):
    first, second, _, fourth = redacted(config)["backends"]
    assert first == {
        "name": "a",
        "schema": {"name": "OpenAI", "prefix": "v1"},
        "auth": {"apiKey": {"key": REDACTED}},
        "httpHeaderMutation": {"set": [{"name": "x-key", "value": REDACTED}], "remove": ["x-gone"]},
        "httpBodyMutation": {"set": [{"path": "user", "value": REDACTED}], "remove": ["seed"]},
    }
    assert second["auth"]["aws"] == {"credentialFileLiteral": REDACTED, "region": "eu-west-1"}
    assert fourth["auth"]["gcp"] == {"accessToken": REDACTED, "region": "r1", "projectName": "p1"}


def test_no_secret_in_logs(config):
    stream = io.StringIO()
    log = structlog.wrap_logger(
        structlog.PrintLogger(stream),
        processors=[structlog.processors.dict_tracebacks, structlog.processors.JSONRenderer()],
    )
    key = config.backends[0].auth.api_key.key
    log.info("config", config=config, key=key, backends=list(config.backends))
    log.warning("config", text=f"{config} {key}")
    handler = logging.StreamHandler(stream)
    record = logging.LogRecord("x", logging.INFO, __file__, 1, "%s %r", (key, config), None)
    handler.emit(record)
    try:
        msgspec.json.encode(config)
    except TypeError:
        stream.write(traceback.format_exc())
    assert REDACTED in stream.getvalue()
    assert PLANTED not in stream.getvalue()
