"""The processor's filters, member by member, against what the contract says that the processor sees."""

from __future__ import annotations

import pytest

from deploy.envoy import ext_proc
from deploy.envoy.model import PipeAddress, Processor
from deploy.envoy.text import to_document

PROCESSOR = Processor(address=PipeAddress(path="/run/extproc.sock"))
NAMESPACE = "aigateway.envoy.io"
RETRIES = {
    "retry_on": "connect-failure,refused-stream,reset,cancelled,unavailable",
    "num_retries": 20,
    "retry_back_off": {"base_interval": "0.050s", "max_interval": "0.500s"},
}


def test_router_level_filter():
    entry = to_document(ext_proc.router_filter(PROCESSOR))

    assert entry == {
        "name": "envoy.filters.http.ext_proc/aigateway",
        "disabled": True,
        "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.filters.http.ext_proc.v3.ExternalProcessor",
            "grpc_service": {"envoy_grpc": {"cluster_name": "ai-gateway-extproc-uds"}, "retry_policy": RETRIES},
            "processing_mode": {
                "request_header_mode": "SEND",
                "request_body_mode": "BUFFERED",
                "request_trailer_mode": "SKIP",
                "response_header_mode": "SEND",
                "response_body_mode": "BUFFERED",
                "response_trailer_mode": "SKIP",
            },
            "metadata_options": {"receiving_namespaces": {"untyped": ["io.envoy.ai_gateway"]}},
            "message_timeout": "10s",
            "allow_mode_override": True,
        },
    }


def test_upstream_level_filter():
    entry = to_document(ext_proc.upstream_filters(PROCESSOR)[0])

    assert entry == {
        "name": "envoy.filters.http.ext_proc/aigateway",
        "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.filters.http.ext_proc.v3.ExternalProcessor",
            "grpc_service": {
                "envoy_grpc": {"cluster_name": "ai-gateway-extproc-uds"},
                "timeout": "30s",
                "retry_policy": RETRIES,
            },
            # NONE, the default of a body mode, is not written.
            "processing_mode": {"request_header_mode": "SEND", "response_header_mode": "SKIP"},
            "request_attributes": [
                f"xds.upstream_host_metadata.filter_metadata['{NAMESPACE}']['per_route_rule_backend_name']",
                f"xds.cluster_metadata.filter_metadata['{NAMESPACE}']['per_route_rule_backend_name']",
                f"xds.upstream_host_metadata.filter_metadata['{NAMESPACE}']['upstream_host']",
                f"xds.route_metadata.filter_metadata['{NAMESPACE}']['aigw_route_name']",
            ],
            "metadata_options": {"receiving_namespaces": {"untyped": ["io.envoy.ai_gateway"]}},
            "message_timeout": "10s",
            "allow_mode_override": True,
        },
    }


def test_upstream_filters_come_in_the_only_order_that_works():
    names = [entry.name for entry in ext_proc.upstream_filters(PROCESSOR)]

    assert names == [
        "envoy.filters.http.ext_proc/aigateway",
        "envoy.filters.http.header_mutation",
        "envoy.filters.http.upstream_codec",
    ]


def test_content_length_comes_from_metadata_and_only_when_it_is_missing():
    entry = to_document(ext_proc.content_length_filter())

    (mutation,) = entry["typed_config"]["mutations"]["request_mutations"]
    assert mutation == {
        "append": {
            "header": {
                "key": "content-length",
                "value": "%DYNAMIC_METADATA(io.envoy.ai_gateway:content_length)%",
            },
            "append_action": "ADD_IF_ABSENT",
        }
    }


def test_enabling_is_an_empty_filter_config():
    (entry,) = ext_proc.enable().values()

    assert to_document(entry) == {
        "@type": "type.googleapis.com/envoy.config.route.v3.FilterConfig",
        "config": {},
    }


@pytest.mark.parametrize("build", [ext_proc.router_filter, lambda processor: ext_proc.upstream_filters(processor)[0]])
def test_metadata_is_forwarded_on_request(build):
    processor = Processor(address=PipeAddress(path="/x"), forwarding_namespaces=("envoy.filters.http.jwt_authn",))

    options = to_document(build(processor))["typed_config"]["metadata_options"]

    assert options["forwarding_namespaces"] == {"untyped": ["envoy.filters.http.jwt_authn"]}


@pytest.mark.parametrize("build", [ext_proc.router_filter, lambda processor: ext_proc.upstream_filters(processor)[0]])
def test_retries_can_be_switched_off(build):
    processor = Processor(address=PipeAddress(path="/x"), connect_retries=0)

    assert "retry_policy" not in to_document(build(processor))["typed_config"]["grpc_service"]
