"""What docs/howto/envoy.md says about Envoy, done by the real one: what is needed, and what its absence looks like."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

import httpx
import pytest

from deploy.envoy.model import HeaderDescriptor, StaticDescriptor, TokenBudget
from tests.dataplane.harness import envoy_document
from tests.dataplane.harness.documents import backend, cost, filter_config, route, rule
from tests.dataplane.harness.envoy_document import edited
from tests.dataplane.harness.replies import Abort, Gate, Reply, chat_chunks, chat_completion, json_reply, stream_reply

CHAT = "/v1/chat/completions"
QUESTION = {"model": "small", "messages": [{"role": "user", "content": "Hello?"}]}
BUDGET = TokenBudget(descriptors=(HeaderDescriptor(header="x-user-id", key="user"),), cost_key="tokens")
LIMITS = {
    "domain": "facts",
    "descriptors": [{"key": key, "rate_limit": {"unit": "hour", "requests_per_unit": 1000}} for key in ("user", "all")],
}


@pytest.fixture(scope="module")
def upstream(start_upstream):
    return start_upstream("openai")


@pytest.fixture(scope="module")
def start(start_stack, upstream):
    """``start(**arguments of Stack)`` with one backend that gets a longer model name, and one cost."""

    def run(budgets=(), **arguments):
        where = route(rule(upstream, models=["small"]), budgets=budgets)
        entry = backend(where.backend_name(0, 0), model="a-much-longer-name", key="sk")
        config = filter_config(entry, globalLLMRequestCosts=[cost("tokens")])
        return start_stack(routes=[where], config=config, cost_keys=["tokens"], **arguments)

    return run


@pytest.fixture(scope="module")
def sound(start):
    """Nothing is missing."""
    return start()


def post(stack, document=QUESTION, **headers):
    return httpx.post(stack.base_url + CHAT, json=document, headers=headers, timeout=30)


def test_content_length_is_restored(sound, upstream):
    upstream.always(json_reply(chat_completion("m")))

    assert post(sound).status_code == 200
    assert upstream.last.header("content-length") == str(len(upstream.last.body))


def test_without_the_header_mutation_filter_the_body_is_chunked(start, upstream):
    def drop(document):
        for chain in envoy_document.upstream_filters(document):
            chain[:] = [entry for entry in chain if entry["name"] != "envoy.filters.http.header_mutation"]

    upstream.always(json_reply(chat_completion("m")))

    assert post(start(rewrite=edited(drop))).status_code == 400
    (refused,) = upstream.refused
    assert refused.header("transfer-encoding") == "chunked"


def test_without_receiving_namespaces_no_metadata_arrives(start, upstream):
    def drop(document):
        for config in envoy_document.ext_procs(document):
            del config["metadata_options"]

    # The answer is right, so nobody notices; but nothing is charged. content-length goes the same way, hence the 400.
    stack = start(rewrite=edited(drop))
    upstream.always(json_reply(chat_completion("m")))

    assert post(stack, **{"x-request-id": "no-metadata"}).status_code == 400
    assert stack.access_log.wait_for("no-metadata")["costs"] == {"tokens": None}


def test_a_stream_arrives_piece_by_piece(sound, upstream):
    gate = Gate()
    first, *rest = chat_chunks("m", "a", "b")
    upstream.always(stream_reply(first, gate, *rest))

    with httpx.stream("POST", sound.base_url + CHAT, json=QUESTION | {"stream": True}, timeout=30) as response:
        lines = response.iter_lines()
        assert '"content":"a"' in next(lines)
        gate.open()
        assert [line for line in lines if line][-1] == "data: [DONE]"


def test_without_allow_mode_override_a_stream_arrives_whole_and_is_still_charged(start, upstream):
    def forbid(document):
        for config in envoy_document.ext_procs(document):
            del config["allow_mode_override"]

    stack = start(rewrite=edited(forbid))
    gate = Gate()
    first, *rest = chat_chunks("m", "a", "b", prompt=3, completion=4)
    upstream.always(stream_reply(first, gate, *rest))
    request = {"json": QUESTION | {"stream": True}, "headers": {"x-request-id": "whole"}}

    # Envoy holds even the headers back until the upstream is done.
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(stack.base_url + CHAT, timeout=0.5, **request | {"headers": {"x-request-id": "given-up"}})
    gate.open()
    response = httpx.post(stack.base_url + CHAT, timeout=30, **request)

    assert response.text.endswith("data: [DONE]\n\n")
    assert stack.access_log.wait_for("whole")["costs"] == {"tokens": 7}


BODIES = {"32 KiB and one": 32_769, "1 MiB and one": (1 << 20) + 1, "5 MiB": 5 << 20, "45 MiB": 45 << 20}


@pytest.mark.parametrize("size", BODIES.values(), ids=BODIES)
def test_large_bodies_pass_in_both_directions(sound, upstream, size):
    upstream.always(json_reply(chat_completion("m", text="y" * size)))

    response = post(sound, QUESTION | {"messages": [{"role": "user", "content": "x" * size}]})

    assert response.status_code == 200
    assert len(response.json()["choices"][0]["message"]["content"]) == size
    assert len(upstream.last.json()["messages"][0]["content"]) == size


def test_with_envoys_own_buffer_limits_a_large_body_is_refused(start, upstream):
    def drop(document):
        del document["static_resources"]["listeners"][0]["per_connection_buffer_limit_bytes"]
        for host in envoy_document.manager(document)["route_config"]["virtual_hosts"]:
            del host["request_body_buffer_limit"]

    stack = start(rewrite=edited(drop))
    upstream.always(json_reply(chat_completion("m")))
    large = QUESTION | {"messages": [{"role": "user", "content": "x" * (2 << 20)}]}

    assert post(stack).status_code == 200
    assert post(stack, large).status_code == 413
    upstream.always(json_reply(chat_completion("m", text="y" * (2 << 20))))
    assert post(stack).status_code == 500


def test_an_upstream_that_promises_more_bytes_than_it_sends_is_a_502(sound, upstream):
    upstream.always(
        Reply(headers=(("content-type", "application/json"),), content_length=9, pieces=(b'{"a": 1}', Abort()))
    )

    response = post(sound, **{"x-request-id": "short"})

    assert response.status_code == 502
    details = sound.access_log.wait_for("short")["response_code_details"]
    assert details == "upstream_reset_after_response_started{protocol_error}"


def charges(limiter, user):
    return [decision.hits for decision in limiter.decisions if decision.entries == (("user", user),)]


def test_a_request_is_charged_what_it_cost_and_once(start, start_rate_limit, upstream):
    limiter, service = start_rate_limit(LIMITS)
    stack = start(budgets=(BUDGET,), rate_limit=service)
    upstream.always(json_reply(chat_completion("m", prompt=11, completion=7)))

    assert post(stack, **{"x-user-id": "ann"}).status_code == 200

    limiter.wait_until_charged(("user", "ann"), amount=18)
    assert charges(limiter, "ann") == [0, 18]


def test_among_a_routes_own_rate_limits_the_addend_is_ignored(start, start_rate_limit, upstream):
    def move(document):
        for entry in envoy_document.routes(document):
            limits = entry["typed_per_filter_config"].pop("envoy.filters.http.ratelimit", None)
            if limits is not None:
                entry["route"]["rate_limits"] = limits["rate_limits"]

    limiter, service = start_rate_limit(LIMITS)
    stack = start(budgets=(BUDGET,), rate_limit=service, rewrite=edited(move))
    upstream.always(json_reply(chat_completion("m", prompt=11, completion=7)))

    assert post(stack, **{"x-user-id": "ann"}).status_code == 200

    limiter.wait_until_charged(("user", "ann"), amount=2)
    assert charges(limiter, "ann") == [1, 1]


PRIORITIES = {"shared out": ((0, 0), {"one", "two"}), "the second one waits for a failure": ((0, 1), {"one"})}


@pytest.mark.parametrize(("priorities", "asked"), PRIORITIES.values(), ids=PRIORITIES)
def test_backends_of_one_priority_share_the_requests(start_stack, start_upstream, priorities, asked):
    upstreams = [start_upstream("one"), start_upstream("two")]
    ranked = rule(*upstreams, models=["small"])
    backends = tuple(replace(one, priority=rank) for one, rank in zip(ranked.backends, priorities, strict=True))
    where = route(replace(ranked, backends=backends))
    stack = start_stack(routes=[where], config=filter_config(*(backend(name) for name, _ in where.backend_names())))
    for upstream in upstreams:
        upstream.always(json_reply(chat_completion("m")))

    assert {post(stack).status_code for _ in range(10)} == {200}
    assert {upstream.name for upstream in upstreams if upstream.requests} == asked


def user_in_metadata(document):
    """Identity as an authentication filter leaves it: in dynamic metadata, which nobody removes."""
    config = {
        "@type": "type.googleapis.com/envoy.extensions.filters.http.header_to_metadata.v3.Config",
        "request_rules": [{"header": "x-user-id", "on_header_present": {"metadata_namespace": "auth", "key": "user"}}],
    }
    filters = envoy_document.manager(document)["http_filters"]
    filters.insert(0, {"name": "envoy.filters.http.header_to_metadata", "typed_config": config})
    action = {"metadata": {"metadata_key": {"key": "auth", "path": [{"key": "user"}]}, "descriptor_key": "user"}}
    for entry in envoy_document.routes(document):
        limits = entry["typed_per_filter_config"].get("envoy.filters.http.ratelimit", {}).get("rate_limits", ())
        for limit in limits:
            if "request_headers" in limit["actions"][0]:
                limit["actions"] = [action]


def user_removed_by_the_route(document):
    for entry in envoy_document.routes(document):
        entry.setdefault("request_headers_to_remove", []).append("x-user-id")


def unchanged(_):
    """Envoy's configuration as it is built."""


