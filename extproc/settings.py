"""Every knob of the process, in one table.

The fields of ``Settings`` are that table: flags (in the peer's spelling ``-configPath`` and as ``--config-path``),
environment variables (``EXTPROC_CONFIG_PATH``), the help text and the reference page are all derived from it, so they
cannot drift apart. A flag beats a variable, a variable beats the default.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, get_type_hints

from extproc.admin.peers import Peers
from extproc.flags import Flag, Kind, convert, pairs, parse_flags
from extproc.golang import MAX_INT64, format_duration, quote
from extproc.paths import EndpointPrefixes
from extproc.telemetry.attributes import SESSION, HeaderAttributes, merge, parse_header_attributes
from extproc.telemetry.levels import parse_level
from extproc.transport.tls import TlsFiles
from extproc.workers.cores import available_cores
from filter_config.redact import Secret


class SettingsError(ValueError):
    """The command line or the environment cannot be used; the text names every fault, one a line."""


def parse_endpoint_prefixes(text: str) -> EndpointPrefixes:
    """Read ``openai:/x,cohere:/y,anthropic:/z``; a family that is not named keeps its default.

    Raises:
        ValueError: with the position, counted from 1, of the pair that is wrong.
    """
    given: dict[str, str] = {}
    for position, _, family, prefix in pairs(text, "endpointPrefixes", "key:value"):
        if family not in ("openai", "cohere", "anthropic"):
            raise ValueError(
                f"unknown endpointPrefixes key {quote(family)} at position {position} "
                "(allowed: openai, cohere, anthropic)"
            )
        given[family] = prefix
    return EndpointPrefixes(**given)


@dataclass(frozen=True, slots=True)
class Knob:
    """What the table knows of a field beside its name, type and default.

    Attributes:
        kind: how its text is read.
        meaning: one sentence for people.
        default: the default as a person would write it, where that is not just the value.
        pending: the feature that the flag belongs to and that this version does not have, or empty.
    """

    kind: Kind
    meaning: str
    default: str | None = None
    pending: str = ""

    def show(self, value: Any) -> str:  # noqa: ANN401 - the default of a field of any type
        """The default of the field, as a person would write it."""
        if self.default is not None:
            return self.default
        match self.kind:
            case Kind.OPTIONAL_TEXT:
                return "not given"
            case Kind.SWITCH:
                return str(value).lower()
            case Kind.DURATION:
                return format_duration(value)
            case Kind.SECONDS:
                return f"{value:g}"
            case Kind.MODE:
                return f"{value:04o}"
            case _:
                return str(value)


_MCP: Final = "the MCP proxy"
_SEED: Final = Secret("default-insecure-seed")
_NO_SECRET: Final = Secret("")
_PREFIXES: Final = EndpointPrefixes()
_LOOPBACK: Final = Peers()


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The knobs of one process (contract, flags 1.2; the last group is ours).

    ``ignored`` are the arguments behind the first one that is not a flag, which are not read.
    ``pending`` lists the flags that were given but belong to a feature that is not here yet.
    """

    config_path: Annotated[
        str, Knob(Kind.TEXT, "Filter config: one YAML or JSON file, watched. Unused when a bundle is given.")
    ] = ""
    config_bundle_path: Annotated[
        str, Knob(Kind.TEXT, "Filter config: directory with index.yaml and the parts that it lists, watched.")
    ] = ""
    ext_proc_addr: Annotated[str, Knob(Kind.TEXT, "Where gRPC is served: host:port, or unix:///path.")] = ":1063"
    log_level: Annotated[
        int, Knob(Kind.TEXT, "debug, info, warn or error, with an offset if wanted (info+2).", "info")
    ] = 0
    log_format: Annotated[str, Knob(Kind.TEXT, "text or json.")] = "text"
    enable_redaction: Annotated[bool, Knob(Kind.SWITCH, "Show bodies in debug logs without their texts.")] = False
    admin_port: Annotated[
        int, Knob(Kind.INTEGER, "HTTP port of /metrics, /health, /ready and /config; 0 takes any free port.")
    ] = 1064
    request_header_attributes: Annotated[
        HeaderAttributes | None,
        Knob(
            Kind.OPTIONAL_TEXT,
            "header:attribute pairs, separated by commas, for metrics, spans and access logs alike.",
        ),
    ] = None
    span_request_header_attributes: Annotated[
        HeaderAttributes | None,
        Knob(
            Kind.OPTIONAL_TEXT,
            "Further pairs for spans. When not given, agent-session-id:session.id; when empty, none.",
        ),
    ] = None
    metrics_request_header_attributes: Annotated[
        HeaderAttributes | None, Knob(Kind.OPTIONAL_TEXT, "Further pairs for metrics.")
    ] = None
    log_request_header_attributes: Annotated[
        HeaderAttributes | None,
        Knob(
            Kind.OPTIONAL_TEXT,
            "Further pairs for access logs (dynamic metadata). When not given, agent-session-id:session.id; "
            "when empty, none.",
        ),
    ] = None
    root_prefix: Annotated[str, Knob(Kind.TEXT, "Path prefix of every endpoint.")] = "/"
    endpoint_prefixes: Annotated[
        EndpointPrefixes,
        Knob(
            Kind.TEXT,
            "Path prefix of a family of endpoints; one that is not named keeps its default.",
            "openai:/,cohere:/cohere,anthropic:/anthropic",
        ),
    ] = _PREFIXES
    max_recv_msg_size: Annotated[int, Knob(Kind.INTEGER, "Largest gRPC message taken from Envoy, in bytes.")] = (
        MAX_INT64
    )
    mcp_addr: Annotated[
        str, Knob(Kind.TEXT, "Where the MCP proxy is served; empty means that it is off.", pending=_MCP)
    ] = ""
    mcp_session_encryption_seed: Annotated[
        Secret,
        Knob(Kind.SECRET, "Seed of the key that encrypts MCP session ids.", "default-insecure-seed", _MCP),
    ] = _SEED
    mcp_session_encryption_iterations: Annotated[
        int, Knob(Kind.INTEGER, "PBKDF2 iterations for that key.", pending=_MCP)
    ] = 100_000
    mcp_fallback_session_encryption_seed: Annotated[
        Secret, Knob(Kind.SECRET, "The seed before a rotation; it only decrypts.", "", _MCP)
    ] = _NO_SECRET
    mcp_fallback_session_encryption_iterations: Annotated[
        int, Knob(Kind.INTEGER, "PBKDF2 iterations for the fallback key.", pending=_MCP)
    ] = 100_000
    mcp_write_timeout: Annotated[float, Knob(Kind.DURATION, "Write timeout of the MCP server.", pending=_MCP)] = 120.0

    version_string: Annotated[
        str,
        Knob(
            Kind.TEXT, "The gateway version to claim; a reload for another version is refused, a first config is not."
        ),
    ] = "dev"
    relax_version_check: Annotated[bool, Knob(Kind.SWITCH, "Take filter configs of any version.")] = False
    max_body_bytes: Annotated[
        int,
        Knob(Kind.INTEGER, "Largest request body that is taken; a larger one is answered with 413. 0 means no limit."),
    ] = 128 * 1024 * 1024
    default_max_tokens: Annotated[
        int,
        Knob(
            Kind.INTEGER,
            "Limit of output tokens for requests without one, where the backend's API demands it (Claude); "
            "what a client allows for thinking comes on top.",
        ),
    ] = 4096
    bedrock_betas: Annotated[
        str,
        Knob(
            Kind.TEXT,
            "Flags of `anthropic-beta`, separated by commas, that go to Claude on Amazon Bedrock beside those known "
            "to this version; one with a minus in front does not go any more.",
        ),
    ] = ""
    drain_seconds: Annotated[
        float, Knob(Kind.SECONDS, "How long to go on serving, while not ready, after the first SIGTERM.")
    ] = 15.0
    shutdown_timeout: Annotated[
        float, Knob(Kind.DURATION, "How long the streams in flight may take after that; then they are cut.")
    ] = 30.0
    admin_host: Annotated[str, Knob(Kind.TEXT, "Address of the admin HTTP server; empty means all interfaces.")] = ""
    console: Annotated[
        bool, Knob(Kind.SWITCH, "Show the console, a page for people, at / of the admin port. Turn it off with =false.")
    ] = True
    console_peers: Annotated[
        Peers,
        Knob(
            Kind.TEXT,
            "Who else may see the console: networks, separated by commas, or any. By default it is shown only to "
            "clients on this machine, whatever the admin port listens on.",
            "loopback",
        ),
    ] = _LOOPBACK
    uds_mode: Annotated[int, Knob(Kind.MODE, "File mode of a Unix socket that gRPC is served on.")] = 0o775
    transport: Annotated[
        str,
        Knob(
            Kind.TEXT,
            "What serves gRPC: http2, an engine of our own that costs a fraction of the CPU time, or grpcio.",
        ),
    ] = "http2"
    tls_cert: Annotated[
        str, Knob(Kind.TEXT, "PEM file with the certificate chain of the gRPC listener; turns TLS on. Needs http2.")
    ] = ""
    tls_key: Annotated[str, Knob(Kind.TEXT, "PEM file with its private key.")] = ""
    tls_client_ca: Annotated[
        str, Knob(Kind.TEXT, "PEM file with the issuers of client certificates; every client then needs one.")
    ] = ""
    workers: Annotated[
        int,
        Knob(
            Kind.TEXT,
            "How many processes serve gRPC, or auto for one per available core. More than one needs http2.",
            "1",
        ),
    ] = 1
    config_poll_interval: Annotated[
        float, Knob(Kind.DURATION, "How often the filter config is read even if no change was notified.")
    ] = 5.0

    pending: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()

    @property
    def tls(self) -> TlsFiles | None:
        """The TLS of the gRPC listener, where it has one."""
        if not self.tls_cert:
            return None
        client_ca = Path(self.tls_client_ca) if self.tls_client_ca else None
        return TlsFiles(certificate=Path(self.tls_cert), key=Path(self.tls_key), client_ca=client_ca)

    @property
    def span_attributes(self) -> HeaderAttributes:
        """Headers that become span attributes."""
        own = self.span_request_header_attributes
        return merge(self.request_header_attributes or (), SESSION if own is None else own)

    @property
    def metric_attributes(self) -> HeaderAttributes:
        """Headers that become attributes of the gen_ai metrics."""
        return merge(self.request_header_attributes or (), self.metrics_request_header_attributes or ())

    @property
    def log_attributes(self) -> HeaderAttributes:
        """Headers that become access-log fields, through dynamic metadata."""
        own = self.log_request_header_attributes
        return merge(self.request_header_attributes or (), SESSION if own is None else own)

    @classmethod
    def parse(cls, argv: Sequence[str], environ: Mapping[str, str]) -> Settings:
        """Settings from a command line and an environment.

        An environment variable that is empty counts as not set, except for the header attributes, where empty has a
        meaning of its own.

        Raises:
            HelpRequested: the usage text is wanted.
            FlagError: the command line breaks the grammar of flags.
            SettingsError: with every value that cannot be used, one a line, in the peer's words and order.
        """
        table = knobs()
        flags = tuple(table)
        from_flags, ignored = parse_flags(argv, flags)
        given = _from_environment(flags, environ) | from_flags
        values, faults = _validate(given)
        if faults:
            hint = [f"arguments from {quote(ignored[0])} on were not read: it is no flag"] if ignored else []
            raise SettingsError("\n".join(faults + hint))
        pending = tuple(flag.camel for flag, knob in table.items() if knob.pending and flag.field in given)
        return cls(**values, pending=pending, ignored=ignored)


