"""``extproc check --credentials``: which backends' credentials can be had from here, and which not."""

from __future__ import annotations

import msgspec
import pytest

from extproc import cli
from extproc.auth import probe as module
from extproc.auth.probe import probe
from extproc.auth.sources import Fetched, SourceError
from filter_config.check import Probed
from filter_config.load import decode
from filter_config.redact import Secret
from tests.support.playbook import openai_backend


def config_of(**auths):
    backends = [openai_backend(name.replace("_", "-"), auth=auth) for name, auth in auths.items()]
    return msgspec.json.encode({"version": "v", "backends": [*backends, openai_backend("without")]})


CHAIN = {"aws": {"region": "us-east-1"}}
KEY = {"apiKey": {"key": "canary"}}
OWN = {"credentialOverride": {"headerName": "x-k"}}


class Scripted:
    """A source of AWS credentials that answers as it is told."""

    name, key, watches = "scripted", "scripted", ()

    def __init__(self, answer):
        self.answer = answer
        self.calls = 0

    def fetch(self):
        self.calls += 1
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.fixture
def scripted(monkeypatch):
    def use(answer):
        source = Scripted(answer)
        monkeypatch.setattr("extproc.auth.aws.default_chain", lambda region: source)
        monkeypatch.setattr(module.time, "time", lambda: 1000.0)
        return source

    return use


ANSWERS = {
    "lasts": (Fetched(Secret("canary")), True, "scripted: ok, lasts"),
    "ends": (Fetched(Secret("canary"), 4661.0), True, "scripted: ok, expires in 1h1m1s"),
    "has ended": (Fetched(Secret("canary"), 1000.0), False, "scripted: has expired already"),
    "fails": (SourceError("AccessDenied"), False, "scripted: AccessDenied"),
    "breaks": (ZeroDivisionError("canary"), False, "scripted: internal error: ZeroDivisionError"),
}


@pytest.mark.parametrize(("answer", "works", "text"), ANSWERS.values(), ids=ANSWERS)
def test_what_comes_of_a_source(scripted, answer, works, text):
    scripted(answer)
    config = decode(config_of(a=CHAIN)).config
    assert list(probe(config)) == [Probed(backend="a", works=works, text=text)]


def test_a_source_of_several_backends_is_asked_once(scripted):
    source = scripted(Fetched(Secret("canary")))
    assert [found.works for found in probe(decode(config_of(a=CHAIN, b=CHAIN, c=CHAIN)).config)] == [True] * 3
    assert source.calls == 1


def test_what_needs_no_source(scripted):
    source = scripted(Fetched(Secret("canary")))
    config = decode(config_of(key=KEY, own={**CHAIN, **OWN}, broken={"azureAPIKey": {"key": ""}})).config
    assert [(found.backend, found.works, found.text) for found in probe(config)] == [
        ("key", True, "is in the config"),
        ("own", True, "comes with each request"),
        ("broken", False, "azure API key is required"),
    ]
    assert source.calls == 0


@pytest.fixture
def files(tmp_path):
    def write(**contents):
        paths = []
        for name, content in contents.items():
            paths.append(tmp_path / f"{name}.json")
            paths[-1].write_bytes(content)
        return list(map(str, paths))

    return write


def test_each_file_and_backend_has_its_line(scripted, files, capsys):
    scripted(SourceError("AccessDenied"))
    good, bad = files(good=config_of(key=KEY), bad=config_of(key=KEY, chain=CHAIN))
    assert cli.main(["check", "--credentials", good]) == 0
    assert capsys.readouterr().out == (
        f"{good}: ok (2 backends, 0 cost rules, 0 models)\n{good}: credential of key: is in the config\n"
    )
    assert cli.main(["check", "--credentials", good, bad]) == 1
    assert capsys.readouterr().out.endswith(f"{bad}: credential of chain: cannot be had: scripted: AccessDenied\n")


def test_without_the_flag_nobody_is_asked(scripted, files, capsys):
    source = scripted(SourceError("AccessDenied"))
    assert cli.main(["check", *files(bad=config_of(chain=CHAIN))]) == 0
    assert source.calls == 0


def test_a_file_that_is_no_config_has_no_credentials_to_try(files, capsys):
    assert cli.main(["check", "--credentials", *files(none=b"{")]) == 1
    assert "credential of" not in capsys.readouterr().out


def test_a_path_that_cannot_be_read_is_a_usage_error(capsys):
    assert cli.main(["check", "--credentials", "/nonexistent.yaml"]) == 2
