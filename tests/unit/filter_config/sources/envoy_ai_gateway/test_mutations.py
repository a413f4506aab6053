"""Mutations of two levels in one (contract, control plane 2.6)."""

from __future__ import annotations

import pytest

from tests.support.gateway_resources import (
    api_key,
    compiled,
    document,
    endpoint,
    faults,
    gateway,
    only,
    ref,
    route,
    rule,
    secret,
    served,
    service,
)


def headers(*remove: str, **values: str):
    return {"set": [{"name": name, "value": value} for name, value in values.items()], "remove": list(remove)}


def mutated(of_backend, of_route, field: str, key: str):
    given = {field: of_route} if of_route is not None else {}
    defined = {field: of_backend} if of_backend is not None else {}
    made = only(compiled(gateway(), route("r", rule(ref("b", **given))), service("b", **defined), endpoint("b")))
    return document(made)["backends"][0].get(key)


# backend level, route level, expected: names that are set with their values, and names that are removed
HEADERS = {
    "none": (None, None, None),
    "backend alone, in its order": (headers("Z", "A", B="1", a="2"), None, ([("b", "1"), ("a", "2")], ["z", "a"])),
    "route alone, in its order": (None, headers("Z", X="1"), ([("x", "1")], ["z"])),
    "route wins in the backend's place": (
        headers(X="1", Y="2"),
        headers(x="3", w="4"),
        ([("x", "3"), ("y", "2"), ("w", "4")], []),
    ),
    "removals are joined without repeats": (headers("a", "B"), headers("b", "c"), ([], ["a", "b", "c"])),
    "route sets what backend removes": (headers("x", "y"), headers(X="1"), ([("x", "1")], ["y"])),
    "route removes what backend sets": (headers(x="1", y="2"), headers("X"), ([("y", "2")], ["x"])),
    "empty": ({}, {}, None),
}


@pytest.mark.parametrize(("backend", "reference", "expected"), HEADERS.values(), ids=HEADERS)
def test_header_mutations_of_two_levels(backend, reference, expected):
    found = mutated(backend, reference, "headerMutation", "httpHeaderMutation")
    if expected is None:
        assert found is None
        return
    assert [(entry["name"], entry["value"]) for entry in found.get("set", [])] == expected[0]
    assert found.get("remove", []) == expected[1]


def body(*remove: str, **values: str):
    return {"set": [{"path": path, "value": value} for path, value in values.items()], "remove": list(remove)}


BODIES = {
    "paths keep their case": (body("User", a="1"), body(A="2"), ([("a", "1"), ("A", "2")], ["User"])),
    "route wins": (body(a="1"), body(a='"x"'), ([("a", '"x"')], [])),
    "route sets what backend removes": (body("a"), body(a="1"), ([("a", "1")], [])),
    "route removes what backend sets": (body(a="1"), body("a"), ([], ["a"])),
}


@pytest.mark.parametrize(("backend", "reference", "expected"), BODIES.values(), ids=BODIES)
def test_body_mutations_of_two_levels(backend, reference, expected):
    found = mutated(backend, reference, "bodyMutation", "httpBodyMutation")
    assert [(entry["path"], entry["value"]) for entry in found.get("set", [])] == expected[0]
    assert found.get("remove", []) == expected[1]


def test_headers_with_a_clients_credential_are_removed_after_the_others():
    override = {"credentialOverride": {"fromRequestHeaders": {"header": "X-Mine"}}}
    resources = [route("r", rule("b")), service("b", headerMutation=headers("x-a")), endpoint("b")]
    made = only(compiled(gateway(), *resources, api_key("k", "b", **override), secret("k", apiKey="1")))
    assert document(made)["backends"][0]["httpHeaderMutation"] == {"remove": ["x-a", "x-mine"]}


def test_a_mutation_that_the_processor_cannot_make_disables_its_backend_alone():
    broken = service("broken", bodyMutation=body(a="{not json}"))
    result = compiled(gateway(), route("r", rule("broken", "b")), broken, endpoint("broken"), *served("b"))
    assert [backend.name for backend in result.gateways[0].config.backends] == ["default/b/route/r/rule/0/ref/1"]
    assert faults(result) == [
        (
            "error AIGatewayRoute default/r: spec.rules[0].backendRefs[0].bodyMutation.set[0].value: the value looks "
            "like JSON and is none: it would break the body"
        )
    ]