def knobs() -> dict[Flag, Knob]:
    """The table, in the order of the contract."""
    table = {}
    for field, hint in get_type_hints(Settings, include_extras=True).items():
        for extra in getattr(hint, "__metadata__", ()):
            if isinstance(extra, Knob):
                table[Flag(field=field, kind=extra.kind)] = extra
    return table


def _shown_defaults() -> dict[str, str]:
    defaults = {field.name: field.default for field in dataclasses.fields(Settings)}
    return {flag.field: knob.show(defaults[flag.field]) for flag, knob in knobs().items()}


def _from_environment(flags: Sequence[Flag], environ: Mapping[str, str]) -> dict[str, object]:
    given = {}
    for flag in flags:
        text = environ.get(flag.variable)
        if text or (text is not None and flag.kind is Kind.OPTIONAL_TEXT):
            given[flag.field] = convert(flag.kind, text, f"environment variable {flag.variable}")
    return given


def parse_workers(text: str) -> int:
    """Read a number of workers; ``auto`` is one per core that is available to this process.

    Raises:
        ValueError: it is none that can be used.
    """
    if text == "auto":
        return available_cores()
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= MAX_WORKERS):
        raise ValueError(f'invalid workers: {quote(text)}, must be "auto" or from 1 to {MAX_WORKERS}')
    return int(text)


