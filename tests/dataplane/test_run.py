"""``extproc run``: resources are served, edits arrive while requests run, and nothing is left behind at the end."""

from __future__ import annotations

import os
import signal
import socket
import ssl
from pathlib import Path

import httpx
import openai
import pytest

from tests.dataplane.harness.client import CHAT, OpenAnswer, question
from tests.dataplane.harness.load import Load
from tests.dataplane.harness.replies import Gate, chat_chunks, chat_completion, json_reply, stream_reply
from tests.dataplane.harness.running import Running, write
from tests.dataplane.harness.waiting import wait_until
from tests.support.certificates import Authority

EXAMPLES = Path(__file__).parents[2] / "examples"

GATEWAY = """\
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: gw}
spec:
  listeners: [{name: http, protocol: HTTP, port: 80}]
"""


def route(name, *, model, backend, override=""):
    return f"""\
apiVersion: aigateway.envoyproxy.io/v1beta1
kind: AIGatewayRoute
metadata: {{name: {name}}}
spec:
  parentRefs: [{{name: gw}}]
  rules:
    - matches: [{{headers: [{{name: x-ai-eg-model, value: {model}}}]}}]
      backendRefs: [{{name: {backend}, modelNameOverride: "{override}"}}]
"""


def backend(name, port, *, schema="OpenAI"):
    return f"""\
apiVersion: aigateway.envoyproxy.io/v1beta1
kind: AIServiceBackend
metadata: {{name: {name}}}
spec:
  schema: {{name: {schema}}}
  backendRef: {{name: {name}, kind: Backend, group: gateway.envoyproxy.io}}
---
apiVersion: gateway.envoyproxy.io/v1alpha1
kind: Backend
metadata: {{name: {name}}}
spec:
  endpoints: [{{ip: {{address: 127.0.0.1, port: {port}}}}}]
"""


def secured(name, port, *, schema, kind, key):
    field = {"APIKey": "apiKey", "AnthropicAPIKey": "anthropicAPIKey"}[kind]
    return f"""\
{backend(name, port, schema=schema)}
---
apiVersion: aigateway.envoyproxy.io/v1beta1
kind: BackendSecurityPolicy
metadata: {{name: {name}}}
spec:
  type: {kind}
  {field}: {{secretRef: {{name: {name}}}}}
  targetRefs: [{{group: aigateway.envoyproxy.io, kind: AIServiceBackend, name: {name}}}]
---
apiVersion: v1
kind: Secret
metadata: {{name: {name}}}
stringData: {{apiKey: {key}}}
"""


def echo(upstream, text, *, models=()):
    """The upstream answers with the model that it was asked for, and asked for models with these."""

    def reply(received):
        if received.method == "GET":
            return json_reply({"data": [{"id": model, "owned_by": "library"} for model in models]})
        return json_reply(chat_completion(received.json()["model"], text=text))

    upstream.always(reply)


@pytest.fixture
def run():
    """``run(*arguments, **environment)``: the command on any free ports, live."""
    running = []

    def start(*arguments, **environment):
        started = Running("--port=0", "--admin-port=0", *arguments, environment=environment)
        running.append(started)
        started.__enter__()
        started.wait_until_live()
        return started

    yield start
    for started in running:
        started.__exit__()


@pytest.fixture(scope="module")
def alpha(start_upstream):
    return start_upstream("alpha")


@pytest.fixture(scope="module")
def beta(start_upstream):
    return start_upstream("beta")


def ask(run, model, **headers):
    return httpx.post(run.base_url + CHAT, json=question(model), headers=headers, timeout=30, trust_env=False)


# --- examples and environment ---


def test_the_basic_example_with_the_official_client(run, tmp_path, start_upstream):
    authority = Authority(tmp_path)
    certificate, key = authority.issue("localhost")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    provider = start_upstream("provider", tls=context)
    echo(provider, "hello")

    running = run(
        str(EXAMPLES / "basic.yaml"),
        OPENAI_API_KEY="sk-of-the-environment",
        PROVIDER_HOST="localhost",
        PROVIDER_PORT=str(provider.port),
        SSL_CERT_FILE=str(authority.ca),
    )
    client = openai.OpenAI(base_url=f"{running.base_url}/v1", api_key="unused", max_retries=0)
    answer = client.chat.completions.create(model="gpt-4o-mini", messages=[{"role": "user", "content": "Hello"}])

    assert (answer.model, answer.choices[0].message.content) == ("gpt-4o-mini", "hello")
    assert provider.last.header("authorization") == "Bearer sk-of-the-environment"
    assert [model.id for model in client.models.list()] == ["gpt-4o-mini"]
    assert running.complained == []
    assert "sk-of-the-environment" not in "".join(running.said)


