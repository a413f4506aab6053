"""The access log's fields, each from where it is known."""

from __future__ import annotations

from deploy.envoy.access_log import access_log
from deploy.envoy.model import AccessLog
from deploy.envoy.text import to_document


def fields(**arguments):
    entry = to_document(access_log(AccessLog(path="/log", **arguments)))
    assert entry["typed_config"]["path"] == "/log"
    return entry["typed_config"]["log_format"]["json_format"]


def test_what_the_processor_knows_comes_from_its_metadata():
    namespace = "io.envoy.ai_gateway"

    assert {key: value for key, value in fields().items() if namespace in str(value)} == {
        "model": f"%DYNAMIC_METADATA({namespace}:model_name_override)%",
        "response_model": f"%DYNAMIC_METADATA({namespace}:response_model)%",
        "backend": f"%DYNAMIC_METADATA({namespace}:ai_service_backend_name)%",
        "response_error": f"%DYNAMIC_METADATA({namespace}:response_error)%",
        "ttft_ms": f"%DYNAMIC_METADATA({namespace}:token_latency_ttft)%",
        "itl_ms": f"%DYNAMIC_METADATA({namespace}:token_latency_itl)%",
    }


def test_what_envoy_chose_is_told_by_envoy():
    """An attempt that did not get as far as the processor has an endpoint and a route all the same."""
    chosen = fields()
    assert chosen["backend_ref"] == "%METADATA(UPSTREAM_HOST:aigateway.envoy.io:per_route_rule_backend_name)%"
    assert chosen["route"] == "%METADATA(ROUTE:aigateway.envoy.io:aigw_route_name)%"


def test_costs_are_those_of_the_rules():
    assert fields(cost_keys=("tokens", "price"))["costs"] == {
        "tokens": "%DYNAMIC_METADATA(io.envoy.ai_gateway:tokens)%",
        "price": "%DYNAMIC_METADATA(io.envoy.ai_gateway:price)%",
    }
    assert "costs" not in fields()
