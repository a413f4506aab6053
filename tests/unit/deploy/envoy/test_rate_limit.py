"""Token budgets: a question that costs nothing, and a charge when the stream is done."""

from __future__ import annotations

from deploy.envoy import rate_limit
from deploy.envoy.model import HeaderDescriptor, RateLimitService, SocketAddress, StaticDescriptor, TokenBudget
from deploy.envoy.text import to_document

USER = HeaderDescriptor(header="x-user-id", key="user")
PLAN = StaticDescriptor(key="plan", value="free")
USER_ACTION = {"request_headers": {"header_name": "x-user-id", "descriptor_key": "user"}}
PLAN_ACTION = {"generic_key": {"descriptor_key": "plan", "descriptor_value": "free"}}


def test_a_budget_is_a_question_and_a_charge():
    entries = [
        to_document(entry) for entry in rate_limit.rate_limits((TokenBudget(descriptors=(USER,), cost_key="c"),))
    ]

    assert entries == [
        {"actions": [USER_ACTION], "hits_addend": {"number": 0}},
        {
            "actions": [USER_ACTION],
            "hits_addend": {"format": "%DYNAMIC_METADATA(io.envoy.ai_gateway:c)%"},
            "apply_on_stream_done": True,
        },
    ]


def test_two_costs_from_one_bucket_are_one_question_and_two_charges():
    budgets = (
        TokenBudget(descriptors=(USER, PLAN), cost_key="input"),
        TokenBudget(descriptors=(USER, PLAN), cost_key="output"),
        TokenBudget(descriptors=(USER,), cost_key="total"),
    )

    entries = [to_document(entry) for entry in rate_limit.rate_limits(budgets)]

    asked = [entry["actions"] for entry in entries if "apply_on_stream_done" not in entry]
    charged = [
        (entry["actions"], entry["hits_addend"]["format"]) for entry in entries if "apply_on_stream_done" in entry
    ]
    assert asked == [[USER_ACTION, PLAN_ACTION], [USER_ACTION]]
    assert charged == [
        ([USER_ACTION, PLAN_ACTION], "%DYNAMIC_METADATA(io.envoy.ai_gateway:input)%"),
        ([USER_ACTION, PLAN_ACTION], "%DYNAMIC_METADATA(io.envoy.ai_gateway:output)%"),
        ([USER_ACTION], "%DYNAMIC_METADATA(io.envoy.ai_gateway:total)%"),
    ]
    assert entries == sorted(entries, key=lambda entry: "apply_on_stream_done" in entry)


def test_no_budget_no_configuration():
    assert rate_limit.per_route(()) == {}


def test_the_filter():
    service = RateLimitService(
        address=SocketAddress(host="10.0.0.1", port=8081), domain="llm", timeout=0.25, deny_on_failure=True
    )

    assert to_document(rate_limit.rate_limit_filter(service)) == {
        "name": "envoy.filters.http.ratelimit",
        "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimit",
            "domain": "llm",
            "timeout": "0.250s",
            "failure_mode_deny": True,
            "rate_limit_service": {
                "grpc_service": {"envoy_grpc": {"cluster_name": "ai_gateway_ratelimit_cluster"}},
                "transport_api_version": "V3",
            },
            "enable_x_ratelimit_headers": "DRAFT_VERSION_03",
        },
    }
