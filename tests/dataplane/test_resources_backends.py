"""Resources in front of backends: split by weight, fall back by priority, and reached in every way there is."""

from __future__ import annotations

import math
import ssl
from collections import Counter

import pytest

from tests.dataplane.harness.broken import Absent
from tests.dataplane.harness.client import CHAT, connect, question
from tests.dataplane.harness.hops import Proxy, UnixSocket
from tests.dataplane.harness.replies import chat_completion, json_reply
from tests.dataplane.harness.resources import provider, serve
from tests.support.certificates import Authority
from tests.support.gateway_resources import (
    ENVOY_GATEWAY,
    api_key,
    endpoint,
    gateway,
    ref,
    resource,
    route,
    rule,
    secret,
    service,
)

GOOD = json_reply(chat_completion("m", prompt=3, completion=4))
BUSY = json_reply({"error": {"message": "busy"}}, status=503)
WEIGHTS = {"heavy": 8, "light": 2}
RETRY = {
    "numRetries": 4,
    "numAttemptsPerPriority": 1,
    "perRetry": {"timeout": "10s", "backOff": {"baseInterval": "1ms", "maxInterval": "10ms"}},
    "retryOn": {"httpStatusCodes": [503], "triggers": ["connect-failure", "retriable-status-codes"]},
}


def retries(name, **retry):
    target = {"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "name": name}
    spec = {"targetRefs": [target], "retry": {**RETRY, **retry}}
    return resource(f"{ENVOY_GATEWAY}/v1alpha1", "BackendTrafficPolicy", name, spec=spec)


def twins(upstream):
    """Three backends that differ in nothing but their keys, under a name that has to be looked up."""
    where = {"fqdn": {"hostname": "localhost", "port": upstream.port}}
    for name in ("twin-a", "twin-b", "twin-c"):
        yield from (service(name), endpoint(name, endpoints=[where]))
        yield from (api_key(name, name), secret(name, apiKey=f"sk-{name}"))


@pytest.fixture(scope="module")
def upstreams(start_upstream):
    names = ("heavy", "light", "off", "primary", "secondary", "third", "proxied")
    return {name: start_upstream(name) for name in names}


@pytest.fixture(autouse=True)
def _good(upstreams):
    for upstream in upstreams.values():
        upstream.always(GOOD)


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def secure(start_upstream, authority):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.issue("secure"))
    return start_upstream("secure", tls=context)


@pytest.fixture(scope="module")
def proxy():
    with Proxy() as proxy:
        yield proxy


@pytest.fixture(scope="module")
def stack(start_stack, upstreams):
    with Absent() as absent:
        yield serve(
            start_stack,
            gateway(),
            route(
                "split",
                rule(
                    ref("heavy", weight=WEIGHTS["heavy"]),
                    ref("light", weight=WEIGHTS["light"]),
                    ref("off", weight=0),
                    model="split",
                ),
            ),
            route(
                "fallback",
                rule(ref("primary"), ref("secondary", priority=3), ref("third", priority=7), model="fallback"),
                rule(ref("absent"), ref("secondary", priority=1), model="gone"),
            ),
            route("several", rule("several", model="several")),
            route("twins", rule("twin-a", "twin-b", ref("twin-c", priority=1), model="twins")),
            retries("twins"),
            retries("fallback"),
            *(made for name, upstream in upstreams.items() for made in provider(name, upstream)),
            *provider("absent", absent),
            *provider("several", upstreams["heavy"], upstreams["light"]),
            *twins(upstreams["heavy"]),
        )


def ask(stack, model, **headers):
    with connect(stack) as client:
        return client.post(CHAT, json=question(model), headers=headers)


def test_requests_are_split_by_weight(stack, upstreams):
    count = 250
    with connect(stack) as client:
        assert {client.post(CHAT, json=question("split")).status_code for _ in range(count)} == {200}

    seen = {name: len(upstreams[name].requests) for name in ("heavy", "light", "off")}
    assert seen["heavy"] + seen["light"] == count
    share = WEIGHTS["heavy"] / sum(WEIGHTS.values())
    # Six standard deviations of independent choices: once in a billion runs.
    assert abs(seen["heavy"] - share * count) < 6 * math.sqrt(count * share * (1 - share))


def test_a_backend_speaks_for_itself(stack, upstreams):
    assert ask(stack, "split").status_code == 200

    (received,) = upstreams["heavy"].requests + upstreams["light"].requests
    assert received.header("host") in {"heavy.test", "light.test"}


def test_each_priority_is_tried_in_turn(stack, upstreams):
    upstreams["primary"].always(BUSY)
    upstreams["secondary"].always(BUSY)

    assert ask(stack, "fallback").status_code == 200

    assert [len(upstreams[name].requests) for name in ("primary", "secondary", "third")] == [1, 1, 1]
    assert upstreams["third"].last.header("host") == "third.test"


def test_a_healthy_primary_serves_alone(stack, upstreams):
    for _ in range(20):
        assert ask(stack, "fallback").status_code == 200

    assert [len(upstreams[name].requests) for name in ("primary", "secondary", "third")] == [20, 0, 0]


def test_a_backend_that_nobody_reaches_is_passed_over(stack, upstreams):
    assert ask(stack, "gone").status_code == 200
    assert len(upstreams["secondary"].requests) == 1


