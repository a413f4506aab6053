from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from extproc.admin.peers import Peers
from extproc.flags import FlagError
from extproc.paths import EndpointPrefixes
from extproc.settings import Settings, SettingsError, knobs, reference, usage
from filter_config.redact import Secret

DOCS = Path(__file__).parents[3] / "docs" / "reference"
PATH = ["-configPath", "/c.yaml"]


def parse(*argv, **environ):
    return Settings.parse(argv, environ)


def test_defaults_are_the_peers():
    settings = parse(*PATH)
    assert settings == Settings(config_path="/c.yaml")
    assert settings.ext_proc_addr == ":1063"
    assert settings.admin_port == 1064
    assert settings.log_level == 0
    assert settings.log_format == "text"
    assert settings.enable_redaction is False
    assert settings.root_prefix == "/"
    assert settings.endpoint_prefixes == EndpointPrefixes(openai="/", cohere="/cohere", anthropic="/anthropic")
    assert settings.max_recv_msg_size == 9223372036854775807
    assert settings.mcp_write_timeout == 120
    assert settings.uds_mode == 0o775
    assert settings.max_body_bytes == 134217728
    assert settings.version_string == "dev"


def test_the_flags_of_the_contract_are_all_there():
    names = [flag.camel for flag in knobs()]
    assert names[:20] == [
        "configPath",
        "configBundlePath",
        "extProcAddr",
        "logLevel",
        "logFormat",
        "enableRedaction",
        "adminPort",
        "requestHeaderAttributes",
        "spanRequestHeaderAttributes",
        "metricsRequestHeaderAttributes",
        "logRequestHeaderAttributes",
        "rootPrefix",
        "endpointPrefixes",
        "maxRecvMsgSize",
        "mcpAddr",
        "mcpSessionEncryptionSeed",
        "mcpSessionEncryptionIterations",
        "mcpFallbackSessionEncryptionSeed",
        "mcpFallbackSessionEncryptionIterations",
        "mcpWriteTimeout",
    ]
    assert len(names) == len(set(names)) == len(dataclasses.fields(Settings)) - 2


def test_the_arguments_that_the_control_plane_passes():
    settings = parse(
        *("-configBundlePath", "/etc/filter-config-bundle", "-logLevel", "debug"),
        *("-extProcAddr", "unix:///etc/ai-gateway-extproc-uds/run.sock", "-adminPort", "1064"),
        *("-rootPrefix", "/", "-maxRecvMsgSize", "4194304", "-logFormat", "json"),
        *("-mcpAddr", ":9856", "-mcpSessionEncryptionSeed", "-s", "-mcpSessionEncryptionIterations", "1"),
        *("-requestHeaderAttributes", "X-Tenant-Id:tenant.id", "-spanRequestHeaderAttributes", ""),
        *("-endpointPrefixes", "openai:/oai", "-enableRedaction"),
    )
    assert settings.ext_proc_addr == "unix:///etc/ai-gateway-extproc-uds/run.sock"
    assert settings.log_level == -4
    assert settings.max_recv_msg_size == 4194304
    assert settings.mcp_session_encryption_seed == Secret("-s")
    assert settings.request_header_attributes == (("x-tenant-id", "tenant.id"),)
    assert settings.span_request_header_attributes == ()
    assert settings.endpoint_prefixes == EndpointPrefixes(openai="/oai")
    assert settings.enable_redaction is True
    assert settings.pending == (
        "mcpAddr",
        "mcpSessionEncryptionSeed",
        "mcpSessionEncryptionIterations",
    )


