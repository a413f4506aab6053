"""From the neutral model to an Envoy: what is said there is done, and what cannot be done is said."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from deploy.envoy.compile import Serving, Unservable, envoy_gateway
from deploy.envoy.model import (
    AccessLog,
    Answer,
    Match,
    PipeAddress,
    Place,
    Processor,
    RateLimitService,
    Retry,
    SocketAddress,
    VirtualHost,
)
from filter_config.model import BackendAuth, CredentialOverride
from filter_config.redact import Secret
from filter_config.sources import model as neutral
from filter_config.sources.faults import Faults
from filter_config.sources.model import Certificate, Listener, Pool
from tests.support.certificates import Authority
from tests.support.neutral import HTTP, backend, gateway, match, route, rule

PROCESSOR = Processor(address=PipeAddress(path="/run/extproc.sock"))
SERVING = Serving(processor=PROCESSOR)


def certificate(name):
    with TemporaryDirectory() as directory:
        chain, key = Authority(Path(directory)).issue(name)
        return Certificate(chain_pem=chain.read_text(), key=Secret(key.read_text()))


CERTIFICATE = certificate("here")
OTHER = certificate("there")
MIXED = Certificate(chain_pem=CERTIFICATE.chain_pem, key=OTHER.key)
BROKEN = Certificate(chain_pem="no certificate", key=CERTIFICATE.key)


def compiled(given, serving=SERVING):
    """The Envoy, and what was said."""
    faults = Faults()
    made = envoy_gateway(given, serving, faults)
    return made, [f"{fault.severity} {fault.origin.path}: {fault.message}" for fault in faults.closed()]


def only_rule(*rules, **fields):
    made, said = compiled(gateway(route(*rules), **fields))
    assert said == []
    (found,) = made.routes[0].rules
    return found


def test_addresses_are_those_of_the_serving():
    serving = Serving(
        processor=PROCESSOR,
        bind_host="0.0.0.0",
        ports={"http": 1975},
        rate_limit=RateLimitService(address=SocketAddress(host="ratelimit", port=8081)),
        access_log=AccessLog(),
        admin=SocketAddress(host="127.0.0.1", port=9901),
        exclusive=True,
        header_attributes=(("x-tenant", "tenant.id"),),
    )

    made, _ = compiled(gateway(), serving)

    assert made.listener.address == SocketAddress(host="0.0.0.0", port=1975)
    assert made.listener.exclusive
    assert (made.processor, made.rate_limit, made.access_log) == (PROCESSOR, serving.rate_limit, serving.access_log)
    assert made.admin == serving.admin
    assert made.header_attributes == (("x-tenant", "tenant.id"),)


def test_the_session_is_shown_unless_something_else_is_wanted():
    assert compiled(gateway())[0].header_attributes == (("agent-session-id", "session.id"),)


def test_names_are_those_of_the_filter_config():
    made, _ = compiled(gateway(route(replace(rule(), index=4), name="chat")))

    (found,) = made.routes
    assert (found.full_name, found.cluster_name(0)) == ("ns/chat", "httproute/ns/chat/rule/4")
    assert found.backend_name(0, 0) == "ns/one/id"


def test_metadata_that_credentials_are_read_from_are_forwarded():
    def reading(namespace):
        override = CredentialOverride(dynamic_metadata_namespace=namespace)
        return backend(namespace or "header", auth=BackendAuth(credential_override=override))

    given = gateway(route(rule(reading("jwt"), reading("authz"), reading("jwt"), reading(""), backend("plain"))))
    serving = Serving(processor=replace(PROCESSOR, forwarding_namespaces=("mine", "authz")))

    made, _ = compiled(given, serving)

    assert made.processor.forwarding_namespaces == ("mine", "authz", "jwt")


def test_weights_priorities_and_times_are_kept():
    found = only_rule(
        rule(backend("a", weight=3), backend("b", weight=0, priority=2), request_timeout=12.5, rewrite_host=False)
    )

    assert [(each.name, each.weight, each.priority) for each in found.backends] == [("a", 3, 0), ("b", 0, 2)]
    assert (found.timeout, found.rewrite_host) == (12.5, False)


def test_a_rule_without_matches_takes_everything():
    assert only_rule(rule(model=None)).alternatives == (Match(),)


# --- retries ---

POLICY = neutral.Retry(attempts=3, triggers=("reset",), per_try_timeout=20.0)
RETRIES = {
    "none": ({}, None),
    "a bound of an attempt": (
        {"backend_timeout": 9.0},
        Retry(attempts=1, triggers=(), status_codes=(), per_try_timeout=9.0),
    ),
    "an idle bound": (
        {"idle_timeout": 5.0},
        Retry(attempts=1, triggers=(), status_codes=(), per_try_idle_timeout=5.0),
    ),
    "no bound": ({"backend_timeout": 0.0}, None),
    "as given": (
        {"retry": POLICY},
        Retry(attempts=4, triggers=("reset",), status_codes=(), per_try_timeout=20.0),
    ),
    "the shorter bound": (
        {"retry": POLICY, "backend_timeout": 7.0},
        Retry(attempts=4, triggers=("reset",), status_codes=(), per_try_timeout=7.0),
    ),
    "the policy's bound is the shorter": (
        {"retry": POLICY, "backend_timeout": 70.0},
        Retry(attempts=4, triggers=("reset",), status_codes=(), per_try_timeout=20.0),
    ),
    "nothing said": (
        {"retry": neutral.Retry(attempts=2)},
        Retry(
            attempts=3,
            triggers=("connect-failure", "refused-stream", "unavailable", "cancelled", "retriable-status-codes"),
            status_codes=(503,),
        ),
    ),
    "codes alone": (
        {"retry": neutral.Retry(attempts=1, status_codes=(429, 500))},
        Retry(attempts=2, triggers=("retriable-status-codes",), status_codes=(429, 500)),
    ),
    "pauses and attempts per priority": (
        {
            "retry": neutral.Retry(
                attempts=1, triggers=("5xx",), attempts_per_priority=2, base_interval=0.1, max_interval=1.0
            )
        },
        Retry(
            attempts=2,
            triggers=("5xx",),
            status_codes=(),
            attempts_per_priority=2,
            base_interval=0.1,
            max_interval=1.0,
        ),
    ),
}


@pytest.mark.parametrize(("fields", "retry"), RETRIES.values(), ids=RETRIES)
def test_retries(fields, retry):
    assert only_rule(rule(**fields)).retry == retry


# --- rules without a backend ---

POOL = Pool(namespace="ns", name="pool")
NO_BACKEND = Answer(status=500, body="The rule that takes this request has no backend.")
POOL_ONLY = Answer(status=503, body="The pool that takes this request is not served by this gateway.")
ANSWERS = {
    "a backend": ((backend(),), None),
    "one of two": ((backend("a", endpoint=None), backend("b")), None),
    "an endpoint that is not known": ((backend(endpoint=None),), NO_BACKEND),
    "no weight": ((backend(weight=0),), NO_BACKEND),
    "a pool": ((backend(endpoint=None, pool=POOL),), POOL_ONLY),
    "a pool without weight": ((backend(endpoint=None, pool=POOL, weight=0),), NO_BACKEND),
    "a pool and a backend": ((backend("p", endpoint=None, pool=POOL), backend("b")), None),
}


@pytest.mark.parametrize(("backends", "answer"), ANSWERS.values(), ids=ANSWERS)
def test_a_rule_without_a_backend_answers_for_itself(backends, answer):
    made, _ = compiled(gateway(route(rule(*backends), rule(model=None, index=1))))

    assert made.routes[0].rules[0].answer == answer
    assert made.listener.hosts == (
        VirtualHost(domain="*", places=(Place(route=0, rule=0, match=0), Place(route=0, rule=1, match=0))),
    )


def test_a_rule_that_lost_all_its_backends_answers_too():
    made, said = compiled(gateway(route(rule(backends=()))))

    assert (made.routes[0].rules[0].answer, said) == (NO_BACKEND, [])


def test_pools_are_reported():
    _, said = compiled(gateway(route(rule(backend(endpoint=None, pool=POOL)))))

    assert said == ["warning : InferencePool ns/pool is not served by this Envoy"]


# --- matches ---

BAD = {
    "a pattern": (match(x_team="~("), "header x-team: '(' is no regular expression: missing ): ("),
    "a pattern of another engine": (match(x_team="~(?=a)"), "header x-team: '(?=a)' is no regular expression: "),
    "a pattern for characters": (match(x_team=r"~\x{100}"), r"header x-team: '\\x{100}' is no regular expression: "),
    "a name of a header": (match(**{"x team": "a"}), "'x team' is no name of a header"),
    "a path": (match(path="chat"), "'chat' is no prefix of a path"),
    "a path with a query": (match(path="/chat?x"), "'/chat?x' is no prefix of a path"),
}


@pytest.mark.parametrize(("bad", "message"), BAD.values(), ids=BAD)
def test_a_match_that_envoy_would_refuse_is_left_out(bad, message):
    made, (said,) = compiled(gateway(route(rule(matches=(bad, match("good"))))))

    assert said.startswith(f"error matches[0]: {message}")
    assert said.endswith("; the match is left out")
    assert len(made.routes[0].rules[0].alternatives) == 1


def test_a_rule_that_lost_all_its_matches_takes_nothing():
    made, said = compiled(gateway(route(rule(matches=(match(x="~("),)), rule(index=1))))

    assert len(said) == 1
    assert [each.number for each in made.routes[0].rules] == [1]
    assert made.listener.hosts == (VirtualHost(domain="*", places=(Place(route=0, rule=0, match=0),)),)


# --- listeners ---


def listener(name="http", **fields):
    return replace(HTTP, name=name, **fields)


def https(name="https", **fields):
    return listener(name, **{"port": 443, "protocol": "HTTPS", "certificates": (CERTIFICATE,), **fields})


def test_listeners_of_one_port_are_one():
    listeners = (listener(), listener("other", hostname="a.example"), listener("third", port=9090))

    made, said = compiled(gateway(listeners=listeners))

    assert said == []
    assert [(each.name, each.address.port) for each in made.listeners] == [("ns/gw/http", 8080), ("ns/gw/third", 9090)]
    assert [[host.domain for host in each.hosts] for each in made.listeners] == [["a.example", "*"], ["*"]]


def test_ports_that_are_mapped_to_one_are_one():
    listeners = (listener(), listener("other", port=9090))
    serving = replace(SERVING, ports={"http": 7000, "other": 7000})

    made, _ = compiled(gateway(listeners=listeners), serving)

    assert [each.name for each in made.listeners] == ["ns/gw/http"]


def test_ports_of_envoys_choice_stay_apart():
    listeners = (listener(), listener("same"), listener("other", port=9090))
    serving = replace(SERVING, ports={"http": 0, "same": 0, "other": 0})

    made, _ = compiled(gateway(listeners=listeners), serving)

    assert [(each.name, each.address.port) for each in made.listeners] == [("ns/gw/http", 0), ("ns/gw/other", 0)]


def test_tls_is_by_hostname():
    made, said = compiled(gateway(listeners=(https(), https("a", hostname="*.a.example"))))

    assert said == []
    assert [each.server_name for each in made.listener.tls] == ["", "*.a.example"]
    (shown,) = made.listener.tls[0].certificates
    assert (shown.chain_pem, shown.key_pem) == (CERTIFICATE.chain_pem, CERTIFICATE.key.reveal())
    assert "key_pem" not in repr(made)


REFUSED = {
    "no certificate": ((https(certificates=()),), "listener https: no certificate is known"),
    "a certificate that is none": (
        (https(certificates=(CERTIFICATE, BROKEN)),),
        "listener https: the certificate and its key cannot be read, or do not go together",
    ),
    "the key of another": (
        (https(certificates=(MIXED,)),),
        "listener https: the certificate and its key cannot be read, or do not go together",
    ),
    "two protocols": (
        (https(port=8080),),
        "listener https: port 8080 is that of listener http, whose protocol is HTTP",
    ),
    "the same host twice": (
        (https("a", hostname="h.example"), https("b", hostname="h.example")),
        "listener b: another listener of port 443 has the same hostname",
    ),
}


@pytest.mark.parametrize(("listeners", "message"), REFUSED.values(), ids=REFUSED)
def test_a_listener_that_cannot_be_opened_is_left_out(listeners, message):
    made, said = compiled(gateway(listeners=(HTTP, *listeners)))

    assert said == [f"error : {message}; it is left out"]
    assert made.listener.name == "ns/gw/http"


@pytest.mark.parametrize("listeners", [(), (Listener(name="tcp", port=1, protocol="TCP"),), (https(certificates=()),)])
def test_a_gateway_without_a_listener_cannot_be_served(listeners):
    with pytest.raises(Unservable) as refused:
        envoy_gateway(gateway(listeners=listeners), SERVING)

    assert str(refused.value) == "gateway ns/gw has no listener for HTTP that can be served"


def test_tools_are_not_served():
    _, said = compiled(gateway(mcp=neutral.MCP()))

    assert said == ["warning : MCP routes are not served by this Envoy"]