def _log_format(text: str) -> str:
    if text not in ("text", "json"):
        raise ValueError(f'invalid log format: {quote(text)}, must be "text" or "json"')
    return text


def _transport(text: str) -> str:
    if text not in ("grpcio", "http2"):
        raise ValueError(f'invalid transport: {quote(text)}, must be "grpcio" or "http2"')
    return text


# Field, reader of its text, and what the error says first; in the order in which the peer reports (contract 1.3).
_TYPED: Final[tuple[tuple[str, Callable[[str], object], str], ...]] = (
    ("log_level", parse_level, "failed to unmarshal log level: "),
    ("log_format", _log_format, ""),
    ("request_header_attributes", parse_header_attributes, "failed to parse request header mapping: "),
    ("span_request_header_attributes", parse_header_attributes, "failed to parse tracing header mapping: "),
    ("metrics_request_header_attributes", parse_header_attributes, "failed to parse metrics header mapping: "),
    ("log_request_header_attributes", parse_header_attributes, "failed to parse access log header mapping: "),
    ("endpoint_prefixes", parse_endpoint_prefixes, "failed to parse endpoint prefixes: "),
    ("transport", _transport, ""),
    ("workers", parse_workers, ""),
    ("console_peers", Peers.parse, "invalid consolePeers: "),
)
MAX_WORKERS: Final = 128
_EMPTY: Final[Mapping[str, object]] = {"endpoint_prefixes": EndpointPrefixes(), "console_peers": Peers()}
_NOT_NEGATIVE: Final = ("max_body_bytes", "drain_seconds", "shutdown_timeout")