@dataclass(frozen=True, kw_only=True)
class Removal:
    backend: dict = field(default_factory=dict)
    edit: Callable = unchanged
    charged: list


OF_THE_BACKEND = {"httpHeaderMutation": {"remove": ["x-user-id"]}}
REMOVALS = {
    "by nobody": Removal(charged=[0, 18]),
    "by the backend": Removal(backend=OF_THE_BACKEND, charged=[0]),
    "by the route": Removal(edit=user_removed_by_the_route, charged=[0]),
    "by the backend, with a budget that reads metadata": Removal(
        backend=OF_THE_BACKEND, edit=user_in_metadata, charged=[0, 18]
    ),
}


@pytest.mark.parametrize("removal", REMOVALS.values(), ids=REMOVALS)
def test_a_budget_whose_header_has_been_removed_is_not_charged(start_stack, start_rate_limit, upstream, removal):
    limiter, service = start_rate_limit(LIMITS)
    everyone = TokenBudget(descriptors=(StaticDescriptor(key="all", value="all"),), cost_key="tokens")
    where = route(rule(upstream, models=["small"]), budgets=(BUDGET, everyone))
    entry = backend(where.backend_name(0, 0), key="sk", **removal.backend)
    stack = start_stack(
        routes=[where],
        config=filter_config(entry, globalLLMRequestCosts=[cost("tokens")]),
        cost_keys=["tokens"],
        rate_limit=service,
        rewrite=edited(removal.edit),
    )
    upstream.always(json_reply(chat_completion("m", prompt=11, completion=7)))

    assert post(stack, **{"x-user-id": "ann", "x-request-id": "removed"}).status_code == 200

    # One call to the service carries all charges of a request: once one is there, so are the others.
    limiter.wait_until_charged(("all", "all"), amount=18)
    assert charges(limiter, "ann") == removal.charged
    assert stack.access_log.wait_for("removed")["costs"] == {"tokens": 18}


