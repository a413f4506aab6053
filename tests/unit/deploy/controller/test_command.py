"""Flags to what runs, and faults to one line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from lightkube.core.exceptions import ConfigError

from deploy.controller import command
from deploy.controller.command import main, parts_of
from deploy.controller.flags import Flags
from deploy.controller.together import Parts
from deploy.injector.options import HeaderAttributes
from deploy.injector.tls import TlsFiles
from filter_config.redact import Secret

CERTS = Path("/certs")


def parts(*argv: str, **environ: str) -> Parts:
    return parts_of(Flags.parse(argv, environ), environ, CERTS)


def test_what_runs_without_any_flag():
    made = parts()

    assert made.service.writes
    assert made.service.elect
    assert made.service.namespaces == ()
    assert made.service.namespace == "envoy-gateway-system"
    assert made.service.controller.mcp_seeds == {}
    assert made.injector is not None
    assert made.injector.sidecar.mcp_seed is None
    assert made.injector.files == TlsFiles(certificate=CERTS / "tls.crt", key=CERTS / "tls.key")
    assert made.extension is not None
    assert made.extension.options.header_attributes == (("agent-session-id", "session.id"),)
    assert made.extension.options.endpoints_hook


def test_flags_reach_the_controller():
    flags = ["-watchNamespaces=a, b", "--enableLeaderElection=false", "-rootPrefix", "/ai", "--configVersion=v1"]
    service = parts(*flags, POD_NAME="controller-7", POD_NAMESPACE="here").service

    assert service.namespaces == ("a", "b")
    assert not service.elect
    assert service.namespace == "here"
    assert service.identity.startswith("controller-7_")
    assert (service.controller.root_prefix, service.controller.version) == ("/ai", "v1")
    assert service.controller.sidecar is not None
    assert service.controller.sidecar.root_prefix == "/ai"


def test_flags_reach_the_sidecar():
    made = parts(
        "--extProcImage=x:1",
        "--extProcImagePullPolicy=Always",
        "--extProcImagePullSecrets=a;b",
        "--extProcExtraEnvVars=A=1",
        "--extProcLogLevel=debug",
        "--extProcLogFormat=json",
        "--extProcEnableRedaction",
        "--extProcMaxRecvMsgSize=7",
        "--endpointPrefixes=openai:/x",
        "--requestHeaderAttributes=a:1",
        "--spanRequestHeaderAttributes=",
        "--metricsRequestHeaderAttributes=c:3",
        "--logRequestHeaderAttributes=d:4",
    )
    assert made.injector is not None
    sidecar = made.injector.sidecar

    assert sidecar is made.service.controller.sidecar
    assert (sidecar.image, sidecar.image_pull_policy, sidecar.pull_secrets) == ("x:1", "Always", ("a", "b"))
    assert (sidecar.log_level, sidecar.log_format, sidecar.enable_redaction) == ("debug", "json", True)
    assert (sidecar.extra_env, sidecar.max_recv_msg_size) == ((("A", "1"),), 7)
    assert sidecar.endpoint_prefixes == "openai:/x"
    assert sidecar.header_attributes == HeaderAttributes(request="a:1", span="", metrics="c:3", log="d:4")


ATTRIBUTES = {
    "none are given": ([], {"agent-session-id": "session.id"}),
    "those of all": (["--requestHeaderAttributes=a:1"], {"a": "1", "agent-session-id": "session.id"}),
    "none are wanted": (["--logRequestHeaderAttributes="], {}),
    "the nearer one counts": (
        ["--requestHeaderAttributes=a:1,b:2", "--logRequestHeaderAttributes=B:3"],
        {"a": "1", "b": "3"},
    ),
}


@pytest.mark.parametrize(("argv", "expected"), ATTRIBUTES.values(), ids=ATTRIBUTES)
def test_headers_of_access_logs_reach_the_extension_server(argv, expected):
    made = parts(*argv)

    assert made.extension is not None
    assert dict(made.extension.options.header_attributes) == expected


def test_flags_reach_the_extension_server():
    made = parts(
        "--quotaRateLimitServiceAddr=limits:9",
        "--quotaRateLimitTimeout=2",
        "--quotaRateLimitFailureModeDeny",
        "--extensionServerEndpointsHook=false",
        "--maxRecvMsgSize=9",
    )
    assert made.extension is not None
    quota = made.extension.options.quota

    assert (quota.address.host, quota.address.port, quota.timeout, quota.deny_on_failure) == ("limits", 9, 2.0, True)
    assert not made.extension.options.endpoints_hook
    assert made.extension.max_message == 9


ONLY = {
    "controller": (True, False, False),
    "injector": (False, True, False),
    "extension-server": (False, False, True),
    "controller,extension-server": (True, False, True),
}


@pytest.mark.parametrize(("only", "expected"), ONLY.items(), ids=ONLY)
def test_parts_are_chosen(only, expected):
    made = parts(f"--only={only}")

    assert (made.service.writes, made.injector is not None, made.extension is not None) == expected
    # Gateways roll for a sidecar that is injected by another process.
    assert made.service.controller.sidecar is not None


def test_without_an_image_nobody_injects():
    made = parts("--extProcImage=")

    assert made.injector is None
    assert made.service.controller.sidecar is None


SEEDS = {
    "a seed": (["--mcpSessionEncryptionSeed=s"], {"seed": "s"}),
    "and the one before": (
        ["--mcpSessionEncryptionSeed=s", "--mcpFallbackSessionEncryptionSeed=default-insecure-seed"],
        {"seed": "s", "fallbackSeed": "default-insecure-seed"},
    ),
    "the one that everybody knows, iterated otherwise": (
        ["--mcpSessionEncryptionIterations=7"],
        {"seed": "default-insecure-seed"},
    ),
}


@pytest.mark.parametrize(("argv", "expected"), SEEDS.values(), ids=SEEDS)
def test_pods_are_told_of_the_seeds_that_are_in_their_secret(argv, expected):
    made = parts(*argv)
    options = made.service.controller

    assert {key: value.reveal() for key, value in options.mcp_seeds.items()} == expected
    assert options.sidecar is not None
    told = [seed for seed in (options.sidecar.mcp_seed, options.sidecar.mcp_fallback_seed) if seed is not None]
    assert {seed.key for seed in told} == expected.keys()


def test_another_seed_has_another_version_and_neither_shows_it():
    versions = set()
    for seed in ("one", "another", "one"):
        sidecar = parts(f"--mcpSessionEncryptionSeed={seed}").service.controller.sidecar
        assert sidecar is not None
        assert sidecar.mcp_seed is not None
        assert seed not in sidecar.mcp_seed.version
        versions.add(sidecar.mcp_seed.version)

    assert len(versions) == 2


# --- the command ---


def no_logs(level: str, style: str) -> None:
    """Leaves the logs of the test's process alone."""


