"""Faults are told once, in words with a place, in the order of the input."""

from __future__ import annotations

from filter_config.sources.faults import Faults, Origin

ROUTE = Origin(file="f.yaml", line=3, kind="Route", namespace="ns", name="r")


def test_a_fault_says_where_what_and_what_would_be_right():
    faults = Faults()
    faults.error(ROUTE.at("a.b"), "is wrong", "mend it")
    faults.warning(ROUTE, "is odd")
    faults.error(Origin(file="-"), "is empty")
    assert list(map(str, faults.closed())) == [
        "-: is empty",
        "f.yaml:3: Route ns/r: warning: is odd",
        "f.yaml:3: Route ns/r: a.b: is wrong; mend it",
    ]


def test_the_same_fault_is_told_once_and_numbers_are_in_their_order():
    faults = Faults()
    for path in ("a[10]", "a[9]", "a[10]", "a", "b"):
        faults.error(ROUTE.at(path), "is wrong")
    assert [fault.origin.path for fault in faults.closed()] == ["a", "a[9]", "a[10]", "b"]


def test_a_place_within_a_place():
    assert ROUTE.below("a").below("b").path == "a.b"
    assert Origin(file="f", kind="Namespace", name="n").resource == "Namespace n"
