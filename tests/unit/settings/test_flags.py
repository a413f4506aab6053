from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from extproc.flags import Flag, FlagError, HelpRequested, Kind, UnknownFlag, parse_flags

FLAGS = (
    Flag(field="config_path", kind=Kind.TEXT),
    Flag(field="span_attributes", kind=Kind.OPTIONAL_TEXT),
    Flag(field="enable_redaction", kind=Kind.SWITCH),
    Flag(field="admin_port", kind=Kind.INTEGER),
    Flag(field="write_timeout", kind=Kind.DURATION),
    Flag(field="drain_seconds", kind=Kind.SECONDS),
    Flag(field="uds_mode", kind=Kind.MODE),
)


@dataclass(frozen=True)
class Accepted:
    argv: list[str]
    values: dict[str, Any] = field(default_factory=dict)


ACCEPTED = {
    "nothing": Accepted([]),
    "one dash, next argument": Accepted(["-configPath", "/a"], {"config_path": "/a"}),
    "one dash, equals": Accepted(["-configPath=/a"], {"config_path": "/a"}),
    "two dashes, next argument": Accepted(["--configPath", "/a"], {"config_path": "/a"}),
    "two dashes, equals": Accepted(["--configPath=/a"], {"config_path": "/a"}),
    "gnu spelling": Accepted(["--config-path", "/a"], {"config_path": "/a"}),
    "gnu spelling, one dash": Accepted(["-config-path=/a"], {"config_path": "/a"}),
    "empty next argument": Accepted(
        ["-spanAttributes", "", "-configPath", "x"], {"span_attributes": "", "config_path": "x"}
    ),
    "empty after equals": Accepted(["-spanAttributes="], {"span_attributes": ""}),
    "value that looks like a flag": Accepted(["-configPath", "-adminPort"], {"config_path": "-adminPort"}),
    "value with equals signs": Accepted(["-configPath=a=b=c"], {"config_path": "a=b=c"}),
    "last one wins": Accepted(["-adminPort", "1", "-adminPort=2"], {"admin_port": 2}),
    "switch alone takes no argument": Accepted(
        ["-enableRedaction", "false", "-adminPort", "1"], {"enable_redaction": True}
    ),
    "switch with value": Accepted(["-enableRedaction=F"], {"enable_redaction": False}),
    "stops at a word": Accepted(["-adminPort", "1", "word", "-adminPort", "2"], {"admin_port": 1}),
    "stops at two dashes": Accepted(["--", "-adminPort", "2"]),
    "stops at one dash": Accepted(["-", "-adminPort", "2"]),
    "stops at an empty argument": Accepted(["", "-adminPort", "2"]),
    "hexadecimal": Accepted(["-adminPort", "0x10"], {"admin_port": 16}),
    "negative": Accepted(["-adminPort", "-1"], {"admin_port": -1}),
    "duration": Accepted(["-writeTimeout=1m30s"], {"write_timeout": 90.0}),
    "seconds as a number": Accepted(["-drainSeconds=0.5"], {"drain_seconds": 0.5}),
    "seconds as a duration": Accepted(["-drainSeconds=2m"], {"drain_seconds": 120.0}),
    "mode": Accepted(["-udsMode=0660"], {"uds_mode": 0o660}),
    "mode without zero": Accepted(["-udsMode=770"], {"uds_mode": 0o770}),
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_accepted(name):
    given, _ = parse_flags(ACCEPTED[name].argv, FLAGS)
    assert given == ACCEPTED[name].values


UNREAD = {
    "a word": (["-configPath=x", "word", "-configPath=y"], ("word", "-configPath=y")),
    "a dash": (["-", "-configPath=y"], ("-", "-configPath=y")),
    "behind two dashes": (["--", "word"], ("word",)),
    "nothing": (["-configPath=x"], ()),
}


@pytest.mark.parametrize("name", UNREAD)
def test_what_is_not_read_is_told(name):
    argv, unread = UNREAD[name]
    assert parse_flags(argv, FLAGS)[1] == unread


@dataclass(frozen=True)
class Refused:
    argv: list[str]
    text: str
    kind: type[FlagError] = FlagError


REFUSED = {
    "help": Refused(["-h"], "flag: help requested", HelpRequested),
    "help, long": Refused(["-adminPort", "1", "--help"], "flag: help requested", HelpRequested),
    "unknown": Refused(["-nope", "1"], "flag provided but not defined: -nope", UnknownFlag),
    "unknown, two dashes and value": Refused(["--nope=1"], "flag provided but not defined: -nope", UnknownFlag),
    "case matters": Refused(["-configpath", "x"], "flag provided but not defined: -configpath", UnknownFlag),
    "missing value": Refused(["-configPath"], "flag needs an argument: -configPath"),
    "three dashes": Refused(["---configPath"], "bad flag syntax: ---configPath"),
    "no name": Refused(["-=x"], "bad flag syntax: -=x"),
    "no name, two dashes": Refused(["--=x"], "bad flag syntax: --=x"),
    "bad integer": Refused(["-adminPort", "x1"], 'invalid value "x1" for flag -adminPort: parse error'),
    "empty integer": Refused(["-adminPort", ""], 'invalid value "" for flag -adminPort: parse error'),
    "huge integer": Refused(
        ["-adminPort=99999999999999999999"],
        'invalid value "99999999999999999999" for flag -adminPort: value out of range',
    ),
    "bad duration": Refused(["-writeTimeout", "120"], 'invalid value "120" for flag -writeTimeout: parse error'),
    "bad boolean": Refused(
        ["-enableRedaction=maybe"], 'invalid boolean value "maybe" for -enableRedaction: parse error'
    ),
    "bad seconds": Refused(["-drainSeconds=soon"], 'invalid value "soon" for flag -drainSeconds: parse error'),
    "bad mode": Refused(["-udsMode=rwx"], 'invalid value "rwx" for flag -udsMode: parse error'),
    "value is quoted as Go quotes": Refused(
        ["-adminPort", 'a"b'], 'invalid value "a\\"b" for flag -adminPort: parse error'
    ),
    "first fault counts": Refused(["-adminPort", "x", "-nope"], 'invalid value "x" for flag -adminPort: parse error'),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    case = REFUSED[name]
    with pytest.raises(case.kind) as caught:
        parse_flags(case.argv, FLAGS)
    assert str(caught.value) == case.text


def test_spellings_of_one_flag():
    flag = Flag(field="mcp_session_encryption_seed", kind=Kind.SECRET)
    assert flag.camel == "mcpSessionEncryptionSeed"
    assert flag.kebab == "mcp-session-encryption-seed"
    assert flag.variable == "EXTPROC_MCP_SESSION_ENCRYPTION_SEED"
