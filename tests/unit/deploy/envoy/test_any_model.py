"""Whatever a source says of a gateway, the Envoy of it is one that Envoy takes."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from envoy_data_plane.envoy.config.bootstrap.v3 import Bootstrap
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from deploy.envoy.bootstrap import bootstrap
from deploy.envoy.compile import Serving, Unservable, envoy_gateway
from deploy.envoy.model import PipeAddress, Processor, RateLimitService, SocketAddress
from deploy.envoy.text import to_json
from filter_config.sources.model import (
    Address,
    Backend,
    Bucket,
    Budget,
    ClientSelector,
    Endpoint,
    Gateway,
    HeaderMatch,
    Listener,
    Match,
    Pool,
    Quota,
    Retry,
    Route,
    Rule,
    UpstreamTLS,
)
from tests.support.neutral import HERE, SCHEMA

SERVING = Serving(
    processor=Processor(address=PipeAddress(path="/run/extproc.sock")),
    rate_limit=RateLimitService(address=SocketAddress(host="127.0.0.1", port=8081)),
    lookup=lambda _: "10.0.0.1",
)
NAMES = st.from_regex(r"[a-z]([a-z0-9-]{0,6}[a-z0-9])?", fullmatch=True)
HOSTS = st.sampled_from(["a.example", "*.example", "b.a.example", "*.test"])
HEADERS = st.sampled_from(["x-ai-eg-model", "X-Team", "x_user", "no header", ":authority"])
# Texts that mean something to somebody on the way: to YAML, to formats, to expressions.
TEXTS = st.text(max_size=8) | st.sampled_from(
    ["%REQ(x)%", ')%"', "\\", "${HOME}", "a: b", "'\"", ".*", "(", "(?i)a|b", "é"]
)
PORTS = st.integers(1, 65535)
SECONDS = st.floats(0, 1e6, allow_subnormal=False)
ADDRESSES = (
    st.builds(Address, host=st.sampled_from(["api.example", "10.0.0.1", "::1"]), port=PORTS)
    | st.builds(Address, host=st.just("10.0.0.1"), port=PORTS, hostname=st.just("api.example"))
    | st.builds(Address, pipe=st.just("/run/model.sock"))
)
ENDPOINTS = st.builds(
    Endpoint,
    addresses=st.lists(ADDRESSES, min_size=1, max_size=3).map(tuple),
    tls=st.none() | st.builds(UpstreamTLS, server_name=st.sampled_from(["", "api.example"]), verify=st.booleans()),
    proxy=st.sampled_from(["", "", "proxy.example:3128", "[::1]:3128"]),
)
BACKENDS = st.builds(
    Backend,
    id=TEXTS.filter(bool),
    namespace=NAMES,
    name=NAMES,
    schema=st.just(SCHEMA),
    origin=st.just(HERE),
    model_override=st.sampled_from(["", "m"]),
    weight=st.integers(0, 1000),
    priority=st.integers(0, 5),
    endpoint=st.none() | ENDPOINTS,
    pool=st.none() | st.just(Pool(namespace="ns", name="pool")),
)
MATCHES = st.builds(
    Match,
    headers=st.lists(
        st.builds(HeaderMatch, name=HEADERS, value=TEXTS, kind=st.sampled_from(["exact", "regex"])), max_size=2
    ).map(tuple),
    path_prefix=st.sampled_from(["/", "/v1", "/v1/", "/a b", "no path", "/q?"]),
)
RETRIES = st.builds(
    Retry,
    attempts=st.integers(0, 10),
    triggers=st.lists(st.sampled_from(["5xx", "reset", "connect-failure"]), unique=True).map(tuple),
    status_codes=st.lists(st.integers(400, 599), unique=True, max_size=3).map(tuple),
    attempts_per_priority=st.none() | st.integers(0, 3),
    per_try_timeout=st.none() | SECONDS,
    base_interval=st.none() | SECONDS,
    max_interval=st.none() | SECONDS,
)
BUCKETS = st.builds(
    Bucket,
    limit=st.integers(0, 1 << 31),
    unit=st.sampled_from(["second", "minute", "hour", "day"]),
    selectors=st.lists(
        st.builds(
            ClientSelector,
            name=HEADERS,
            value=TEXTS,
            kind=st.sampled_from(["exact", "regex", "distinct"]),
            invert=st.booleans(),
        ),
        max_size=2,
    ).map(tuple),
    shadow=st.booleans(),
)
BUDGETS = st.builds(
    Budget,
    id=NAMES,
    origin=st.just(HERE),
    bucket=BUCKETS,
    request_cost=st.integers(0, 5),
    response_key=st.sampled_from(["", "tokens"]),
)
RULES = st.builds(
    Rule,
    origin=st.just(HERE),
    index=st.just(0),
    matches=st.lists(MATCHES, max_size=3).map(tuple),
    backends=st.lists(BACKENDS, max_size=3).map(tuple),
    request_timeout=SECONDS,
    backend_timeout=st.none() | SECONDS,
    idle_timeout=st.none() | SECONDS,
    retry=st.none() | RETRIES,
    rewrite_host=st.booleans(),
    budgets=st.lists(BUDGETS, max_size=1).map(tuple),
)


def numbered(rules):
    return tuple(
        Rule(**{field: getattr(rule, field) for field in Rule.__slots__} | {"index": index})
        for index, rule in enumerate(rules)
    )


@st.composite
def routes(draw):
    rules = numbered(draw(st.lists(RULES, max_size=3)))
    backends = sorted({f"ns/{backend.name}" for rule in rules for backend in rule.backends})
    quota = st.builds(
        Quota,
        policy=st.just("ns/q"),
        origin=st.just(HERE),
        backends=st.just(tuple(backends)),
        model=st.sampled_from(["m", "n"]),
        buckets=st.lists(BUCKETS, max_size=2).map(tuple),
        default=st.none() | BUCKETS,
    )
    return Route(
        namespace="ns",
        name=draw(NAMES),
        origin=HERE,
        hostnames=tuple(draw(st.lists(HOSTS, unique=True, max_size=2))),
        rules=rules,
        quotas=tuple(draw(st.lists(quota, max_size=2))),
        listeners=tuple(draw(st.lists(st.sampled_from(["l0", "l1"]), unique=True))),
    )


LISTENERS = st.lists(
    st.tuples(st.sampled_from([80, 8080]), st.sampled_from(["HTTP", "HTTP", "TCP", "HTTPS"]), st.just("") | HOSTS),
    min_size=1,
    max_size=3,
).map(
    lambda found: tuple(
        Listener(name=f"l{index}", port=port, protocol=protocol, hostname=hostname)
        for index, (port, protocol, hostname) in enumerate(found)
    )
)
GATEWAYS = st.builds(
    Gateway,
    namespace=NAMES,
    name=NAMES,
    origin=st.just(HERE),
    listeners=LISTENERS,
    routes=st.lists(routes(), max_size=3, unique_by=lambda route: route.name).map(tuple),
    proxy=st.sampled_from(["", "", "10.0.0.1:3128"]),
)


@settings(
    max_examples=5,
    deadline=None,
    # A gateway takes a second; a smaller one that fails as well is not worth minutes of looking for it.
    phases=[phase for phase in Phase if phase is not Phase.shrink],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(gateway=GATEWAYS)
def test_envoy_takes_every_gateway(gateway, envoy_accepts):
    try:
        made = envoy_gateway(gateway, SERVING)
    except Unservable:
        assert not any(listener.protocol == "HTTP" for listener in gateway.listeners)
        return
    built = bootstrap(made)

    assert made == envoy_gateway(gateway, SERVING)
    assert bytes(Bootstrap.parse(bytes(built))) == bytes(built)
    with TemporaryDirectory() as directory:
        path = Path(directory) / "envoy.json"
        path.write_text(to_json(built))
        assert envoy_accepts(path) is None


@pytest.mark.parametrize("text", ["%REQ(x)%", ')%"', "a\nb\\", "é\x00"])
def test_a_text_that_looks_like_a_format_is_none(text, envoy_accepts, tmp_path):
    selector = ClientSelector(name="x", value=text)
    bucket = Bucket(limit=1, unit="hour", selectors=(selector,))
    budget = Budget(id=text, origin=HERE, bucket=bucket)
    backend = Backend(
        id="b",
        namespace="ns",
        name="b",
        schema=SCHEMA,
        origin=HERE,
        endpoint=Endpoint(addresses=(Address(host="10.0.0.1", port=1),)),
    )
    rule = Rule(origin=HERE, index=0, backends=(backend,), budgets=(budget,))
    route = Route(namespace="ns", name="r", origin=HERE, rules=(rule,))
    listener = Listener(name="http", port=80, protocol="HTTP")
    made = envoy_gateway(
        Gateway(namespace="ns", name="g", origin=HERE, listeners=(listener,), routes=(route,)), SERVING
    )

    path = tmp_path / "envoy.json"
    path.write_text(to_json(bootstrap(made)))

    assert envoy_accepts(path) is None
