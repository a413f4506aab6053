"""Any edits in any order end in what the compiler makes of all resources, and what did not change is left alone."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from deploy.local import incremental
from deploy.local.incremental import Incremental
from deploy.local.reading import Reader
from filter_config.sources.envoy_ai_gateway.compiler import compile_documents
from filter_config.sources.envoy_ai_gateway.documents import Text, documents
from filter_config.sources.faults import Faults
from tests.support import gateway_resources as g
from tests.support.placeless import comparable

CONFIG = {"annotations": {"aigateway.envoyproxy.io/gateway-config": "c"}}
TLS = [g.listener("https", protocol="HTTPS", tls={"certificateRefs": [{"name": "cert", "namespace": "team"}]})]
SELECTED = {"namespaces": {"from": "Selector", "selector": {"matchLabels": {"team": "a"}}}}
AZURE = {"clientID": "c", "tenantID": "t", "clientSecretRef": {"name": "k"}}
BUCKET = {"limit": 10, "duration": "1h"}
POOL = g.ref("p", group=g.INFERENCE, kind="InferencePool")
HTTP_ROUTE = {"group": g.GATEWAY_API, "kind": "HTTPRoute"}
TO_B = [{"group": g.AI, "kind": "AIServiceBackend", "name": "b"}]
FROM_OUTSIDE = {"annotations": {"substitution.aigw.run/env/apiKey": "KEY", "substitution.aigw.run/env/other": "NO"}}
ENVIRON = {"KEY": "from outside"}


def aged(value: dict[str, Any], day: int) -> dict[str, Any]:
    """A resource of a known age, as order among routes is by age."""
    metadata = {**value["metadata"], "creationTimestamp": f"2026-01-{day:02d}T00:00:00Z"}
    return {**value, "metadata": metadata}


def costs(cel: str = "total_tokens") -> list[dict[str, Any]]:
    return [{"metadataKey": "cost", "type": "CEL", "cel": cel}]


def traffic(name: str, target: str, kind: str = "HTTPRoute", **spec: Any) -> dict[str, Any]:
    ref = {"group": g.GATEWAY_API, "kind": kind, "name": target}
    return g.resource(f"{g.ENVOY_GATEWAY}/v1alpha1", "BackendTrafficPolicy", name, spec={"targetRefs": [ref], **spec})


def tls_policy(name: str, target: str, authority: str) -> dict[str, Any]:
    ref = {"group": g.ENVOY_GATEWAY, "kind": "Backend", "name": target}
    authorities = [{"group": "", "kind": "ConfigMap", "name": authority}]
    validation = {"hostname": "h.example.com", "caCertificateRefs": authorities}
    return g.resource(
        f"{g.GATEWAY_API}/v1", "BackendTLSPolicy", name, spec={"targetRefs": [ref], "validation": validation}
    )


def without(value: dict[str, Any], name: str) -> dict[str, Any]:
    """A policy that lacks what every one must have: nothing but its targets can be read."""
    return {**value, "spec": {key: part for key, part in value["spec"].items() if key != name}}


def authority(name: str, **data: str) -> dict[str, Any]:
    return {**g.resource("v1", "ConfigMap", name), "data": data}


def unreadable(value: dict[str, Any]) -> dict[str, Any]:
    return {**value, "apiVersion": value["apiVersion"].rpartition("/")[0] + "/v9"}


def nameless(value: dict[str, Any]) -> dict[str, Any]:
    return {**value, "metadata": {"namespace": "default"}}


TWIN = [g.route("s", g.rule("c"))]
# Everything that files may have, each in the forms that it may have it in.
FORMS: list[list[dict[str, Any]]] = [
    [
        g.gateway(),
        g.gateway(**CONFIG),
        g.gateway(listeners=[g.listener(allowedRoutes=SELECTED, hostname="*.example.com")]),
        g.gateway(listeners=TLS),
    ],
    [g.gateway("gw2", listeners=[g.listener(allowedRoutes={"namespaces": {"from": "All"}})])],
    [g.resource("v1", "Namespace", "default", "", metadata={"labels": {"team": "a"}})],
    [
        aged(g.route("r", g.rule("b", "c"), llmRequestCosts=costs()), 3),
        aged(g.route("r", g.rule("b"), hostnames=["a.example.com", "b.example.com"]), 3),
        aged(g.route("r", g.rule("b"), g.rule(POOL), parentRefs=[{"name": "gw"}, {"name": "gw2"}]), 3),
        aged(g.route("r", g.rule(g.ref("b", weight=True))), 3),
        aged(g.route("r", g.rule(g.ref("b", weight=1))), 3),
    ],
    [
        aged(g.route("s", g.rule("c", model="n", name="x"), g.rule(g.ref("b", modelNameOverride="o"), model="m")), 2),
        aged(g.route("s", g.rule(POOL, model="p"), hostnames=["a.example.com"], llmRequestCosts=costs("1 +")), 2),
        unreadable(g.route("s", g.rule("c"))),
    ],
    TWIN,
    [
        aged(
            g.route(
                "t",
                g.rule(g.ref("b", namespace="default")),
                namespace="team",
                parentRefs=[{"name": "gw2", "namespace": "default"}],
            ),
            1,
        )
    ],
    [g.service("b"), g.service("b", schema="Anthropic"), g.service("b", schema="Nobody")],
    [g.service("c"), g.service("c", headerMutation={"set": [{"name": "x-a", "value": "1"}]})],
    [g.endpoint("b"), g.endpoint("b", tls={"caCertificateRefs": [{"group": "", "kind": "ConfigMap", "name": "ca"}]})],
    [g.endpoint("c"), g.endpoint("c", endpoints=[])],
    [g.api_key("k", "b"), g.api_key("k", "b", "c"), nameless(g.api_key("k", "c"))],
    [g.api_key("l", "d"), g.api_key("l", "b"), unreadable(g.api_key("l", "c"))],
    [
        g.secret("k", apiKey="key-of-k"),
        g.resource("v1", "Secret", "k", stringData={"apiKey": "no", "other": "o"}, metadata=FROM_OUTSIDE),
        g.secret("k", other="x"),
    ],
    [g.secret("l", apiKey="key-of-l")],
    [g.policy("az", "AzureCredentials", "c", azureCredentials=AZURE)],
    [g.secret("ai-eg-bsp-az", azureAccessToken="t"), g.secret("ai-eg-bsp-az", azureAccessToken="u")],
    [g.secret("cert", "team", **{"tls.crt": "c", "tls.key": "k"})],
    [g.grant("team", source=(g.GATEWAY_API, "Gateway", "default"), target=("", "Secret"))],
    [g.grant("default", source=(g.AI, "AIGatewayRoute", "team"), target=(g.AI, "AIServiceBackend"))],
    [g.grant("default", source=(g.GATEWAY_API, "HTTPRoute", "team"), target=(g.ENVOY_GATEWAY, "Backend"))],
    [g.resource(f"{g.AI}/v1beta1", "GatewayConfig", "c", spec={"globalLLMRequestCosts": costs()})],
    [
        g.quota(TO_B, costExpression="input_tokens", defaultBucket=BUCKET),
        g.quota(TO_B, costExpression="1 +", defaultBucket=BUCKET),
    ],
    [g.resource(f"{g.INFERENCE}/v1", "InferencePool", "p", spec={"endpointPickerRef": {"name": "epp"}})],
    [aged(g.mcp(), 4), aged(g.mcp(path="/tools"), 4)],
    [
        traffic("t1", "r", retry={"numRetries": 2}),
        traffic("t1", "gw", "Gateway", retry={"numRetries": 3}),
        traffic("t1", "r", retry={"numRetries": -1}),
        {**traffic("t1", "r"), "spec": {"targetRef": {**HTTP_ROUTE, "name": "r"}, "retry": {"numRetries": 4}}},
        unreadable(traffic("t1", "r")),
    ],
    [
        traffic("t2", "s", rateLimit={"global": {"rules": [{"limit": {"requests": 5, "unit": "Minute"}}]}}),
        traffic("t2", "r", retry={"numRetries": 5}, rateLimit={"local": {}}),
        {**traffic("t2", "r"), "spec": {"targetRef": {**HTTP_ROUTE, "name": "r"}, "retry": "none"}},
        {**traffic("t2", "r"), "spec": "none"},
    ],
    [
        tls_policy("tp", "b", "ca"),
        tls_policy("tp", "c", "ca"),
        tls_policy("tp", "b", ""),
        without(tls_policy("tp", "b", "ca"), "validation"),
        unreadable(tls_policy("tp", "c", "ca")),
    ],
    [
        tls_policy("tq", "d", "ca"),
        tls_policy("tq", "b", "ca"),
        tls_policy("tq", "b", ""),
        without(tls_policy("tq", "b", "ca"), "validation"),
        nameless(without(tls_policy("tq", "c", "ca"), "validation")),
    ],
    [authority("ca", **{"ca.crt": "pem"}), authority("ca", other="x")],
    [
        g.service(
            "e", "team", backendRef={"name": "b", "namespace": "default", "kind": "Backend", "group": g.ENVOY_GATEWAY}
        )
    ],
    [g.route("u", g.rule("e", model="u"), namespace="team", parentRefs=[{"name": "gw2", "namespace": "default"}])],
    [g.resource("example.com/v1", "Gateway", "gw")],
    [g.resource(f"{g.AI}/v1beta1", "AIGatewayRout", "typo")],
]
STEPS = st.lists(st.tuples(st.integers(0, len(FORMS) - 1), st.integers(-1, 4)), min_size=1, max_size=25)


def text(resources, before=0):
    """A document for each, which begins some lines further down."""
    pieces = [b"---\n" + msgspec.json.encode(resource) + b"\n" for resource in resources]
    return Text(name="r.yaml", data=b"\n" * before + b"".join(pieces))


class Both:
    """Compiles bit by bit, and as a whole."""

    def __init__(self):
        self.reader, self.incremental = Reader(), Incremental(ENVIRON)

    def compile(self, resources, before=0):
        read, faults = text(resources, before), Faults()
        made = self.incremental.compile(list(self.reader.documents(read, faults)), faults)
        self.reader.forget_unused()
        self.incremental.forget_unused()
        return made

    def check(self, resources, before=0):
        made = self.compile(resources, before)
        whole = compile_documents(documents(text(resources, before), Faults()), Faults(), environ=ENVIRON)
        assert comparable(made.gateways) == comparable(whole.gateways)
        assert made.faults == whole.faults
        return made


def test_a_first_form_of_everything_is_compiled():
    """Otherwise the tests below would be about nothing."""
    made = Both().check([forms[0] for forms in FORMS if forms[0]["metadata"]["name"] != "s"])

    assert [len(each.model.routes) for each in made.gateways] == [1, 2]
    assert all(each.config.backends for each in made.gateways)


def forms_of(**wanted):
    """The forms that are there at the beginning, by kind and name the first ones if nothing else is wanted."""
    state = {}
    for which, forms in enumerate(FORMS):
        name = f"{forms[0]['kind']}_{forms[0]['metadata'].get('name')}"
        state[which] = forms[min(wanted.get(name, 0), len(forms) - 1)]
    # Two routes of one name would hide what is done to either.
    state.pop(FORMS.index(TWIN))
    return state


BEGINNINGS = {
    "plain": forms_of(),
    "TLS": forms_of(Gateway_gw=3, Backend_b=1, BackendTLSPolicy_tp=1, BackendTrafficPolicy_t1=1),
}


@pytest.mark.parametrize("state", BEGINNINGS.values(), ids=BEGINNINGS)
def test_each_edit_of_each_resource_there_and_back(state):
    both = Both()
    both.check(list(state.values()))
    for which, forms in enumerate(FORMS):
        for form in forms:
            both.check(list({**state, which: form}.values()))
        both.check([form for there, form in state.items() if there != which])
    both.check(list(state.values()))


@settings(max_examples=50, deadline=None)
@given(
    absent=st.sets(st.integers(0, len(FORMS) - 1), max_size=4),
    steps=STEPS,
    data=st.data(),
)
def test_edits_one_by_one_give_what_all_resources_give_at_once(absent, steps, data):
    both = Both()
    # From nearly everything: from nothing, most examples would be of resources that lack one another.
    state = {which: forms[0] for which, forms in enumerate(FORMS) if which not in absent}
    both.check(list(state.values()))
    for number, (which, form) in enumerate(steps):
        if form < 0:
            state.pop(which, None)
        else:
            state[which] = FORMS[which][form % len(FORMS[which])]
        both.check(list(state.values()), before=number % 3)
    both.check(data.draw(st.permutations(list(state.values()))))


@pytest.mark.parametrize("order", [slice(None), slice(None, None, -1)], ids=["served first", "served last"])
def test_of_two_documents_of_one_name_a_fault_is_told_at_the_one_that_it_is_about(order):
    policies = [tls_policy("tp", "b", "ca"), unreadable(tls_policy("tp", "b", "ca"))][order]
    resources = [
        g.gateway(),
        g.route("r", g.rule("b")),
        *g.served("b"),
        authority("ca", **{"ca.crt": "pem"}),
        *policies,
    ]

    made = Both().check(resources)

    line = 2 + 2 * resources.index(unreadable(tls_policy("tp", "b", "ca")))
    about = [fault.origin.line for fault in made.faults if "gets no requests" in fault.message]
    assert about == [line]


def routes(count):
    return [g.route(f"r{number}", g.rule(f"b{number}", model=f"m{number}")) for number in range(count)]


def test_only_the_routes_that_lead_to_a_change_are_compiled(monkeypatch):
    both, compiled = Both(), []
    real = incremental.compile_gateways

    def compile_gateways(context):
        made = real(context)
        compiled.extend(route.name for each in made for route in each.routes)
        return made

    resources = [g.gateway(), *routes(20), *g.served(*(f"b{number}" for number in range(20)))]
    (was,) = both.check(resources).gateways
    monkeypatch.setattr(incremental, "compile_gateways", compile_gateways)

    edited = [g.service("b7", schema="Anthropic") if one == g.service("b7") else one for one in resources]
    (after,) = both.compile(edited, before=1).gateways

    assert compiled == ["r7"]
    kept = [new is old for new, old in zip(after.model.routes, was.model.routes, strict=True)]
    assert kept.count(False) == 1
    both.compile(edited)
    assert compiled == ["r7"]


def test_an_edit_of_the_gateway_leaves_the_very_same_routes():
    both = Both()
    resources = [*routes(3), *g.served("b0", "b1", "b2")]
    (before,) = both.check([g.gateway(), *resources]).gateways

    (after,) = both.check([g.gateway(listeners=[g.listener(port=81)]), *resources]).gateways

    assert after.model.listeners != before.model.listeners
    assert all(new is old for new, old in zip(after.model.routes, before.model.routes, strict=True))


def test_a_document_that_is_written_in_another_way_is_no_change(monkeypatch):
    both = Both()
    resources = [g.gateway(), *routes(1), *g.served("b0")]
    both.check(resources)
    monkeypatch.setattr(incremental, "compile_gateways", None)

    both.compile(resources[::-1], before=3)
    read = Text(name="r.yaml", data=yaml.safe_dump_all(resources, sort_keys=False).encode())
    faults = Faults()
    made = both.incremental.compile(list(both.reader.documents(read, faults)), faults)

    assert [len(each.model.routes) for each in made.gateways] == [1]


def test_a_gateway_without_a_change_is_the_very_same():
    both = Both()
    resources = [g.gateway(), *routes(3), *g.served("b0", "b1", "b2")]
    (before,) = both.compile(resources).gateways

    (after,) = both.compile([g.secret("unrelated", a="b"), *resources]).gateways

    assert after is before