def test_a_restart_of_the_processor_is_bridged(start, upstream):
    # Many retries: a machine that is busy with other tests may take long to start a processor.
    stack = start(processor_settings={"connect_retries": 100})
    upstream.always(json_reply(chat_completion("m")))
    assert post(stack).status_code == 200
    stack.processor.stop()

    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(post, stack)
        stack.restart_processor()
        assert waiting.result().status_code == 200


def test_without_retries_a_missing_processor_is_a_500(start, upstream):
    stack = start(processor_settings={"connect_retries": 0})
    upstream.always(json_reply(chat_completion("m")))
    assert post(stack).status_code == 200
    stack.processor.stop()

    response = post(stack, **{"x-request-id": "gone"})

    assert (response.status_code, response.content) == (500, b"")
    assert stack.access_log.wait_for("gone")["response_code_details"].startswith("ext_proc_error_gRPC_error_14")


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_an_answer_with_trailers_is_charged_although_its_last_piece_does_not_say_so(start, upstream, stream):
    def allow(document):
        for cluster in envoy_document.clusters(document):
            for options in cluster["typed_extension_protocol_options"].values():
                if "http_protocol_options" in options["explicit_http_config"]:
                    options["explicit_http_config"]["http_protocol_options"] = {"enable_trailers": True}

    stack = start(rewrite=edited(allow))
    answer = json_reply(chat_completion("m", prompt=3, completion=4))
    if stream:
        answer = stream_reply(*chat_chunks("m", "a", prompt=3, completion=4))
    upstream.always(replace(answer, framing="chunked", trailers=(("x-checksum", "1"),)))

    assert post(stack, QUESTION | {"stream": stream}, **{"x-request-id": "trailers"}).status_code == 200

    assert stack.access_log.wait_for("trailers")["costs"] == {"tokens": 7}


