"""The command for resources that are in files: it follows them, and ends in order."""

from __future__ import annotations

import signal
import subprocess
import sys

import grpc

from deploy.extension_server.cli import FileKnowledge, main
from deploy.extension_server.server import encode
from deploy.local.files import Files
from protos import extension_pb2 as wire
from tests.support import envoy_gateway as eg
from tests.support import gateway_resources as res


def write(path, *rules):
    path.write_bytes(res.text(res.gateway(), res.route("r", *rules), *res.served("a", "b")).data)


def test_files_are_followed(tmp_path):
    path = tmp_path / "r.json"
    write(path, res.rule("a"))
    knowledge = FileKnowledge(Files([str(path)]), {})
    first = knowledge()

    assert knowledge() is first
    write(path, res.rule("a"), res.rule("b"))

    assert len(first.route("default", "r").rules) == 1
    assert len(knowledge().route("default", "r").rules) == 2


def test_what_is_wrong_with_files_is_said_once(tmp_path, capsys):
    path = tmp_path / "r.json"
    write(path, res.rule("missing"))
    knowledge = FileKnowledge(Files([str(path)]), {})

    knowledge()
    knowledge()

    assert capsys.readouterr().err.count("AIGatewayRoute default/r") == 1


def test_an_address_that_cannot_be_had_is_said(tmp_path, capfd):
    path = tmp_path / "r.json"
    write(path, res.rule("a"))

    assert main([str(path), "--address", "127.0.0.1:x"]) == 1

    said = capfd.readouterr().err
    assert "extension_server: listen 127.0.0.1:x" in said
    assert "Traceback" not in said


def test_the_command_serves_until_it_is_told_to_stop(tmp_path):
    path = tmp_path / "r.json"
    write(path, res.rule("a"))
    command = [sys.executable, "-m", "deploy.extension_server", str(path), "--address", "127.0.0.1:0"]
    request = eg.request(routes=[eg.route_config(eg.route(generated=False))], listeners=[eg.listener()])

    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        port = process.stdout.readline().split()[-1]
        with grpc.insecure_channel(f"127.0.0.1:{port}", options=[("grpc.enable_http_proxy", 0)]) as channel:
            ask = channel.unary_unary("/envoygateway.extension.EnvoyGatewayExtension/PostTranslateModify")
            answer = wire.PostTranslateModifyResponse.FromString(ask(encode(request), timeout=20))
        process.send_signal(signal.SIGTERM)
        rest = process.communicate(timeout=20)

    assert [cluster.name for cluster in answer.clusters] == ["ai-gateway-extproc-uds"]
    assert (process.returncode, rest) == (0, ("", ""))