def test_the_budget_example_charges_each_client(run, tmp_path, start_upstream):
    """A budget that is edited is a new one."""
    provider = start_upstream("provider")
    provider.always(json_reply(chat_completion("gpt-4o-mini", prompt=200, completion=100)))
    example = (
        (EXAMPLES / "token-budget.yaml")
        .read_text()
        .partition("---\napiVersion: gateway.networking.k8s.io/v1\nkind: B")[0]
    )
    file = tmp_path / "budget.yaml"
    write(file, example)
    running = run(str(file), OPENAI_API_KEY="sk-x", PROVIDER_HOST="localhost", PROVIDER_PORT=str(provider.port))

    def statuses(number, **headers):
        return [ask(running, "gpt-4o-mini", **headers).status_code for _ in range(number)]

    wait_until(lambda: 429 in statuses(1, **{"x-user-id": "carol"}), "carol's budget is used up")
    assert 2 <= len(provider.requests) <= 4
    assert statuses(2, **{"x-user-id": "dave"}) == [200, 200]
    assert statuses(1, **{"x-team": "research"}) == [200]

    running.edit(lambda: write(file, example.replace("limit: 1000\n", "limit: 100000\n")))
    assert statuses(1, **{"x-user-id": "carol"}) == [200]
    assert running.complained == []


def test_without_any_resources(run, alpha):
    echo(alpha, "local", models=["small", "large:8b"])

    running = run(OPENAI_BASE_URL=f"http://127.0.0.1:{alpha.port}/api/v1")
    client = openai.OpenAI(base_url=f"{running.base_url}/v1", api_key="unused", max_retries=0)
    answer = client.chat.completions.create(model="anything", messages=[{"role": "user", "content": "Hello"}])

    assert answer.choices[0].message.content == "local"
    assert alpha.last.target == "/api/v1/chat/completions"
    assert alpha.last.header("authorization") == "Bearer unused"
    assert [(model.id, model.owned_by) for model in client.models.list()] == [
        ("small", "library"),
        ("large:8b", "library"),
    ]
    assert "(1 route, 2 models: small, large:8b and any other)" in running.said[0]
    assert running.complained == []


def test_a_provider_that_does_not_list_its_models(run, start_upstream):
    """It is asked again until it does; requests do not wait for it."""
    provider = start_upstream("late")
    echo(provider, "hello", models=["new"])
    provider.reply(json_reply({"error": "starting"}, status=503))
    running = run(OPENAI_BASE_URL=f"http://127.0.0.1:{provider.port}/v1", OPENAI_API_KEY="sk-x")

    assert "(1 route, any model)" in running.said[0]
    running.wait_for(lambda: bool(running.complained), "a complaint")
    assert running.complained == [
        f"extproc run: http://127.0.0.1:{provider.port} does not list its models: status 503; any name is passed on"
    ]
    with Load(running, question("m"), good=lambda status, _: status == 200, clients=2) as load:
        running.wait_for(lambda: any("1 model: new and any other" in line for line in running.said), "the list is live")
        load.wait_for_more(5)
    assert load.failures == []
    listed = httpx.get(f"{running.base_url}/v1/models", timeout=30, trust_env=False).json()["data"]
    assert [model["id"] for model in listed] == ["new"]


# --- edits ---


