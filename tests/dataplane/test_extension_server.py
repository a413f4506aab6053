"""The extension server's answer in a real Envoy: asked over gRPC, put together to one file, and run.

What Envoy Gateway sends for a route of two rules is written by hand; what the hooks make of it serves requests through
the processor on its socket.
"""

from __future__ import annotations

import asyncio
import threading
from contextlib import contextmanager
from types import SimpleNamespace

import grpc
import httpx
import pytest
import yaml

from deploy.envoy import names
from deploy.envoy.model import PipeAddress, Processor
from deploy.extension_server.knowledge import Snapshot
from deploy.extension_server.options import Options
from deploy.extension_server.server import ExtensionServer, encode
from protos import extension_pb2 as wire
from protos import xds_pb2 as xds
from tests.dataplane.harness.client import CHAT, connect, question
from tests.dataplane.harness.documents import backend, filter_config
from tests.dataplane.harness.replies import chat_completion, json_reply
from tests.dataplane.harness.resources import provider
from tests.support import envoy_gateway as eg
from tests.support import gateway_resources as res

SERVICE = "/envoygateway.extension.EnvoyGatewayExtension/"
NAMED, ADDRESSED = "default/r/rule/0", "default/r/rule/1"
CLIENT_KEY = "key-of-the-client"
REJECTED = {"x-api-key": "no key of anybody"}


@contextmanager
def hooks(knowledge, options):
    """``ask(hook, request)`` of an extension server that runs meanwhile."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    async def start():
        server = ExtensionServer(lambda: knowledge, options)
        port = server.listen("127.0.0.1:0")
        await server.start()
        return server, port

    server, port = asyncio.run_coroutine_threadsafe(start(), loop).result(20)
    try:
        with grpc.insecure_channel(f"127.0.0.1:{port}", options=[("grpc.enable_http_proxy", 0)]) as channel:

            def ask(hook, request):
                body = channel.unary_unary(SERVICE + hook)(encode(request), timeout=30)
                return getattr(wire, f"{hook}Response").FromString(body)

            yield ask
    finally:
        asyncio.run_coroutine_threadsafe(server.stop(1), loop).result(20)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(20)
        loop.close()


# --- what Envoy Gateway sends ---


def routed(rule, model):
    """The route of a rule: for one model, with a second attempt elsewhere."""
    matched = {"prefix": "/", "headers": [{"name": names.MODEL_HEADER, "stringMatch": {"exact": model}}]}
    retry = {
        "retryOn": "5xx",
        "numRetries": 1,
        "retryPriority": {
            "name": "envoy.retry_priorities.previous_priorities",
            "typedConfig": eg.typed(
                "extensions.retry.priority.previous_priorities.v3.PreviousPrioritiesConfig", updateFrequency=1
            ),
        },
    }
    action = {"cluster": f"httproute/{rule}", "autoHostRewrite": True, "retryPolicy": retry}
    return eg.route(rule, match=matched, route=action, typedPerFilterConfig=AUTHENTICATED)


KEYS = {
    "credentials": [{"client": "one", "key": CLIENT_KEY}],
    "keySources": [{"header": "x-api-key"}],
}
API_KEY = eg.http("api_key_auth", disabled=True)
API_KEY["typedConfig"] |= KEYS
AUTHENTICATED = {
    "envoy.filters.http.api_key_auth": eg.typed("extensions.filters.http.api_key_auth.v3.ApiKeyAuthPerRoute", **KEYS)
}


def configuration(first, second):
    """The gateway: authentication with response overrides before it, one rule by names and one by addresses."""
    not_found = eg.not_found("default/r/rule/2") | {"typedPerFilterConfig": AUTHENTICATED}
    not_found["directResponse"]["body"] = {"inlineString": names.NOT_FOUND_BODY}
    return eg.request(
        clusters=[eg.cluster(NAMED, *localities(NAMED, first, second)), eg.cluster(ADDRESSED)],
        listeners=[eg.listener(eg.chain(eg.CUSTOM_RESPONSE, eg.CORS, API_KEY, eg.ROUTER), name="llm", port=0)],
        routes=[eg.route_config(routed(NAMED, "named"), routed(ADDRESSED, "addressed"), not_found)],
    )


def localities(rule, *upstreams):
    return [
        eg.locality("127.0.0.1", port=upstream.port, hostname=f"{upstream.name}.test", ref=f"{rule}/backend/{ref}")
        for ref, upstream in enumerate(upstreams)
    ]


def addresses(*upstreams):
    given = {"clusterName": f"httproute/{ADDRESSED}", "endpoints": localities(ADDRESSED, *upstreams)}
    return wire.PostEndpointsModifyRequest(load_assignment=eg.message(xds.ClusterLoadAssignment, given))


def as_one_file(knowledge, first, second):
    """A ``rewrite`` of a stack: the socket of its processor, and all else from the hooks."""

    def rewrite(text):
        given = yaml.safe_load(text)["static_resources"]
        (processor,) = [each for each in given["clusters"] if each["name"] == names.PROCESSOR_CLUSTER]
        (endpoint,) = processor["load_assignment"]["endpoints"][0]["lb_endpoints"]
        path = endpoint["endpoint"]["address"]["pipe"]["path"]
        with hooks(knowledge, Options(processor=Processor(address=PipeAddress(path=path)))) as ask:
            made = ask("PostTranslateModify", configuration(first, second))
            endpoints = ask("PostEndpointsModify", addresses(first, second))
        admin = {"address": {"socket_address": {"address": "127.0.0.1", "port_value": 0}}}
        return yaml.safe_dump(eg.bootstrap(made, endpoints.load_assignment, admin=admin))

    return rewrite


# --- requests ---


@pytest.fixture(scope="module")
def upstreams(start_upstream):
    return SimpleNamespace(first=start_upstream("first"), second=start_upstream("second"))


@pytest.fixture(scope="module")
def compiled(upstreams):
    """The same two rules as resources: a backend and its fallback."""
    refs = [res.ref("first", modelNameOverride="model-of-first"), res.ref("second", priority=4)]
    return res.only(
        res.compiled(
            res.gateway(),
            res.route("r", res.rule(*refs, model="named"), res.rule(*refs, model="addressed")),
            *provider("first", upstreams.first),
            *provider("second", upstreams.second, schema={"name": "OpenAI", "prefix": "second/v2"}),
            res.api_key("key", "first"),
            res.secret("key", apiKey="sk-first"),
        )
    )


CONFIGS = ("our filter config", "a filter config by hand")


@pytest.fixture(scope="module", params=CONFIGS)
def stack(request, start_stack, compiled, upstreams):
    """Envoy from the hooks, with the config that our compiler writes and with one in the peer's form."""
    stock = filter_config(
        *(
            entry
            for index in range(2)
            for entry in (
                backend(f"default/first/route/r/rule/{index}/ref/0", model="model-of-first", key="sk-first"),
                backend(f"default/second/route/r/rule/{index}/ref/1", schema={"name": "OpenAI", "prefix": "second/v2"}),
            )
        ),
        models=[
            {"CreatedAt": "2025-05-23T00:00:00Z", "Name": name, "OwnedBy": "Envoy AI Gateway"}
            for name in ("named", "addressed")
        ],
    )
    knowledge = Snapshot([compiled.model])
    return start_stack(
        config=compiled.payload if request.param == CONFIGS[0] else stock,
        routes=(),
        rewrite=as_one_file(knowledge, upstreams.first, upstreams.second),
    )


