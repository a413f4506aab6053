"""What attempts have in common is worked out once, and bounded."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extproc.endpoints.base import Operation
from extproc.exchange import plan, replies
from extproc.exchange.plan import plan_for
from tests.support.playbook import BACKEND, ROUTE, SECOND_BACKEND, Gateway, cost, openai_backend

CONFIG = {
    "version": "dev",
    "backends": [openai_backend(), openai_backend(SECOND_BACKEND)],
    "llmRequestCosts": [cost("total"), cost("response_model")],
}
TEXT = st.text(max_size=5) | st.sampled_from(["response_model", "response_error", "%b", "a" * 600])


@pytest.fixture
def runtime():
    return Gateway(CONFIG).processor.runtime


def of(runtime, **changes):
    about = {
        "operation": Operation.CHAT,
        "original_model": "m",
        "model": "real",
        "route": ROUTE,
        "stream": False,
        **changes,
    }
    return plan_for(runtime, runtime.backends[about.pop("backend", BACKEND)], **about)


def test_the_same_attempts_have_the_same_plan(runtime):
    assert of(runtime) is of(runtime)
    assert of(Gateway(CONFIG).processor.runtime) is not of(runtime)


@pytest.mark.parametrize(
    "other",
    [
        {"operation": Operation.MESSAGES},
        {"original_model": "n"},
        {"model": "n"},
        {"route": ""},
        {"stream": True},
        {"backend": SECOND_BACKEND},
    ],
    ids=lambda other: next(iter(other)),
)
def test_others_have_another(runtime, other):
    first, second = of(runtime), of(runtime, **other)
    assert first is not second
    name, value = next(iter(other.items()))
    assert (second.backend.name if name == "backend" else getattr(second, name)) == value


def test_a_plan_does_not_keep_its_runtime(runtime):
    """One that is replaced must go at once, and what was there at the start is never looked at for garbage."""
    before = sys.getrefcount(runtime)
    kept = of(runtime)
    assert kept.report("", "", {"total": 1})
    assert sys.getrefcount(runtime) == before


def test_plans_are_bounded_in_number_and_size(runtime):
    for number in range(plan._MOST_PLANS + 10):
        of(runtime, original_model=f"m{number}")
    assert 0 < len(runtime.derived) <= plan._MOST_PLANS
    runtime.derived.clear()
    of(runtime, original_model="m" * plan._LONG)
    assert not runtime.derived


def test_forms_are_bounded_in_number_and_size(runtime):
    one = of(runtime)
    for number in range(plan._MOST_FORMS + 10):
        one.report(f"m{number}", "", {"total": 1})
    assert 0 < len(one._reports) <= plan._MOST_FORMS
    one._reports.clear()
    one.report("m" * plan._LONG, "", {"total": 1})
    assert not one._reports


CALLS = st.lists(
    st.tuples(
        TEXT,
        TEXT,
        st.dictionaries(TEXT, st.floats(allow_nan=False) | st.integers(0, 2**53), max_size=4),
    ),
    min_size=1,
    max_size=6,
)


@given(CALLS)
def test_a_report_is_that_of_its_parts_whatever_was_asked_before(calls):
    """Texts stand in the place of numbers of the same name, as costs may be called anything."""
    one = of(Gateway(CONFIG).processor.runtime)
    for model, failure, numbers in [*calls, *reversed(calls)]:
        texts = {"response_model": model, "response_error": failure}
        values = {**numbers, **one.names, **{name: text for name, text in texts.items() if text}}
        made = replies.neutral("response_body", one.report(model, failure, numbers))
        assert parsed(made) == parsed(replies.neutral("response_body", values))


def parsed(reply):
    from protos.ext_proc_pb2 import ProcessingResponse

    return ProcessingResponse.FromString(reply.SerializeToString())
