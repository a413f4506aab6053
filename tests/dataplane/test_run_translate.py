"""``extproc translate``: what it writes is what a plain Envoy and a plain processor start with."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from deploy.local import translate_cli
from deploy.local.envoy_process import EnvoyProcess
from deploy.local.processor import ProcessorProcess
from tests.dataplane.harness.client import CHAT, question
from tests.dataplane.harness.replies import chat_completion, json_reply

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize("form", ["-configPath", "-configBundlePath"])
def test_the_files_serve(tmp_path, socket_directory, start_upstream, form, capsys):
    upstream = start_upstream("local")
    upstream.always(json_reply(chat_completion("known")))
    socket = socket_directory / f"translated{form}.sock"
    out = tmp_path / "out"
    arguments = [str(EXAMPLES / "mutation.yaml"), "-o", str(out), "--processor", f"unix://{socket}"]

    status = translate_cli.main(arguments, environ={"LOCAL_PORT": str(upstream.port), "LOCAL_MODEL": "known"})

    assert (status, *capsys.readouterr()) == (0, "", f"Gateway default/llm: {out}\n")
    text = (out / "envoy.yaml").read_text()
    # Any free ports, so that tests may run side by side.
    text = text.replace("port_value: 1975", "port_value: 0").replace("port_value: 9901", "port_value: 0")
    config = out / {"-configPath": "filter-config.yaml", "-configBundlePath": "filter-config-bundle"}[form]
    processor = ProcessorProcess(
        config=out / "filter-config.yaml",
        socket_path=socket,
        directory=tmp_path,
        arguments=(form, str(config)),
        environment={"EXTPROC_DRAIN_SECONDS": "0"},
    )
    envoy = EnvoyProcess(text, directory=tmp_path)
    try:
        processor.start()
        envoy.start()
        url = f"http://127.0.0.1:{envoy.port('default/llm/http')}{CHAT}"
        headers = {"x-internal-trace": "secret"}
        answer = httpx.post(url, json=question("local", user="me"), headers=headers, trust_env=False)
    finally:
        envoy.stop()
        processor.stop()

    assert answer.status_code == 200
    received = upstream.last
    assert (received.header("x-tenant"), received.header("x-internal-trace")) == ("research", None)
    assert received.json() == question("known", service_tier="flex")