def test_edits_arrive_while_requests_run(run, tmp_path, alpha, beta):
    file = tmp_path / "resources.yaml"
    backends = [backend("alpha", alpha.port), backend("beta", beta.port)]
    stays = route("stays", model="stays", backend="alpha")
    write(file, [GATEWAY, *backends, stays])
    echo(alpha, "alpha")
    echo(beta, "beta")
    running = run(str(file), "--workers=2")

    with Load(running, question("stays"), good=lambda status, _: status == 200, clients=4) as load:
        for number in range(3):
            comes = route("comes", model=f"model-{number}", backend="beta")
            said = running.edit(lambda comes=comes: write(file, [GATEWAY, *backends, stays, comes]))
            assert f"model-{number}" in said
            assert ask(running, f"model-{number}").status_code == 200
            load.wait_for_more(5)
        running.edit(lambda: write(file, [GATEWAY, *backends, stays]))
        assert ask(running, "model-2").status_code == 404
        for target in ("beta", "alpha", "beta"):
            moved = route("stays", model="stays", backend=target)
            running.edit(lambda moved=moved: write(file, [GATEWAY, *backends, moved]))
            assert ask(running, "stays").json()["choices"][0]["message"]["content"] == target
            load.wait_for_more(5)

    assert load.failures == []
    assert running.complained == []


def test_a_stream_goes_on_through_edits_that_change_the_listener(run, tmp_path, alpha):
    """What a route costs is part of the access log, and so of the listener."""
    file = tmp_path / "resources.yaml"
    there = [GATEWAY, backend("alpha", alpha.port)]
    lead = route("r", model="m", backend="alpha")
    write(file, [*there, lead])
    running = run(str(file))
    gate = Gate()
    first, *rest = chat_chunks("m", "a", "b")
    alpha.reply(stream_reply(first, gate, *rest))
    echo(alpha, "alpha")

    with OpenAnswer(running, question("m", stream=True)) as answer:
        answer.until(b'"a"')
        with Load(running, question("m"), good=lambda status, _: status == 200, clients=4) as load:
            for number in range(3):
                costs = f"  llmRequestCosts: [{{metadataKey: cost-{number}, type: TotalToken}}]\n"
                running.edit(lambda costs=costs: write(file, [*there, lead + costs]))
                load.wait_for_more(100)
        gate.open()
        assert answer.rest().endswith(b"data: [DONE]\n\n")

    assert load.failures == []


def test_a_backend_that_becomes_another_one_is_never_half_of_each(run, tmp_path, alpha, beta):
    """Its address, API and key change at once, under the same name."""
    file = tmp_path / "resources.yaml"
    lead = route("r", model="m", backend="b")
    one = secured("b", alpha.port, schema="OpenAI", kind="APIKey", key="sk-alpha")
    other = secured("b", beta.port, schema="Anthropic", kind="AnthropicAPIKey", key="sk-beta")
    write(file, [GATEWAY, one, lead])
    alpha.always(
        lambda received: strictly(received, "/v1/chat/completions", "authorization", "Bearer sk-alpha", OPENAI)
    )
    beta.always(lambda received: strictly(received, "/v1/messages", "x-api-key", "sk-beta", ANTHROPIC))
    running = run(str(file))

    asked = question("m", max_tokens=10)
    with Load(running, asked, good=lambda status, _: status == 200, clients=4) as load:
        for text in (other, one, other):
            running.edit(lambda text=text: write(file, [GATEWAY, text, lead]))
            load.wait_for_more(10)

    assert load.failures == []
    assert {request.target for request in beta.requests} == {"/v1/messages"}


OPENAI = chat_completion("m", text="alpha")
ANTHROPIC = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "m",
    "content": [{"type": "text", "text": "beta"}],
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "usage": {"input_tokens": 3, "output_tokens": 2},
}


def strictly(received, target, header, value, answer):
    if (received.target, received.header(header)) == (target, value):
        return json_reply(answer)
    return json_reply({"error": {"message": f"{received.target} {received.header(header)}"}}, status=400)