def test_the_last_answer_is_the_clients_when_all_are_busy(stack, upstreams):
    for name in ("primary", "secondary", "third"):
        upstreams[name].always(BUSY)

    assert ask(stack, "fallback").status_code == 503


def test_all_addresses_of_a_backend_are_used(stack, upstreams):
    for _ in range(20):
        assert ask(stack, "several").status_code == 200

    hosts = Counter(received.header("host") for name in ("heavy", "light") for received in upstreams[name].requests)
    assert hosts == {"several.test": 20}
    assert all(upstreams[name].requests for name in ("heavy", "light"))


def test_backends_at_one_address_are_themselves(stack, upstreams):
    for _ in range(30):
        assert ask(stack, "twins").status_code == 200
    seen = {received.header("authorization") for received in upstreams["heavy"].requests}
    assert seen == {"Bearer sk-twin-a", "Bearer sk-twin-b"}

    upstreams["heavy"].reset()
    upstreams["heavy"].reply(BUSY, BUSY)
    assert ask(stack, "twins").status_code == 200
    assert upstreams["heavy"].last.header("authorization") in {f"Bearer sk-twin-{name}" for name in "abc"}
    assert "Bearer sk-twin-c" in {received.header("authorization") for received in upstreams["heavy"].requests}


# --- ways ---


@pytest.fixture(scope="module")
def ways(start_stack, upstreams, secure, authority, socket_directory):
    """TLS by a CA of one's own and by none, and a unix socket."""
    ca = resource("v1", "ConfigMap", "ca", data={"ca.crt": authority.ca.read_text()})
    trusting = {"caCertificateRefs": [{"kind": "ConfigMap", "group": "", "name": "ca"}]}
    path = socket_directory / "here.sock"
    with UnixSocket(path, upstreams["proxied"].port) as here:
        stack = serve(
            start_stack,
            gateway(),
            route(
                "ways",
                *(rule(name, model=name) for name in ("trusted", "strange", "careless", "by-address", "here")),
            ),
            *provider("trusted", secure, tls={"sni": "localhost", **trusting}),
            *provider("strange", secure, tls={"sni": "elsewhere.test", **trusting}),
            *provider("careless", secure, tls={"sni": "elsewhere.test", "insecureSkipVerify": True}),
            service("by-address"),
            endpoint("by-address", endpoints=[{"ip": {"address": "127.0.0.1", "port": secure.port}}], tls=trusting),
            service("here"),
            endpoint("here", endpoints=[{"unix": {"path": str(path)}}]),
            ca,
        )
        yield stack, here


WAYS = {
    "a certificate of the authority": ("trusted", 200),
    "a certificate for another name": ("strange", 503),
    "any certificate": ("careless", 200),
    "a certificate for the address": ("by-address", 200),
}


@pytest.mark.parametrize(("model", "status"), WAYS.values(), ids=WAYS)
def test_tls(ways, secure, model, status):
    secure.always(GOOD)

    assert ask(ways[0], model).status_code == status


def test_a_unix_socket(ways, upstreams):
    stack, here = ways

    assert ask(stack, "here").status_code == 200
    assert here.connections == 1
    assert len(upstreams["proxied"].requests) == 1


@pytest.fixture(scope="module")
def behind_proxy(start_stack, upstreams, secure, authority, proxy):
    config = resource(
        "aigateway.envoyproxy.io/v1beta1",
        "GatewayConfig",
        "c",
        spec={"forwardProxy": {"address": f"127.0.0.1:{proxy.port}"}},
    )
    ca = resource("v1", "ConfigMap", "ca", data={"ca.crt": authority.ca.read_text()})
    trusting = {"sni": "localhost", "caCertificateRefs": [{"kind": "ConfigMap", "group": "", "name": "ca"}]}
    return serve(
        start_stack,
        gateway(annotations={"aigateway.envoyproxy.io/gateway-config": "c"}),
        config,
        ca,
        route("r", *(rule(name, model=name) for name in ("by-name", "by-address", "plain", "plain-by-address"))),
        service("by-name"),
        endpoint(
            "by-name",
            endpoints=[{"fqdn": {"hostname": "only-the-proxy-knows.test", "port": secure.port}}],
            tls=trusting,
        ),
        service("by-address"),
        endpoint("by-address", endpoints=[{"ip": {"address": "127.0.0.1", "port": secure.port}}], tls=trusting),
        *provider("plain", upstreams["proxied"]),
        service("plain-by-address"),
        endpoint("plain-by-address", endpoints=[{"ip": {"address": "127.0.0.1", "port": upstreams["proxied"].port}}]),
    )


@pytest.mark.parametrize(("model", "host"), [("by-name", "only-the-proxy-knows.test"), ("by-address", "127.0.0.1")])
def test_tls_goes_through_a_tunnel(behind_proxy, secure, proxy, model, host):
    secure.always(GOOD)

    assert ask(behind_proxy, model).status_code == 200
    assert proxy.seen[-1] == f"CONNECT {host}:{secure.port} HTTP/1.1"


@pytest.mark.parametrize(("model", "host"), [("plain", "plain.test"), ("plain-by-address", "127.0.0.1")])
def test_clear_text_is_asked_of_the_proxy(behind_proxy, upstreams, proxy, model, host):
    assert ask(behind_proxy, model).status_code == 200
    assert proxy.seen[-1] == f"POST http://{host}:{upstreams['proxied'].port}/v1/chat/completions HTTP/1.1"