def _validate(given: Mapping[str, object]) -> tuple[dict[str, Any], list[str]]:
    values: dict[str, Any] = dict(given)
    faults = []
    if not given.get("config_path") and not given.get("config_bundle_path"):
        faults.append("either configPath or configBundlePath must be provided")
    for field, read, wrong in _TYPED:
        if field not in given:
            continue
        text = str(given[field])
        if not text and field not in ("log_level", "log_format", "transport", "workers"):
            values[field] = _EMPTY.get(field, ())
            continue
        try:
            values[field] = read(text)
        except ValueError as error:
            faults.append(f"{wrong}{error}")
    return values, faults + _out_of_range(values) + _tls_faults(values) + _worker_faults(values)


def _worker_faults(values: Mapping[str, Any]) -> list[str]:
    workers = values.get("workers", 1)
    if isinstance(workers, int) and workers > 1 and _transport_in(values) != "http2":
        return ["invalid workers: the transport grpcio has one process, use http2"]
    return []


def _transport_in(values: Mapping[str, Any]) -> str:
    default = next(field.default for field in dataclasses.fields(Settings) if field.name == "transport")
    return str(values.get("transport", default))


def _tls_faults(values: Mapping[str, Any]) -> list[str]:
    certificate, key, client_ca = (values.get(field, "") for field in ("tls_cert", "tls_key", "tls_client_ca"))
    if not (certificate or key or client_ca):
        return []
    if not (certificate and key):
        return ["invalid TLS: tlsCert and tlsKey go together, and tlsClientCa with them"]
    if _transport_in(values) != "http2":
        return ["invalid TLS: the transport grpcio has none, use http2"]
    return []