NO_CLUSTER = {"KUBECONFIG": "/nowhere/kubeconfig"}


def test_help_goes_to_standard_output(capsys):
    assert main(["-h"], {}, no_logs) == 0
    assert capsys.readouterr().out.startswith("Usage: extproc controller [flags]\n")


def test_a_flag_that_cannot_be_read_is_a_line_and_status_2(capsys):
    assert main(["--logFormat=yaml"], {}, no_logs) == 2
    assert capsys.readouterr().err == "extproc controller: --logFormat=yaml: it should be text or json\n"


def test_logs_are_as_the_flags_say(capsys):
    asked = []
    assert main(["--logLevel=debug", "--logFormat=json"], NO_CLUSTER, lambda *how: asked.append(how)) == 1
    assert asked == [("debug", "json")]


KNOWN = {
    "the one that everybody knows": ([], 1),
    "a seed of somebody's own": (["--mcpSessionEncryptionSeed=s"], 0),
    "nobody injects": (["--only=extension-server"], 0),
}


@pytest.mark.parametrize(("argv", "count"), KNOWN.values(), ids=KNOWN)
def test_a_seed_that_everybody_knows_is_warned_of_once(argv, count, capsys):
    main(argv, NO_CLUSTER, no_logs)

    assert capsys.readouterr().out.count("MCP sessions are encrypted with a seed that everybody knows") == count


def test_a_fault_of_ours_is_a_line_and_its_stack_is_in_the_log(monkeypatch, capsys):
    async def broken(_parts: object, _environ: object) -> None:
        raise ExceptionGroup("parts", [RuntimeError("one\nof ours"), ExceptionGroup("inner", [KeyError("x")])])

    monkeypatch.setattr(command, "_run", broken)
    assert main([], {}, no_logs) == 1
    shown = capsys.readouterr()
    assert shown.err == "extproc controller: internal error: RuntimeError: one of ours; KeyError: 'x'\n"
    assert "the controller failed" in shown.out


def test_a_token_that_cannot_be_had_any_more_is_a_line_without_a_stack(monkeypatch, capsys):
    async def broken(_parts: object, _environ: object) -> None:
        raise ExceptionGroup("watches", [ConfigError("Token file t not found"), ConfigError("Token file t not found")])

    monkeypatch.setattr(command, "_run", broken)
    assert main([], {}, no_logs) == 1
    shown = capsys.readouterr()
    assert shown.err == "extproc controller: Token file t not found\n"
    assert "the controller failed" not in shown.out


def test_a_certificate_that_is_kept_goes_where_it_can_be_written(tmp_path, monkeypatch):
    seen = []

    async def look(made: Parts, _environ: object) -> None:
        assert made.injector is not None
        seen.append(made.injector.files.key.parent)
        made.injector.files.key.write_text("")

    monkeypatch.setattr(command, "_run", look)
    assert main([f"--tlsCertDir={tmp_path}", "--tlsCertSecretName=s"], {}, no_logs) == 0
    assert main([f"--tlsCertDir={tmp_path}/none", "--tlsCertSecretName=s"], {}, no_logs) == 0
    assert seen[0] == tmp_path
    assert seen[1] not in (tmp_path, tmp_path / "none")
    assert not seen[1].exists()


def test_no_seed_is_in_what_runs(capsys):
    made = parts("--mcpSessionEncryptionSeed=canary", "--mcpFallbackSessionEncryptionSeed=canary")

    assert "canary" not in repr(made)
    assert Secret("canary") in made.service.controller.mcp_seeds.values()
    assert "canary" not in json.dumps(repr(made.injector))
