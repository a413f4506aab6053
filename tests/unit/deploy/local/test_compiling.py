"""Compiling again and again: what is remembered, and what an edit with errors leaves."""

from __future__ import annotations

import pytest
import yaml

from deploy.local.compiling import Compiler
from filter_config.sources.envoy_ai_gateway import compile_texts
from filter_config.sources.envoy_ai_gateway import load as load_module
from filter_config.sources.envoy_ai_gateway.documents import Text
from filter_config.sources.faults import Fault, Faults, Origin
from tests.support.gateway_resources import gateway, route, rule, served
from tests.support.placeless import comparable


def text(*resources, name="r.yaml"):
    return Text(name=name, data=yaml.safe_dump_all(resources, sort_keys=False).encode())


def with_model(model, *, name="r"):
    return route(name, rule("b", model=model))


def compile_(compiler, *texts, faults=None):
    return compiler.compile(texts, faults or Faults())


def models(outcome):
    return [model.name for made in outcome.gateways for model in made.config.models]


@pytest.fixture
def compiler():
    return Compiler({})


THERE = (gateway(), *served("b"))


def test_it_gives_what_the_compiler_gives(compiler):
    texts = [text(*THERE, with_model("m")), text(with_model("n", name="other"), name="other.yaml")]

    outcome = compile_(compiler, *texts)

    wanted = compile_texts(texts)
    assert comparable(outcome.gateways) == comparable(wanted.gateways)
    assert (outcome.faults, outcome.kept) == (wanted.faults, ())


def test_only_what_has_changed_is_judged_again(compiler, monkeypatch):
    judged = []
    real = load_module.judge

    def judge(struct, kind, value):
        judged.append(value["metadata"]["name"])
        return real(struct, kind, value)

    monkeypatch.setattr("deploy.local.reading.judge", judge)
    compile_(compiler, text(*THERE, with_model("m"), with_model("n", name="s")))
    judged.clear()

    outcome = compile_(compiler, text(*THERE, with_model("m"), with_model("edited", name="s")))

    assert judged == ["s"]
    assert models(outcome) == ["m", "edited"]


def test_lines_are_those_of_the_file_however_often_it_is_read(compiler):
    broken = with_model("m")
    broken["spec"]["rules"][0]["matches"] = "no list"
    there = text(*THERE)
    whole = Text(name="r.yaml", data=there.data + b"---\n" + text(broken).data)
    line = there.data.count(b"\n") + 2

    for _ in range(2):
        (fault,) = compile_(compiler, whole).faults
        assert (fault.origin.file, fault.origin.line) == ("r.yaml", line)
    moved = Text(name="r.yaml", data=b"# a comment\n" + whole.data)
    (fault,) = compile_(compiler, moved).faults
    assert fault.origin.line == line + 1


# --- errors ---


def broken(name="r"):
    resource = with_model("broken", name=name)
    resource["spec"]["rulez"] = resource["spec"].pop("rules")
    return resource


def test_a_resource_with_an_error_keeps_its_last_version_and_the_rest_is_new(compiler):
    compile_(compiler, text(*THERE, with_model("old")))

    outcome = compile_(compiler, text(*THERE, broken(), with_model("new", name="s")))

    assert models(outcome) == ["old", "new"]
    assert outcome.kept == ("AIGatewayRoute default/r",)
    assert outcome.errors
    assert {fault.origin.name for fault in outcome.faults} == {"r"}


def test_it_keeps_it_through_further_edits_until_it_is_mended_or_gone(compiler):
    compile_(compiler, text(*THERE, with_model("old")))
    for _ in range(3):
        assert models(compile_(compiler, text(*THERE, broken()))) == ["old"]
    assert models(compile_(compiler, text(*THERE, with_model("mended")))) == ["mended"]
    assert models(compile_(compiler, text(*THERE, broken()))) == ["mended"]
    compile_(compiler, text(*THERE))

    assert models(compile_(compiler, text(*THERE, broken()))) == []


def test_a_new_resource_with_an_error_is_left_out(compiler):
    compile_(compiler, text(*THERE, with_model("m")))

    outcome = compile_(compiler, text(*THERE, with_model("m"), broken("s")))

    assert (models(outcome), outcome.kept) == (["m"], ())


def test_a_file_that_is_no_yaml_keeps_what_was_in_it(compiler):
    first, second = text(*THERE), text(with_model("old"), name="s.yaml")
    compile_(compiler, first, second)

    outcome = compile_(compiler, first, Text(name="s.yaml", data=b"a: [b"))

    assert models(outcome) == ["old"]
    assert outcome.kept == ("AIGatewayRoute default/r",)


def test_a_document_that_is_no_yaml_keeps_what_is_missing_now(compiler):
    compile_(compiler, text(*THERE, with_model("old"), with_model("stays", name="s")))

    edited = text(*THERE, with_model("edited", name="s"))
    outcome = compile_(compiler, Text(name="r.yaml", data=edited.data + b"---\na: [b\n"))

    assert sorted(models(outcome)) == ["edited", "old"]


def test_a_file_that_cannot_be_read_keeps_what_was_in_it(compiler):
    first, second = text(*THERE), text(with_model("old"), name="s.yaml")
    compile_(compiler, first, second)
    faults = Faults()
    faults.error(Origin(file="s.yaml"), "cannot be read")

    outcome = compile_(compiler, first, faults=faults)

    assert models(outcome) == ["old"]
    assert outcome.faults == (Fault(origin=Origin(file="s.yaml"), message="cannot be read"),)


def test_a_reference_that_leads_nowhere_keeps_the_version_that_had_a_better_one(compiler):
    compile_(compiler, text(*THERE, with_model("old")))

    outcome = compile_(compiler, text(*THERE, route("r", rule("nobody", model="new"))))

    assert models(outcome) == ["old"]


def test_what_a_resource_referred_to_may_go_and_come_back(compiler):
    route_, (service, endpoint) = with_model("m"), served("b")
    compile_(compiler, text(gateway(), service, endpoint, route_))

    assert models(compile_(compiler, text(gateway(), endpoint, route_))) == []
    assert models(compile_(compiler, text(gateway(), service, endpoint, route_))) == ["m"]


def test_a_resource_that_is_there_twice_keeps_the_one_it_was(compiler):
    compile_(compiler, text(*THERE, with_model("old")))

    outcome = compile_(compiler, text(*THERE, with_model("a"), with_model("b")))

    assert models(outcome) == ["old"]
