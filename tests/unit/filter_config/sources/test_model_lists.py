"""The models that are listed for each host."""

from __future__ import annotations

from filter_config.sources.model_lists import model_lists


def test_without_a_host_there_is_one_list():
    lists = model_lists([((), [("a", 1)]), ((), [("b", 2), ("a", 3)])])
    assert (lists.everywhere, lists.by_host, lists.unscoped) == ({"a": 1, "b": 2}, {}, {"a": 1, "b": 2})


def test_a_host_has_its_own_first_and_then_those_of_every_host():
    lists = model_lists([((), [("a", 1), ("b", 2)]), (("h", "i"), [("c", 3), ("a", 4)])])
    assert list(lists.by_host["h"].items()) == [("c", 3), ("a", 4), ("b", 2)]
    assert lists.by_host["i"] == lists.by_host["h"]
    assert lists.everywhere == {"a": 1, "b": 2, "c": 3}
    assert lists.unscoped == {"a": 1, "b": 2}


def test_a_route_without_a_model_gives_its_hosts_no_list():
    assert model_lists([(("h",), []), ((), [("a", 1)])]).by_host == {}
