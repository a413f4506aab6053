"""Every flag of ``extproc controller``, in one table.

The fields of ``Flags`` are that table: names in the peer's spelling (``-extProcImage``), the help text and the
reference page (``python -m deploy.controller.flags``) are derived from it. The grammar is that of Go's ``flag``
package, as manifests are written for it: one dash or two, a value after ``=`` or as the next argument, a switch alone
or with ``=``. What cannot be read is told in one line with what would be right; arguments that are no flags are
refused, where Go would silently read no further.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, get_type_hints

from deploy.controller import flag_values as read
from deploy.controller.flag_values import Reader
from deploy.envoy.model import SocketAddress
from deploy.injector.options import DEFAULT_ITERATIONS, DEFAULT_MAX_RECV_MSG_SIZE
from filter_config.load import DEVELOPMENT_VERSION
from filter_config.redact import Secret

DEFAULT_SEED: Final = "default-insecure-seed"
"""What the processor encrypts MCP sessions with when it is told nothing else; everybody knows it."""


class FlagInvalid(ValueError):
    """The command line cannot be used; the text says which flag, its value, and what would be right."""


class HelpRequested(Exception):
    """``-h`` or ``-help``."""


@dataclass(frozen=True, slots=True)
class Knob:
    """What the table knows of a flag beside its name, type and default.

    Attributes:
        read: its value of its text.
        form: what its text looks like.
        meaning: a sentence for people.
        default: the default as a person would write it; None: it is the field's.
        is_secret: its text must not be shown.
    """

    read: Reader
    form: str
    meaning: str
    default: str | None = None
    is_secret: bool = False

    @property
    def is_switch(self) -> bool:
        """Whether it may be given without a value."""
        return self.read is read.switch


def _switch(meaning: str) -> Knob:
    return Knob(read.switch, "true or false", meaning)


def _address(meaning: str, default: str) -> Knob:
    return Knob(read.address, "host:port or :port", meaning, default)


def _level(meaning: str) -> Knob:
    return Knob(read.level, "debug, info, warn or error, with an offset if wanted (info+2)", meaning)


def _format(meaning: str) -> Knob:
    return Knob(read.one_of("text", "json"), "text or json", meaning)


def _mapping(meaning: str, default: str = "not given") -> Knob:
    return Knob(read.mapping, "header:attribute,header2:attribute2", meaning, default)


def _size(least: int, meaning: str) -> Knob:
    return Knob(read.integer(least), f"a number of bytes, {least} or more", meaning)


def _iterations(meaning: str) -> Knob:
    return Knob(read.integer(1), "a number, 1 or more", meaning)


def _file(meaning: str) -> Knob:
    return Knob(read.file_name, "a file's name without directories", meaning)


_ALL_PARTS: Final = frozenset(read.PARTS)
_QUOTA_SERVICE: Final = SocketAddress(host="envoy-ai-gateway-ratelimit.envoy-gateway-system", port=read.QUOTA_PORT)
_NO_SEED: Final = Secret("")
_SESSION: Final = "not given, which is agent-session-id:session.id"


@dataclass(frozen=True, slots=True, kw_only=True)
class Flags:
    """What a command line says."""

    only: Annotated[
        frozenset[str],
        Knob(
            read.parts,
            f"some of {', '.join(read.PARTS)}, separated by commas",
            "Which parts run here. The quota configuration is served beside the extension server.",
            "all",
        ),
    ] = _ALL_PARTS
    enable_leader_election: Annotated[
        bool, _switch("Whether there may be other replicas; the one that holds the Lease writes.")
    ] = True
    namespace: Annotated[
        str,
        Knob(
            read.name,
            "a namespace's name",
            "Where this process runs: the Lease and the Secret with the webhook's certificate are there.",
            "the environment's POD_NAMESPACE, or else envoyGatewayNamespace",
        ),
    ] = ""
    watch_namespaces: Annotated[
        tuple[str, ...],
        Knob(read.names(","), "namespaces' names, separated by commas", "Namespaces that are looked at.", "all"),
    ] = ()
    envoy_gateway_namespace: Annotated[
        str, Knob(read.some_name, "a namespace's name", "Where Envoy Gateway puts its proxies.")
    ] = "envoy-gateway-system"
    cache_sync_timeout: Annotated[
        float,
        Knob(
            read.some_time,
            "a duration with its unit, such as 2m",
            "How long it may take until everything has been listed once; after that the process ends with status 1.",
            "2m",
        ),
    ] = 120.0
    config_version: Annotated[
        str, Knob(read.some_text, "a version", "Version of the processors, which refuse configs of another.")
    ] = DEVELOPMENT_VERSION
    log_level: Annotated[str, _level("Which lines are logged.")] = "info"
    log_format: Annotated[str, _format("How lines are logged, on standard error.")] = "text"
    metrics_address: Annotated[
        tuple[str, int], _address("Where /metrics, /health and /ready are served, of all parts.", ":8080")
    ] = ("", 8080)
    drain_time: Annotated[
        float,
        Knob(
            read.duration,
            "a duration with its unit, such as 5s",
            "How long to go on answering after SIGTERM, while not ready, until nobody sends anything here any more.",
            "5s",
        ),
    ] = 5.0

    ext_proc_image: Annotated[
        str,
        Knob(read.image, "an image", "The processor's image, which the webhook injects. With an empty one, none is."),
    ] = "docker.io/envoyproxy/ai-gateway-extproc:latest"
    ext_proc_image_pull_policy: Annotated[
        str,
        Knob(
            read.one_of("Always", "IfNotPresent", "Never"), "Always, IfNotPresent or Never", "When the image is pulled."
        ),
    ] = "IfNotPresent"
    ext_proc_image_pull_secrets: Annotated[
        tuple[str, ...],
        Knob(
            read.names(";", read.object_name),
            "Secrets' names, separated by semicolons",
            "Secrets for pulling the image, in the namespaces of gateway pods.",
            "",
        ),
    ] = ()
    ext_proc_extra_env_vars: Annotated[
        tuple[tuple[str, str], ...],
        Knob(
            read.variables,
            "K=v;K2=v2",
            "Environment of the processor. Everybody who may see pods sees it: no credentials.",
            "",
        ),
    ] = ()
    ext_proc_log_level: Annotated[str, _level("The processor's own flag logLevel.")] = "info"
    ext_proc_log_format: Annotated[str, _format("The processor's own flag logFormat.")] = "text"
    ext_proc_enable_redaction: Annotated[bool, _switch("The processor's own flag enableRedaction.")] = False
    ext_proc_max_recv_msg_size: Annotated[int, _size(1, "Largest message that a processor takes from Envoy.")] = (
        DEFAULT_MAX_RECV_MSG_SIZE
    )
    root_prefix: Annotated[
        str, Knob(read.path_prefix, "a path that begins with /", "Path prefix of every endpoint, and of every route.")
    ] = "/"
    endpoint_prefixes: Annotated[
        str,
        Knob(
            read.prefixes,
            "openai:/x,cohere:/y,anthropic:/z",
            "Path prefix of a family of endpoints; one that is not named keeps the processor's default.",
            "",
        ),
    ] = ""
    request_header_attributes: Annotated[
        str | None, _mapping("Request headers that become attributes of metrics, spans and access logs alike.")
    ] = None
    span_request_header_attributes: Annotated[
        str | None, _mapping("Further ones of spans; an empty value is none.", _SESSION)
    ] = None
    metrics_request_header_attributes: Annotated[str | None, _mapping("Further ones of metrics.")] = None
    log_request_header_attributes: Annotated[
        str | None, _mapping("Further ones of access logs; an empty value is none.", _SESSION)
    ] = None
    mcp_session_encryption_seed: Annotated[
        Secret,
        Knob(
            read.some_secret,
            "a text that is not empty",
            "Seed of the key that encrypts MCP sessions, which gateway pods get by a Secret. Everybody knows the "
            "default.",
            DEFAULT_SEED,
            is_secret=True,
        ),
    ] = Secret(DEFAULT_SEED)  # noqa: RUF009 - it is immutable
    mcp_session_encryption_iterations: Annotated[int, _iterations("PBKDF2 iterations of that key.")] = (
        DEFAULT_ITERATIONS
    )
    mcp_fallback_session_encryption_seed: Annotated[
        Secret, Knob(Secret, "a text", "The seed before a rotation; it only decrypts.", "", is_secret=True)
    ] = _NO_SEED
    mcp_fallback_session_encryption_iterations: Annotated[int, _iterations("PBKDF2 iterations of the other key.")] = (
        DEFAULT_ITERATIONS
    )

    webhook_port: Annotated[
        int, Knob(read.integer(0, read.HIGHEST_PORT), "a port", "Where the webhook is served, with TLS.")
    ] = 9443
    tls_cert_dir: Annotated[
        str,
        Knob(read.some_text, "a directory", "Where the webhook's certificate is: mounted, or written by this process."),
    ] = "/certs"
    tls_cert_name: Annotated[str, _file("The certificate's file there.")] = "tls.crt"
    tls_key_name: Annotated[str, _file("Its private key's file there.")] = "tls.key"
    ca_bundle_name: Annotated[
        str,
        _file(
            "The file there with who issued it. When there is one, it is written into the webhook's configuration, "
            "also when it changes."
        ),
    ] = "ca.crt"
    tls_cert_secret_name: Annotated[
        str,
        Knob(
            read.object_name,
            "a Secret's name",
            "A Secret in which this process makes, keeps and renews the certificate itself. Without one, the files "
            "are somebody else's, and read again when they change.",
            "",
        ),
    ] = ""

    port: Annotated[tuple[str, int], _address("Where the extension server is served.", ":1063")] = ("", 1063)
    max_recv_msg_size: Annotated[
        int, _size(0, "Largest message that the extension server takes from Envoy Gateway; 0: no limit.")
    ] = 4 << 20
    extension_server_endpoints_hook: Annotated[
        bool, _switch("Whether Envoy Gateway calls the hook Endpoints, which it has from version 1.8 on.")
    ] = True
    quota_rate_limit_service_addr: Annotated[
        SocketAddress,
        Knob(
            read.service,
            "host or host:port",
            "The rate limit service that keeps quotas, as Envoy finds it.",
            _QUOTA_SERVICE.host,
        ),
    ] = _QUOTA_SERVICE
    quota_rate_limit_timeout: Annotated[
        float, Knob(read.seconds, "a number of seconds greater than 0", "How long Envoy waits for it.", "5")
    ] = 5.0
    quota_rate_limit_failure_mode_deny: Annotated[bool, _switch("Whether requests are refused without its answer.")] = (
        False
    )
    ratelimit_xds_address: Annotated[
        tuple[str, int], _address("Where rate limit services get the quotas from.", "0.0.0.0:18002")
    ] = ("0.0.0.0", 18002)

    @classmethod
    def parse(cls, argv: Sequence[str], environ: Mapping[str, str]) -> Flags:
        """The flags of a command line.

        Raises:
            HelpRequested: the usage text is wanted.
            FlagInvalid: something cannot be used; the first of what is wrong.
        """
        table = knobs()
        fields = {flag_name(field): field for field in table}
        given: dict[str, Any] = {}
        rest = list(reversed(argv))
        switch = ""
        while rest:
            flag, text = _split(rest.pop(), switch)
            if flag in ("h", "help"):
                raise HelpRequested
            if flag not in fields:
                raise FlagInvalid(f"--{flag}: there is no such flag; -h lists all")
            knob = table[fields[flag]]
            if text is None and not knob.is_switch:
                if not rest:
                    raise FlagInvalid(f"--{flag}: a value is missing: {knob.form}")
                text = rest.pop()
            switch = flag if text is None else ""
            given[fields[flag]] = True if text is None else _value(flag, knob, text)
        if not given.get("namespace"):
            given["namespace"] = environ.get("POD_NAMESPACE") or given.get(
                "envoy_gateway_namespace", cls.__dataclass_fields__["envoy_gateway_namespace"].default
            )
        return cls(**given)


def _split(argument: str, switch: str) -> tuple[str, str | None]:
    """A flag's name, and its value when that is part of the argument; ``switch`` is what was given alone before."""
    body = argument.removeprefix("-").removeprefix("-")
    if body == argument or not body or body.startswith(("-", "=")):
        hint = f"a value of --{switch} is given after =" if switch else "-h lists all"
        raise FlagInvalid(f"{argument!r} is no flag; {hint}")
    name, equals, text = body.partition("=")
    return name, text if equals else None


