"""Who exports (contract, environment variables 1.4)."""

from __future__ import annotations

import pytest
from opentelemetry.sdk.version import __version__

from extproc.telemetry.otel.exports import ExportError
from extproc.telemetry.otel.propagators import propagator
from extproc.telemetry.otel.resource import resource

SDK = {"telemetry.sdk.language": "python", "telemetry.sdk.name": "opentelemetry", "telemetry.sdk.version": __version__}

RESOURCES = {
    "nothing": ({}, {"service.name": "ai-gateway"}),
    "a name": ({"OTEL_SERVICE_NAME": "mine"}, {"service.name": "mine"}),
    "attributes": (
        {"OTEL_RESOURCE_ATTRIBUTES": "a=1, b.c = x%20y ,service.name=theirs"},
        {"a": "1", "b.c": "x y", "service.name": "theirs"},
    ),
    "a name before attributes": (
        {"OTEL_SERVICE_NAME": "mine", "OTEL_RESOURCE_ATTRIBUTES": "service.name=theirs"},
        {"service.name": "mine"},
    ),
    "an attribute of the SDK": (
        {"OTEL_RESOURCE_ATTRIBUTES": "telemetry.sdk.name=x"},
        {"service.name": "ai-gateway", "telemetry.sdk.name": "x"},
    ),
    "a value with an equals sign": (
        {"OTEL_RESOURCE_ATTRIBUTES": "a=b=c"},
        {"a": "b=c", "service.name": "ai-gateway"},
    ),
    "an empty value": ({"OTEL_RESOURCE_ATTRIBUTES": "a="}, {"a": "", "service.name": "ai-gateway"}),
    "empty": ({"OTEL_RESOURCE_ATTRIBUTES": " "}, {"service.name": "ai-gateway"}),
}


@pytest.mark.parametrize("name", RESOURCES)
def test_the_environment_goes_before_the_gateway_and_that_before_the_sdk(name):
    environ, wanted = RESOURCES[name]
    assert dict(resource(environ).attributes) == SDK | wanted


MALFORMED = {
    "no value": ("a=1,b", '"b"'),
    "no key": ("=1", '"=1"'),
    "a comma too many": ("a=1,", '""'),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_attributes_are_refused(name):
    text, shown = MALFORMED[name]
    with pytest.raises(ExportError) as refused:
        resource({"OTEL_RESOURCE_ATTRIBUTES": text})
    assert str(refused.value) == f"malformed OTEL_RESOURCE_ATTRIBUTES: {shown} is not key=value"


FIELDS = {
    "by default": ({}, {"traceparent", "tracestate", "baggage"}),
    "empty": ({"OTEL_PROPAGATORS": ""}, {"traceparent", "tracestate", "baggage"}),
    "one": ({"OTEL_PROPAGATORS": "baggage"}, {"baggage"}),
    "twice, with blanks": ({"OTEL_PROPAGATORS": "tracecontext, tracecontext"}, {"traceparent", "tracestate"}),
    "none": ({"OTEL_PROPAGATORS": "none"}, set()),
}


@pytest.mark.parametrize("name", FIELDS)
def test_the_propagators_that_are_wanted(name):
    environ, fields = FIELDS[name]
    assert propagator(environ).fields == fields


MISSING = {
    "one whose package is not there": (
        "tracecontext,b3",
        'OTEL_PROPAGATORS: "b3" needs the package opentelemetry-propagator-b3, which is not installed',
    ),
    "one that there is not": (
        "w3c",
        (
            'OTEL_PROPAGATORS: unknown propagator "w3c", must be of tracecontext, baggage, b3, b3multi, jaeger, '
            "ottrace, xray, none"
        ),
    ),
}


@pytest.mark.parametrize("name", MISSING)
def test_a_propagator_that_is_missing_is_named(name):
    text, reason = MISSING[name]
    with pytest.raises(ExportError) as refused:
        propagator({"OTEL_PROPAGATORS": text})
    assert str(refused.value) == reason