VALUES = {
    "TEXT": ("v", "v"),
    "OPTIONAL_TEXT": ("a:b", (("a", "b"),)),
    "SECRET": ("s", Secret("s")),
    "SWITCH": ("true", True),
    "INTEGER": ("7", 7),
    "DURATION": ("7s", 7.0),
    "SECONDS": ("7", 7.0),
    "MODE": ("0600", 0o600),
}
TLS = ("-transport=http2", "-tlsCert=cert.pem", "-tlsKey=key.pem")
SPECIAL = {
    "log_level": ("warn", 4),
    "log_format": ("json", "json"),
    "transport": ("http2", "http2"),
    "workers": ("3", 3),
    "endpoint_prefixes": ("openai:/x", EndpointPrefixes(openai="/x")),
    "console": ("false", False),
    "console_peers": ("10.0.0.0/8, fd00::/8", Peers(networks=("10.0.0.0/8", "fd00::/8"))),
}


@pytest.mark.parametrize("flag", knobs(), ids=lambda flag: flag.camel)
def test_each_knob_as_flag_and_as_variable(flag):
    text, value = SPECIAL.get(flag.field, VALUES[flag.kind.name])
    base = [] if flag.field.startswith("config_") and flag.field.endswith("_path") else PATH
    if flag.field == "workers":
        base = [*base, "-transport=http2"]
    if flag.field.startswith("tls_"):
        base = [*base, *(other for other in TLS if not other.startswith(f"-{flag.camel}="))]
    for settings in (
        parse(*base, f"-{flag.camel}={text}"),
        parse(*base, f"--{flag.kebab}={text}"),
        parse(*base, **{flag.variable: text}),
    ):
        assert getattr(settings, flag.field) == value


def test_flag_beats_variable_beats_default():
    environ = {"EXTPROC_CONFIG_PATH": "/env.yaml", "EXTPROC_ADMIN_PORT": "1"}
    settings = parse("-adminPort", "2", **environ)
    assert (settings.config_path, settings.admin_port, settings.root_prefix) == ("/env.yaml", 2, "/")


def test_an_empty_variable_is_as_if_unset_except_for_header_attributes():
    environ = {"EXTPROC_ADMIN_PORT": "", "EXTPROC_LOG_LEVEL": "", "EXTPROC_LOG_REQUEST_HEADER_ATTRIBUTES": ""}
    settings = parse(*PATH, **environ)
    assert settings.admin_port == 1064
    assert settings.log_level == 0
    assert settings.log_request_header_attributes == ()


def test_a_variable_that_cannot_be_read_is_named():
    with pytest.raises(FlagError) as caught:
        parse(*PATH, EXTPROC_ADMIN_PORT="many")
    assert str(caught.value) == 'invalid value "many" for environment variable EXTPROC_ADMIN_PORT: parse error'