def _value(flag: str, knob: Knob, text: str) -> object:
    try:
        return knob.read(text)
    except ValueError as error:
        shown = f"--{flag}" if knob.is_secret else f"--{flag}={text}"
        reason = f"{error}; " if str(error) else ""
        # No line feeds of somebody else's in a line of ours.
        line = f"{shown}: {reason}it should be {knob.form}".encode("unicode_escape").decode()
        raise FlagInvalid(line) from None


def knobs() -> dict[str, Knob]:
    """The table by field, in its order."""
    return {
        field: extra
        for field, hint in get_type_hints(Flags, include_extras=True).items()
        for extra in getattr(hint, "__metadata__", ())
        if isinstance(extra, Knob)
    }


def flag_name(field: str) -> str:
    """The flag of a field: ``extProcImage`` of ``ext_proc_image``."""
    head, *tail = field.split("_")
    return head + "".join(word.capitalize() for word in tail)


def flag_names() -> frozenset[str]:
    """All flags."""
    return frozenset(flag_name(field) for field in knobs())


def _shown_defaults() -> dict[str, str]:
    defaults = {field.name: field.default for field in dataclasses.fields(Flags)}
    return {field: _shown(defaults[field]) if knob.default is None else knob.default for field, knob in knobs().items()}


def _shown(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def usage() -> str:
    """The help text."""
    lines = ["Usage: extproc controller [flags]", "", _SUMMARY, "", "Flags:"]
    shown = _shown_defaults()
    for field, knob in knobs().items():
        default = f" (default {shown[field]})" if shown[field] else ""
        lines += [f"  --{flag_name(field)}", f"      {knob.meaning}{default}", f"      Write {knob.form}."]
    return "\n".join(lines) + "\n"


_SUMMARY: Final = (
    "The control plane beside Envoy Gateway: controller, sidecar injector and extension server in one process."
)
_INTRODUCTION: Final = f"""\
# Flags of the controller

<!-- Written by `python -m deploy.controller.flags`; change deploy/controller/flags.py instead. -->

`extproc controller`: {_SUMMARY[0].lower()}{_SUMMARY[1:]}
See [Run it in Kubernetes](../howto/kubernetes.md); the chart passes these flags.

They are written with one dash or two, the value after `=` or as the next argument. Switches are given alone or with a
value after `=`. Of a repeated flag the last one counts. No environment variable stands in for a flag; `POD_NAMESPACE`
and `POD_NAME` say where and who the process is, and `KUBECONFIG` where the cluster is, outside of one.

| Flag | Value | Default | Meaning |
|---|---|---|---|
"""


def reference() -> str:
    """The reference page, in Markdown."""
    shown = _shown_defaults()
    rows = [
        f"| `--{flag_name(field)}` | {knob.form} | {shown[field] or 'empty'} | {knob.meaning} |\n"
        for field, knob in knobs().items()
    ]
    return _INTRODUCTION + "".join(rows)


if __name__ == "__main__":
    sys.stdout.write(reference())