def test_a_catch_all_that_does_not_enable_the_processor_gives_404_for_every_model(start, upstream):
    def disable(document):
        for entry in envoy_document.routes(document):
            if "direct_response" in entry:
                del entry["typed_per_filter_config"]

    upstream.always(json_reply(chat_completion("m")))

    assert post(start(rewrite=edited(disable))).status_code == 404
    assert upstream.requests == []


def test_circuit_breakers_of_the_processors_cluster_count_two_streams_for_each_request(start, upstream):
    def tighten(document):
        for cluster in envoy_document.clusters(document):
            if cluster["name"] == "ai-gateway-extproc-uds":
                cluster["circuit_breakers"]["thresholds"] = [{"max_requests": 2}]

    stack = start(rewrite=edited(tighten), processor_settings={"connect_retries": 0})
    gate = Gate()
    first, *rest = chat_chunks("m", "a")
    upstream.always(stream_reply(first, gate, *rest))

    with httpx.stream("POST", stack.base_url + CHAT, json=QUESTION | {"stream": True}, timeout=30) as response:
        lines = response.iter_lines()
        next(lines)
        assert post(stack, **{"x-request-id": "second"}).status_code == 500
        gate.open()
        assert list(lines)
    assert "overflow" in stack.access_log.wait_for("second")["response_code_details"]


@pytest.mark.parametrize(("namespaces", "status"), [(("auth",), 200), ((), 401)], ids=["forwarded", "not forwarded"])
def test_a_credential_in_dynamic_metadata_needs_its_namespace_forwarded(start_stack, upstream, namespaces, status):
    def write_metadata(document):
        rule_of_metadata = {
            "header": "x-token",
            "on_header_present": {"metadata_namespace": "auth", "key": "token"},
            "remove": True,
        }
        config = {
            "@type": "type.googleapis.com/envoy.extensions.filters.http.header_to_metadata.v3.Config",
            "request_rules": [rule_of_metadata],
        }
        entry = {"name": "envoy.filters.http.header_to_metadata", "typed_config": config}
        envoy_document.manager(document)["http_filters"].insert(0, entry)

    where = route(rule(upstream, models=["small"]))
    entry = backend(where.backend_name(0, 0), key="sk-configured")
    entry["auth"]["credentialOverride"] = {
        "dynamicMetadataNamespace": "auth",
        "dynamicMetadataKey": "token",
        "fallbackToConfigured": False,
    }
    stack = start_stack(
        routes=[where],
        config=filter_config(entry),
        processor_settings={"forwarding_namespaces": namespaces},
        rewrite=edited(write_metadata),
    )
    upstream.always(json_reply(chat_completion("m")))

    assert post(stack, **{"x-token": "of-the-user"}).status_code == status
    assert [received.header("authorization") for received in upstream.requests] == (
        ["Bearer of-the-user"] if status == 200 else []
    )