def test_what_an_edit_breaks_stays_as_it_was_and_the_rest_is_served(run, tmp_path, alpha):
    file = tmp_path / "resources.yaml"
    echo(alpha, "alpha")
    there = [GATEWAY, backend("alpha", alpha.port)]
    write(file, [*there, route("chat", model="old", backend="alpha")])
    running = run(str(file))

    broken = route("chat", model="newer", backend="alpha").replace("value: newer", "values: newer")
    running.edit(lambda: write(file, [*there, broken, route("more", model="more", backend="alpha")]))

    assert ask(running, "old").status_code == 200
    assert ask(running, "more").status_code == 200
    running.wait_for(lambda: any("1 error" in line for line in running.complained), "the error is counted")
    complaints = "\n".join(running.complained)
    assert "AIGatewayRoute default/chat: spec.rules[0].matches[0].headers[0]" in complaints
    assert "the last good version stays: AIGatewayRoute default/chat" in complaints

    # No document of a file that is not YAML can be told by its name.
    before = len(running.complained)
    running.edit(lambda: write(file, "kind: [Gateway"))
    running.wait_for(lambda: len(running.complained) > before + 1, "the file is complained of")
    assert (ask(running, "old").status_code, ask(running, "more").status_code) == (200, 200)
    assert any(line.startswith(f"{file}:1: ") for line in running.complained[before:])

    said = running.edit(lambda: write(file, [*there, route("chat", model="mended", backend="alpha")]))
    assert "mended" in said
    assert [ask(running, model).status_code for model in ("mended", "old", "more")] == [200, 404, 404]


def test_a_gateway_comes_and_goes(run, tmp_path, alpha):
    file = tmp_path / "resources.yaml"
    echo(alpha, "alpha")
    there = [GATEWAY, backend("alpha", alpha.port), route("chat", model="m", backend="alpha")]
    write(file, there)
    running = run(str(file))
    first = running.port
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]

    second = [GATEWAY.replace("gw", "two").replace("80", str(port))]
    second.append(route("other", model="nearby", backend="alpha").replace("gw", "two"))
    said = running.edit(lambda: write(file, [*there, *second]))
    assert "Gateway default/two is live after" in said, running.complained
    assert httpx.post(f"http://127.0.0.1:{port}{CHAT}", json=question("nearby"), trust_env=False).status_code == 200

    assert "Gateway default/two is gone" in running.edit(lambda: write(file, there))
    with pytest.raises(httpx.ConnectError):
        httpx.post(f"http://127.0.0.1:{port}{CHAT}", json=question("nearby"), trust_env=False)
    assert httpx.post(f"http://127.0.0.1:{first}{CHAT}", json=question("m"), trust_env=False).status_code == 200


# --- the end, and what comes before it ---


def test_a_process_that_dies_is_started_again(run, tmp_path, alpha):
    file = tmp_path / "resources.yaml"
    echo(alpha, "alpha")
    write(file, [GATEWAY, backend("alpha", alpha.port), route("chat", model="m", backend="alpha")])
    running = run(str(file))

    for count, child in enumerate(running.children(), 1):
        os.kill(child, signal.SIGKILL)
        running.wait_for(lambda count=count: len(running.complained) >= count, "the end is told")
        wait_until(lambda: answers(running), "it answers again", timeout=30)

    assert all("status -9" in line and line.endswith("it was started again") for line in running.complained)


def answers(running):
    try:
        return ask(running, "m").status_code == 200
    except httpx.TransportError:
        return False


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "SIGTERM"])
def test_a_signal_ends_everything(run, alpha, number):
    echo(alpha, "hello")
    running = run(OPENAI_BASE_URL=f"http://127.0.0.1:{alpha.port}/v1")
    children = running.children()

    assert running.stop(number) == 0

    assert len(children) == 2
    assert not [child for child in children if Path(f"/proc/{child}").exists()]
    assert list(running.scratch.iterdir()) == []
    assert running.complained == []


def test_what_is_written_is_private(run, tmp_path, alpha):
    logs = tmp_path / "logs"
    running = run(
        f"--keep-logs={logs}", OPENAI_BASE_URL=f"http://127.0.0.1:{alpha.port}/v1", OPENAI_API_KEY="sk-secret"
    )
    scratch = list(running.scratch.iterdir())

    assert len(scratch) == 1
    assert [path.stat().st_mode & 0o777 for path in (logs, *scratch)] == [0o700, 0o700]
    running.stop()
    holding = [path for path in logs.rglob("*") if path.is_file() and b"sk-secret" in path.read_bytes()]
    assert [(path.name, path.stat().st_mode & 0o777) for path in holding] == [("filter-config.json", 0o600)]