NO_PATH = "either configPath or configBundlePath must be provided"
INVALID_PAIR = "invalid header-attribute pair at position 1"
HEADER_FORMAT = "(expected format: header:attribute)"
INVALID_PREFIX = "invalid endpointPrefixes pair at position 1"
FAMILIES = "(allowed: openai, cohere, anthropic)"
TLS_INCOMPLETE = "invalid TLS: tlsCert and tlsKey go together, and tlsClientCa with them"
NO_WORKERS = 'invalid workers: "{}", must be "auto" or from 1 to 128'
REFUSED = {
    "no config": ([], NO_PATH),
    "no config and bad level": (
        ["-logLevel", "invalid"],
        f'{NO_PATH}\nfailed to unmarshal log level: slog: level string "invalid": unknown name',
    ),
    "bad level offset": (
        [*PATH, "-logLevel", "info+x"],
        'failed to unmarshal log level: slog: level string "info+x": strconv.Atoi: parsing "+x": invalid syntax',
    ),
    "empty level": ([*PATH, "-logLevel="], 'failed to unmarshal log level: slog: level string "": unknown name'),
    "bad format": ([*PATH, "-logFormat", "JSON"], 'invalid log format: "JSON", must be "text" or "json"'),
    "mapping without colon": (
        [*PATH, "-spanRequestHeaderAttributes", "x-session-id"],
        f'failed to parse tracing header mapping: {INVALID_PAIR}: "x-session-id" {HEADER_FORMAT}',
    ),
    "mapping without header": (
        [*PATH, "-spanRequestHeaderAttributes", ":session.id"],
        'failed to parse tracing header mapping: empty header or attribute at position 1: ":session.id"',
    ),
    "mapping without attribute": (
        [*PATH, "-requestHeaderAttributes", "a:b, c: "],
        'failed to parse request header mapping: empty header or attribute at position 2: "c:"',
    ),
    "empty pair": (
        [*PATH, "-metricsRequestHeaderAttributes", "a:b,,c:d"],
        "failed to parse metrics header mapping: empty header-attribute pair at position 2",
    ),
    "trailing comma": (
        [*PATH, "-logRequestHeaderAttributes", "a:b,"],
        "failed to parse access log header mapping: empty header-attribute pair at position 2",
    ),
    "prefix of an unknown family": (
        [*PATH, "-endpointPrefixes", "foo:/x"],
        f'failed to parse endpoint prefixes: unknown endpointPrefixes key "foo" at position 1 {FAMILIES}',
    ),
    "prefix without colon": (
        [*PATH, "-endpointPrefixes", "openai"],
        f'failed to parse endpoint prefixes: {INVALID_PREFIX}: "openai" (expected format: key:value)',
    ),
    "empty prefix pair": (
        [*PATH, "-endpointPrefixes", "openai:/x,"],
        "failed to parse endpoint prefixes: empty endpointPrefixes pair at position 2",
    ),
    "everything at once": (
        ["-logLevel=x", "-logFormat=x", "-requestHeaderAttributes=x", "-endpointPrefixes=x"],
        f"""{NO_PATH}
failed to unmarshal log level: slog: level string "x": unknown name
invalid log format: "x", must be "text" or "json"
failed to parse request header mapping: {INVALID_PAIR}: "x" {HEADER_FORMAT}
failed to parse endpoint prefixes: {INVALID_PREFIX}: "x" (expected format: key:value)""",
    ),
    "no tokens by default": (
        [*PATH, "-defaultMaxTokens=0"],
        "invalid defaultMaxTokens: 0, must be from 1 to 2147483647",
    ),
    "unknown transport": ([*PATH, "-transport=quic"], 'invalid transport: "quic", must be "grpcio" or "http2"'),
    "empty transport": ([*PATH, "-transport="], 'invalid transport: "", must be "grpcio" or "http2"'),
    "certificate without a key": ([*PATH, "-transport=http2", "-tlsCert=c"], TLS_INCOMPLETE),
    "key without a certificate": ([*PATH, "-transport=http2", "-tlsKey=k"], TLS_INCOMPLETE),
    "client CA alone": ([*PATH, "-transport=http2", "-tlsClientCa=a"], TLS_INCOMPLETE),
    "TLS of the other engine": (
        [*PATH, "-transport=grpcio", "-tlsCert=c", "-tlsKey=k"],
        "invalid TLS: the transport grpcio has none, use http2",
    ),
    "no workers": ([*PATH, "-workers=0"], NO_WORKERS.format("0")),
    "workers of another kind": ([*PATH, "-transport=http2", "-workers=many"], NO_WORKERS.format("many")),
    "empty workers": ([*PATH, "-workers="], NO_WORKERS.format("")),
    "too many workers": ([*PATH, "-transport=http2", "-workers=129"], NO_WORKERS.format("129")),
    "peers that are none": (
        [*PATH, "-consolePeers=10.0.0.0/8,here"],
        "invalid consolePeers: 'here' does not appear to be an IPv4 or IPv6 network",
    ),
    "workers of the other engine": (
        [*PATH, "-transport=grpcio", "-workers=2"],
        "invalid workers: the transport grpcio has one process, use http2",
    ),
    "negative drain": ([*PATH, "-drainSeconds=-1s"], "invalid drainSeconds: -1, must not be negative"),
    "no polling": ([*PATH, "-configPollInterval=0"], "invalid configPollInterval: must be greater than zero"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    argv, text = REFUSED[name]
    with pytest.raises(SettingsError) as caught:
        parse(*argv)
    assert str(caught.value) == text


LEVELS = {"debug": -4, "INFO": 0, "Warn": 4, "error": 8, "info+2": 2, "WARN-1": 3, "error+10": 18}


@pytest.mark.parametrize("text", LEVELS)
def test_levels(text):
    assert parse(*PATH, "-logLevel", text).log_level == LEVELS[text]


@dataclass(frozen=True)
class Mapping:
    argv: list[str]
    spans: dict[str, str] = field(default_factory=dict)
    metrics: dict[str, str] = field(default_factory=dict)
    logs: dict[str, str] = field(default_factory=dict)


SESSION = {"agent-session-id": "session.id"}
MAPPINGS = {
    "nothing given": Mapping([], SESSION, {}, SESSION),
    "base only": Mapping(["-requestHeaderAttributes=a:b"], {"a": "b", **SESSION}, {"a": "b"}, {"a": "b", **SESSION}),
    "own ones empty": Mapping(
        [
            "-requestHeaderAttributes=a:b",
            "-spanRequestHeaderAttributes=",
            "-metricsRequestHeaderAttributes=",
            "-logRequestHeaderAttributes=",
        ],
        {"a": "b"},
        {"a": "b"},
        {"a": "b"},
    ),
    "own ones set": Mapping(
        [
            "-requestHeaderAttributes=a:b",
            "-spanRequestHeaderAttributes=s:span",
            "-metricsRequestHeaderAttributes=m:metric",
            "-logRequestHeaderAttributes=l:log",
        ],
        {"a": "b", "s": "span"},
        {"a": "b", "m": "metric"},
        {"a": "b", "l": "log"},
    ),
    "own one overrides the base": Mapping(
        ["-requestHeaderAttributes=a:b", "-metricsRequestHeaderAttributes=A:c"],
        {"a": "b", **SESSION},
        {"a": "c"},
        {"a": "b", **SESSION},
    ),
    "attribute with colons, spaces trimmed": Mapping(
        ["-requestHeaderAttributes= a : b:c:d , x:y"],
        {"a": "b:c:d", "x": "y", **SESSION},
        {"a": "b:c:d", "x": "y"},
        {"a": "b:c:d", "x": "y", **SESSION},
    ),
    "a repeated header": Mapping(
        ["-requestHeaderAttributes=a:b,a:c"], {"a": "c", **SESSION}, {"a": "c"}, {"a": "c", **SESSION}
    ),
}


@pytest.mark.parametrize("name", MAPPINGS)
def test_effective_mappings(name):
    case = MAPPINGS[name]
    settings = parse(*PATH, *case.argv)
    assert dict(settings.span_attributes) == case.spans
    assert dict(settings.metric_attributes) == case.metrics
    assert dict(settings.log_attributes) == case.logs


PREFIXES: dict[str, EndpointPrefixes] = {
    "": EndpointPrefixes(),
    "openai:": EndpointPrefixes(openai=""),
    "openai:/a,openai:/b": EndpointPrefixes(openai="/b"),
    " cohere : /c , anthropic:/x:y": EndpointPrefixes(cohere="/c", anthropic="/x:y"),
}


@pytest.mark.parametrize("text", PREFIXES)
def test_endpoint_prefixes(text):
    assert parse(*PATH, f"-endpointPrefixes={text}").endpoint_prefixes == PREFIXES[text]


def test_a_seed_is_not_shown():
    settings: Any = parse(*PATH, "-mcpSessionEncryptionSeed=hunter2")
    assert "hunter2" not in repr(settings)


def test_the_reference_page_is_current():
    page = (DOCS / "flags.md").read_text(encoding="utf-8")
    assert page == reference(), "run: python -m extproc.settings > docs/reference/flags.md"


def test_usage_names_every_spelling():
    text = usage()
    for flag in knobs():
        assert f"  -{flag.camel}" in text
        assert f"--{flag.kebab}, {flag.variable}" in text
