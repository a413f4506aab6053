"""The flags of ``extproc controller``: their grammar, what each means, and what is said of what means nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import deploy
from deploy.controller import flag_values
from deploy.controller.flags import FlagInvalid, Flags, HelpRequested, flag_name, flag_names, knobs, reference, usage
from deploy.envoy.model import SocketAddress
from extproc.golang import parse_bool, parse_duration
from filter_config.redact import Secret

ROOT = Path(deploy.__file__).resolve().parents[1]
CONTRACT = {
    "envoyGatewayNamespace": "envoy-gateway-system",
    "extProcImage": "docker.io/envoyproxy/ai-gateway-extproc:latest",
    "extProcImagePullPolicy": "IfNotPresent",
    "extProcLogLevel": "info",
    "logLevel": "info",
    "extProcLogFormat": "text",
    "logFormat": "text",
    "extProcEnableRedaction": False,
    "extProcExtraEnvVars": (),
    "extProcImagePullSecrets": (),
    "extProcMaxRecvMsgSize": 536870912,
    "maxRecvMsgSize": 4194304,
    "enableLeaderElection": True,
    "port": ("", 1063),
    "webhookPort": 9443,
    "tlsCertDir": "/certs",
    "tlsCertName": "tls.crt",
    "tlsKeyName": "tls.key",
    "caBundleName": "ca.crt",
    "requestHeaderAttributes": None,
    "spanRequestHeaderAttributes": None,
    "logRequestHeaderAttributes": None,
    "metricsRequestHeaderAttributes": None,
    "endpointPrefixes": "",
    "rootPrefix": "/",
    "watchNamespaces": (),
    "cacheSyncTimeout": 120.0,
    "mcpSessionEncryptionSeed": Secret("default-insecure-seed"),
    "mcpSessionEncryptionIterations": 100000,
    "mcpFallbackSessionEncryptionSeed": Secret(""),
    "mcpFallbackSessionEncryptionIterations": 100000,
    "quotaRateLimitServiceAddr": SocketAddress(host="envoy-ai-gateway-ratelimit.envoy-gateway-system", port=8081),
    "quotaRateLimitTimeout": 5.0,
    "quotaRateLimitFailureModeDeny": False,
}
"""Every flag of the contract (control plane 0), and its default."""
OURS = {
    "only",
    "namespace",
    "configVersion",
    "metricsAddress",
    "tlsCertSecretName",
    "extensionServerEndpointsHook",
    "ratelimitXdsAddress",
    "drainTime",
}


def parsed(*argv: str, **environ: str) -> Flags:
    return Flags.parse(argv, environ)


def value(argument: str) -> object:
    """What one flag comes to."""
    flag = argument.lstrip("-").partition("=")[0]
    (field,) = [field for field in knobs() if flag_name(field) == flag]
    return getattr(parsed(argument), field)


def test_there_are_the_flags_of_the_contract_and_ours():
    assert flag_names() == CONTRACT.keys() | OURS


@pytest.mark.parametrize("flag", CONTRACT)
def test_defaults_are_the_peers(flag):
    (field,) = [field for field in knobs() if flag_name(field) == flag]

    assert getattr(parsed(), field) == CONTRACT[flag]


SPELLINGS = {
    "one dash": ["-logLevel=debug"],
    "two dashes": ["--logLevel=debug"],
    "the next argument": ["--logLevel", "debug"],
    "the last one counts": ["-logLevel", "error", "-logLevel=debug"],
}


@pytest.mark.parametrize("argv", SPELLINGS.values(), ids=SPELLINGS)
def test_a_value_is_given_in_each_way(argv):
    assert parsed(*argv).log_level == "debug"


def test_a_switch_is_given_alone_or_with_a_value():
    assert parsed("-extProcEnableRedaction").ext_proc_enable_redaction is True
    assert parsed("--enableLeaderElection=false").enable_leader_election is False
    # As in Go: what follows a switch is not its value.
    with pytest.raises(FlagInvalid, match="'false' is no flag; a value of --enableLeaderElection is given after ="):
        parsed("--enableLeaderElection", "false")


VALUES = {
    "--only=injector, controller": frozenset({"injector", "controller"}),
    "--only=": frozenset(flag_values.PARTS),
    "--watchNamespaces=a, b,": ("a", "b"),
    "--extProcImage=": "",
    "--extProcExtraEnvVars= A = 1 ;;B=": (("A", " 1"), ("B", "")),
    "--extProcImagePullSecrets=a; b.c;": ("a", "b.c"),
    "--extProcMaxRecvMsgSize=0x10": 16,
    "--maxRecvMsgSize=0": 0,
    "--port=127.0.0.1:99": ("127.0.0.1", 99),
    "--metricsAddress=[::1]:0": ("::1", 0),
    "--cacheSyncTimeout=1m30s": 90.0,
    "--drainTime=0": 0.0,
    "--logLevel=INFO+2": "INFO+2",
    "--spanRequestHeaderAttributes=": "",
    "--requestHeaderAttributes=X-A:a:b,x-c:d": "X-A:a:b,x-c:d",
    "--endpointPrefixes=openai:,cohere:/cohere,anthropic:/anthropic": "openai:,cohere:/cohere,anthropic:/anthropic",
    "--mcpSessionEncryptionSeed=-=x": Secret("-=x"),
    "--quotaRateLimitServiceAddr=limits": SocketAddress(host="limits", port=8081),
    "--quotaRateLimitServiceAddr=limits:9": SocketAddress(host="limits", port=9),
    "--quotaRateLimitServiceAddr=::1": SocketAddress(host="::1", port=8081),
    "--quotaRateLimitServiceAddr=[::1]": SocketAddress(host="::1", port=8081),
    "--quotaRateLimitServiceAddr=[::1]:9": SocketAddress(host="::1", port=9),
    "--quotaRateLimitTimeout=0.5": 0.5,
}


@pytest.mark.parametrize(("argument", "expected"), VALUES.items(), ids=VALUES)
def test_what_a_value_means(argument, expected):
    assert value(argument) == expected


FAULTS = {
    "--only=webhook": "it should be some of controller, injector, extension-server, separated by commas",
    "--enableLeaderElection=perhaps": "it should be true or false",
    "--namespace=A_B": "it should be a namespace's name",
    "--watchNamespaces=a b": "it should be namespaces' names, separated by commas",
    "--envoyGatewayNamespace=": "it is empty; it should be a namespace's name",
    "--cacheSyncTimeout=120": "it should be a duration with its unit, such as 2m",
    "--cacheSyncTimeout=0s": "it should be a duration with its unit, such as 2m",
    "--cacheSyncTimeout=2562048h": "it is longer than 292 years; it should be a duration with its unit, such as 2m",
    "--configVersion=": "it is empty; it should be a version",
    "--logLevel=verbose": "it should be debug, info, warn or error, with an offset if wanted (info+2)",
    "--logFormat=yaml": "it should be text or json",
    "--metricsAddress=nowhere": "it should be host:port or :port",
    "--metricsAddress=::1:80": "it should be host:port or :port",
    "--port=:65536": "it should be host:port or :port",
    "--webhookPort=0x1ffff": "it is more than 65535; it should be a port",
    "--webhookPort=-1": "it should be a port",
    "--extProcImage=a b": "there is space in it; it should be an image",
    "--extProcImagePullPolicy=sometimes": "it should be Always, IfNotPresent or Never",
    "--extProcExtraEnvVars=A=1;B": "'B' has no name or no =; it should be K=v;K2=v2",
    "--extProcExtraEnvVars==x": "'=x' has no name or no =; it should be K=v;K2=v2",
    "--extProcMaxRecvMsgSize=0": "it should be a number of bytes, 1 or more",
    "--maxRecvMsgSize=64Mi": "it should be a number of bytes, 0 or more",
    "--maxRecvMsgSize=9223372036854775808": (
        "it is more than 9223372036854775807; it should be a number of bytes, 0 or more"
    ),
    "--rootPrefix=llm": "it should be a path that begins with /",
    "--rootPrefix=/a b": "it should be a path that begins with /",
    "--endpointPrefixes=google:/x": (
        "'google' is none of openai, cohere, anthropic; it should be openai:/x,cohere:/y,anthropic:/z"
    ),
    "--endpointPrefixes=openai": "'openai' has no colon; it should be openai:/x,cohere:/y,anthropic:/z",
    "--logRequestHeaderAttributes=a:b,": "'' has no colon; it should be header:attribute,header2:attribute2",
    "--requestHeaderAttributes=a:": (
        "a header or an attribute is empty; it should be header:attribute,header2:attribute2"
    ),
    "--mcpSessionEncryptionIterations=0": "it should be a number, 1 or more",
    "--tlsCertName=../tls.crt": "it should be a file's name without directories",
    "--tlsCertSecretName=A": "it should be a Secret's name",
    "--quotaRateLimitServiceAddr=:80": "it should be host or host:port",
    "--quotaRateLimitServiceAddr=a b": "it should be host or host:port",
    "--quotaRateLimitServiceAddr=http://limits": "it should be host or host:port",
    "--quotaRateLimitTimeout=5s": "it should be a number of seconds greater than 0",
    "--quotaRateLimitTimeout=0": "it should be a number of seconds greater than 0",
    "--quotaRateLimitTimeout=0.0009": "it is less than a millisecond; it should be a number of seconds greater than 0",
    "--quotaRateLimitTimeout=9223372037": (
        "it is longer than 292 years; it should be a number of seconds greater than 0"
    ),
}


@pytest.mark.parametrize(("argument", "says"), FAULTS.items(), ids=FAULTS)
def test_a_value_that_means_nothing_is_told_with_what_would(argument, says):
    with pytest.raises(FlagInvalid) as told:
        parsed(argument)

    assert str(told.value) == f"{argument}: {says}"


def test_every_flag_that_can_be_wrong_is_among_those():
    read_anything = {"mcpFallbackSessionEncryptionSeed"}
    tested = {argument[2:].partition("=")[0] for argument in FAULTS}
    alike = {
        "caBundleName": "tlsCertName",
        "drainTime": "cacheSyncTimeout",
        "extProcEnableRedaction": "enableLeaderElection",
        "extProcImagePullSecrets": "tlsCertSecretName",
        "extProcLogFormat": "logFormat",
        "extProcLogLevel": "logLevel",
        "extensionServerEndpointsHook": "enableLeaderElection",
        "mcpFallbackSessionEncryptionIterations": "mcpSessionEncryptionIterations",
        "mcpSessionEncryptionSeed": "configVersion",
        "metricsRequestHeaderAttributes": "requestHeaderAttributes",
        "quotaRateLimitFailureModeDeny": "enableLeaderElection",
        "ratelimitXdsAddress": "port",
        "spanRequestHeaderAttributes": "requestHeaderAttributes",
        "tlsCertDir": "configVersion",
        "tlsKeyName": "tlsCertName",
    }
    assert tested | alike.keys() | read_anything == flag_names()
    assert set(alike.values()) <= tested


GRAMMAR = {
    "an unknown flag": (["--loglevel=info"], "--loglevel: there is no such flag; -h lists all"),
    "no value": (["--logLevel"], "--logLevel: a value is missing: debug, info, warn or error"),
    "no flag": (["serve"], "'serve' is no flag; -h lists all"),
    "nothing but dashes": (["--"], "'--' is no flag"),
    "three dashes": (["---logLevel=info"], "'---logLevel=info' is no flag"),
    "no name": (["--=x"], "'--=x' is no flag"),
    "two lines": (["--logLevel=a\nb"], "--logLevel=a\\nb: "),
}


@pytest.mark.parametrize(("argv", "says"), GRAMMAR.values(), ids=GRAMMAR)
def test_what_is_no_flag_is_told(argv, says):
    with pytest.raises(FlagInvalid) as told:
        parsed(*argv)

    assert str(told.value).startswith(says)
    assert "\n" not in str(told.value)


def test_a_seed_is_not_shown():
    with pytest.raises(FlagInvalid) as told:
        parsed("--mcpSessionEncryptionSeed=")

    assert str(told.value) == "--mcpSessionEncryptionSeed: it is empty; it should be a text that is not empty"
    assert "canary" not in repr(parsed("--mcpSessionEncryptionSeed=canary"))


def test_where_it_runs_is_told_by_the_pod_or_is_where_envoy_gateway_is():
    assert parsed().namespace == "envoy-gateway-system"
    assert parsed("--envoyGatewayNamespace=eg").namespace == "eg"
    assert parsed(POD_NAMESPACE="here").namespace == "here"
    assert parsed("--namespace=there", POD_NAMESPACE="here").namespace == "there"


@pytest.mark.parametrize("argument", ["-h", "--help", "-help"])
def test_help_is_asked_for(argument):
    with pytest.raises(HelpRequested):
        parsed(argument)


def test_help_and_the_page_name_every_flag():
    for name in flag_names():
        assert f"  --{name}\n" in usage()
        assert f"| `--{name}` |" in reference()


def test_the_page_is_as_it_is_written_today():
    assert (ROOT / "docs" / "reference" / "controller-flags.md").read_text() == reference()


@given(st.text())
def test_any_text_is_a_value_or_is_refused(text):
    for knob in knobs().values():
        try:
            knob.read(text)
        except ValueError:
            continue


@given(st.sampled_from(["1", "t", "TRUE", "f", "0", "yes", "", "True ", "tRUE"]))
def test_booleans_are_those_of_the_processor(text):
    assert outcome(flag_values.switch, text) == outcome(parse_bool, text)


@given(st.from_regex(r"\A[0-9]{0,3}(\.[0-9]{0,2})?(ns|us|ms|s|m|h|d)?([0-9]{1,2}s)?\Z"))
def test_durations_are_those_of_the_processor(text):
    mine, theirs = outcome(flag_values.duration, text), outcome(parse_duration, text)

    # Whole numbers are not multiplied in the same way.
    assert mine == (pytest.approx(theirs) if theirs is not None else None)


def outcome(read, text):
    try:
        return read(text)
    except ValueError:
        return None
