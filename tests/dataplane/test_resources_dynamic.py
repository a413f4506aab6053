"""An Envoy that reads its documents again: changes are served, and requests on their way are none the wiser."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from deploy.envoy.compile import Serving, envoy_gateway
from deploy.envoy.dynamic import documents, write
from deploy.envoy.model import PipeAddress, Processor, SocketAddress
from deploy.local.envoy_process import EnvoyProcess
from deploy.local.processor import ProcessorProcess
from tests.dataplane.harness.client import CHAT, OpenAnswer, connect, question
from tests.dataplane.harness.config_file import ConfigFile
from tests.dataplane.harness.replies import Gate, chat_chunks, chat_completion, json_reply, stream_reply
from tests.dataplane.harness.resources import provider
from tests.dataplane.harness.waiting import wait_until
from tests.support import gateway_resources as resources
from tests.support.gateway_resources import gateway, listener, route, rule

ANY_PORT = SocketAddress(host="127.0.0.1", port=0)


class Gatewayed:
    """Envoy and processor of resources, which may be others later."""

    def __init__(self, directory: Path, socket: Path, *given: Any) -> None:
        self._documents = directory / "envoy"
        self._serving = Serving(processor=Processor(address=PipeAddress(path=str(socket))), admin=ANY_PORT)
        made = self._compiled(given)
        self.config = ConfigFile(directory / "config", made.payload)
        self.processor = ProcessorProcess(
            config=self.config.path,
            socket_path=socket,
            directory=directory,
            environment={"EXTPROC_DRAIN_SECONDS": "0"},
        )
        self.changed = write(self._documents, self._texts(made))
        self.envoy = EnvoyProcess((self._documents / "bootstrap.yaml").read_text(), directory=directory)

    def __enter__(self):
        self.processor.start()
        self.envoy.start()
        self.base_url = f"http://127.0.0.1:{self.envoy.port('default/gw/http')}"
        return self

    def __exit__(self, *_: object) -> None:
        self.envoy.stop()
        self.processor.stop(grace=5.0)

    def change(self, *given: Any) -> list[str]:
        """Serve other resources; gives the files that were written once Envoy has read them."""
        made = self._compiled(given)
        digest = self.config.swap(made.payload)
        wait_until(lambda: digest in self.processor.admin("/config")[1], "the filter config is live")
        before = self._updates()
        changed = write(self._documents, self._texts(made))
        if changed:
            wait_until(lambda: self._updates() > before, "Envoy has read the documents")
        return changed

    def ask(self, model: str) -> int:
        with connect(self) as client:
            return client.post(CHAT, json=question(model)).status_code

    def wait_for(self, model: str, status: int) -> None:
        wait_until(lambda: self.ask(model) == status, f"{model} gives {status}")

    def stat(self, name: str) -> int:
        return self.envoy.stats(f"^{name}$").get(name, 0)

    def _updates(self) -> int:
        return sum(self.envoy.stats(r"(cds|lds|rds\..*)\.update_success$").values())

    def _compiled(self, given: Any) -> Any:
        return resources.only(resources.compiled(*given))

    def _texts(self, made: Any) -> dict[str, str]:
        ports = {listener.name: 0 for listener in made.model.listeners}
        return documents(envoy_gateway(made.model, replace(self._serving, ports=ports)), self._documents)


@pytest.fixture(scope="module")
def upstream(start_upstream):
    return start_upstream("one")


@pytest.fixture
def gatewayed(tmp_path, socket_directory, upstream):
    upstream.always(json_reply(chat_completion("m")))
    with Gatewayed(tmp_path, socket_directory / "dynamic.sock", *given(upstream, "first")) as gatewayed:
        yield gatewayed


def given(upstream, *models, listeners=()):
    return (
        gateway(listeners=[listener(), *listeners]),
        *(route(f"r-{model}", rule("one", model=model)) for model in models),
        *provider("one", upstream),
    )


def test_changes_are_served_while_a_stream_goes_on(gatewayed, upstream):
    assert (gatewayed.ask("first"), gatewayed.ask("second")) == (200, 404)
    gate = Gate()
    first, *others = chat_chunks("m", "Hello", "world")
    upstream.reply(stream_reply(first, gate, *others))

    with OpenAnswer(gatewayed, question("first", stream=True)) as answer:
        answer.until(b"Hello")
        changed = gatewayed.change(*given(upstream, "first", "second"))
        gatewayed.wait_for("second", 200)
        assert gatewayed.change(*given(upstream, "second")) == changed
        gatewayed.wait_for("first", 404)
        gate.open()
        assert b"world" in answer.rest()

    assert changed == ["cds.yaml", "rds-default-gw-http.yaml"]
    assert gatewayed.stat("listener_manager.listener_modified") == 0
    assert gatewayed.stat("listener_manager.total_listeners_draining") == 0


def test_the_same_resources_change_nothing(gatewayed, upstream):
    assert gatewayed.change(*given(upstream, "first")) == []


def test_a_listener_comes_and_goes(gatewayed, upstream):
    gatewayed.change(*given(upstream, "first", listeners=[listener("other", port=8080)]))
    wait_until(lambda: gatewayed.stat("listener_manager.total_listeners_active") == 2, "there is another listener")
    wait_until(lambda: gatewayed.envoy.port("default/gw/other") > 0, "it is open")

    changed = gatewayed.change(*given(upstream, "first"))

    assert changed == ["lds.yaml", "rds-default-gw-other.yaml"]
    wait_until(lambda: gatewayed.stat("listener_manager.total_listeners_active") == 1, "it is gone")
    assert gatewayed.ask("first") == 200