def _out_of_range(values: Mapping[str, Any]) -> list[str]:
    faults = [
        f"invalid {Flag(field=field, kind=Kind.TEXT).camel}: {values[field]:g}, must not be negative"
        for field in _NOT_NEGATIVE
        if values.get(field, 0) < 0
    ]
    if values.get("config_poll_interval", 1.0) <= 0:
        faults.append("invalid configPollInterval: must be greater than zero")
    if not 0 < values.get("default_max_tokens", 1) < 2**31:
        faults.append(f"invalid defaultMaxTokens: {values['default_max_tokens']}, must be from 1 to {2**31 - 1}")
    return faults


def usage() -> str:
    """The help text of ``extproc serve``."""
    lines = ["Usage: extproc [serve] [flags]", "", "Other commands: see `extproc help`.", ""]
    lines.append("Flags (each also as an environment variable):")
    shown = _shown_defaults()
    for flag, knob in knobs().items():
        lines.append(f"  -{flag.camel} {'' if flag.kind is Kind.SWITCH else flag.kind}".rstrip())
        lines.append(f"      --{flag.kebab}, {flag.variable}")
        default = f" (default {shown[flag.field]})" if shown[flag.field] not in ("", "false", "not given") else ""
        later = f" Has no effect yet: {knob.pending} comes later." if knob.pending else ""
        lines.append(f"      {knob.meaning}{later}{default}")
    return "\n".join(lines) + "\n"


_INTRODUCTION: Final = """\
# Flags and environment variables

<!-- Written by `python -m extproc.settings`; change extproc/settings.py instead. -->

`extproc [serve]` takes these flags in the spelling of Envoy AI Gateway's processor (`-configPath v`, `-configPath=v`,
`--configPath v`) and as `--config-path v`. Each has an environment variable. A flag beats a variable, a variable beats
the default; of a repeated flag the last one counts. Reading stops at the first argument that is not a flag.

Switches are given alone or with a value after `=` (`-enableRedaction`, `-enableRedaction=false`), never as two
arguments. Integers may have a base prefix and underscores (`0x10`, `1_000`). Durations need a unit (`90s`, `1m30s`,
`250ms`); *seconds* may also be a plain number.

| Flag | Also | Environment variable | Type | Default | Meaning |
|---|---|---|---|---|---|
"""


def reference() -> str:
    """The reference page of the flags, in Markdown."""
    rows = []
    shown = _shown_defaults()
    for flag, knob in knobs().items():
        later = f" **No effect yet:** {knob.pending} comes later." if knob.pending else ""
        default = (
            f"`{shown[flag.field]}`" if shown[flag.field] not in ("", "not given") else shown[flag.field] or "empty"
        )
        cells = (f"`-{flag.camel}`", f"`--{flag.kebab}`", f"`{flag.variable}`", str(flag.kind), default)
        rows.append(f"| {' | '.join(cells)} | {knob.meaning}{later} |\n")
    return _INTRODUCTION + "".join(rows)


if __name__ == "__main__":
    sys.stdout.write(reference())