def ask(stack, model, **headers):
    with connect(stack) as client:
        return client.post(CHAT, json=question(model), headers={"x-api-key": CLIENT_KEY, **headers})


MODELS = ["named", "addressed"]


@pytest.mark.parametrize("model", MODELS)
def test_a_request_goes_to_its_backend(stack, upstreams, model):
    upstreams.first.always(json_reply(chat_completion("m")))

    answer = ask(stack, model)

    assert (answer.status_code, answer.json()["choices"][0]["message"]["content"]) == (200, "Hello!")
    received = upstreams.first.last
    assert received.json()["model"] == "model-of-first"
    assert received.header("authorization") == "Bearer sk-first"
    assert received.header("host") == "first.test"
    assert received.header("content-length") == str(len(received.body))
    assert upstreams.second.requests == []


@pytest.mark.parametrize("model", MODELS)
def test_a_second_attempt_goes_to_the_fallback_as_its_own(stack, upstreams, model):
    """Its endpoints have labels of their own, whether they came in a cluster or by themselves."""
    upstreams.first.always(json_reply({"error": {"message": "busy"}}, status=503))
    upstreams.second.always(json_reply(chat_completion("m")))

    assert ask(stack, model).status_code == 200

    assert len(upstreams.first.requests) == 1
    received = upstreams.second.last
    assert (received.target, received.json()["model"]) == ("/second/v2/chat/completions", model)
    assert received.header("authorization") is None
    assert received.header("host") == "second.test"


def test_a_model_that_no_rule_has_is_not_found(stack, upstreams):
    answer = ask(stack, "unknown")

    assert (answer.status_code, answer.text) == (404, names.NOT_FOUND_BODY)
    assert upstreams.first.requests == upstreams.second.requests == []


def test_models_are_listed(stack):
    answer = httpx.get(f"{stack.base_url}/v1/models", headers={"x-api-key": CLIENT_KEY}, trust_env=False, timeout=30)

    assert sorted(entry["id"] for entry in answer.json()["data"]) == sorted(MODELS)


GUARDED = {"a completion": ("POST", CHAT), "the list of models": ("GET", "/v1/models")}


@pytest.mark.parametrize(("method", "path"), GUARDED.values(), ids=GUARDED)
@pytest.mark.parametrize("headers", [{}, REJECTED], ids=["no key", "a wrong key"])
def test_nothing_is_answered_before_authentication(stack, upstreams, method, path, headers):
    """Response overrides stand first in the chain, and the processor's filter must not stand beside them."""
    body = question("named") if method == "POST" else None
    with connect(stack) as client:
        answer = client.request(method, path, json=body, headers=headers)

    assert answer.status_code == 401
    assert "named" not in answer.text
    assert upstreams.first.requests == []
