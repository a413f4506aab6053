"""Spans as the exchange tells of them: parents and headers, what is recorded when, and that no fault gets out."""

from __future__ import annotations

import itertools

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.sdk.trace import SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, DEFAULT_ON
from opentelemetry.trace import SpanKind, StatusCode

from extproc.telemetry.otel.propagators import propagator
from extproc.telemetry.redaction import REDACTED
from extproc.telemetry.tracing.base import Event, Failure, TracedRequest
from extproc.telemetry.tracing.recorder import MAX_ATTRIBUTES, MAX_ERROR_BODY, SpanTracer
from extproc.telemetry.tracing.views import AnswerView, RequestView
from extproc.usage import NO_USAGE, TokenUsage

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = "b7ad6b7169203331"
USAGE = TokenUsage(input=3, output=4, total=7)


class Convention:
    kind = "client"
    unlimited = False

    def name(self, request):
        return f"asks {request.model}"

    def request(self, request):
        return {"asked": request.text, "mapped": "by the convention"}

    def bound(self, provider):
        return {"provider": provider}

    def first_piece(self, request):
        return Event("first", {"of": request.model})

    def answer(self, request, answer, usage, model):
        return {"answered": answer.text, "tokens": usage.total or 0, "by": model}

    def events(self, request, answer):
        return [Event("last", {})]

    def failure(self, status, body):
        return Failure(f"error {status}", {"error.type": str(status)}, Event("exception", {"body": body}))


class Reading:
    def __init__(self, stream):
        self.stream = stream
        self.pieces = []

    def feed(self, piece):
        self.pieces.append(piece)

    def close(self):
        return AnswerView(text=f"{b''.join(self.pieces).decode()} {'streamed' if self.stream else 'whole'}")


class Reader:
    def request(self, request):
        return RequestView(
            operation=request.operation, model=request.model, stream=request.stream, text=request.body.decode()
        )

    def answer(self, request, *, stream):
        return Reading(stream)


class Traced:
    """A tracer over the SDK's, and the spans that have ended."""

    def __init__(self, *, convention=None, reader=None, attributes=(), sampler=DEFAULT_ON, propagators="", **limits):
        self.exporter = InMemorySpanExporter()
        provider = TracerProvider(sampler=sampler, span_limits=SpanLimits(**limits), shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.tracer = SpanTracer(
            provider.get_tracer("test"),
            propagator=propagator({"OTEL_PROPAGATORS": propagators}),
            convention=convention or Convention(),
            readers={"chat": reader or Reader()},
            attributes=attributes,
        )

    def start(self, headers=None, **fields):
        return self.tracer.start(request(headers, **fields))

    @property
    def ended(self):
        (span,) = self.exporter.get_finished_spans()
        return span


def request(headers=None, **fields):
    given = {"operation": "chat", "model": "m", "stream": False, "body": b"Hello?", "content_type": "", **fields}
    return TracedRequest(headers=headers or {}, **given)


@pytest.fixture
def traced():
    return Traced()


def parent(flags="01"):
    return {"traceparent": f"00-{TRACE}-{PARENT}-{flags}"}


class TestPropagation:
    def test_a_span_is_the_child_of_the_one_that_the_headers_name(self, traced):
        headers, span = traced.start(parent())
        span.end(NO_USAGE, "", "complete")
        ended = traced.ended
        assert f"{ended.context.trace_id:032x}" == TRACE
        assert f"{ended.parent.span_id:016x}" == PARENT
        assert dict(headers) == {"traceparent": f"00-{TRACE}-{ended.context.span_id:016x}-01"}

    def test_without_a_parent_it_is_a_root(self, traced):
        headers, span = traced.start()
        span.end(NO_USAGE, "", "complete")
        context = traced.ended.context
        assert traced.ended.parent is None
        version, trace, at, _ = dict(headers)["traceparent"].split("-")
        assert (version, trace, at) == ("00", f"{context.trace_id:032x}", f"{context.span_id:016x}")

    def test_state_goes_on(self, traced):
        headers, _ = traced.start({**parent(), "tracestate": "congo=t61rcWkgMzE,rojo=00f067aa0ba902b7"})
        assert dict(headers)["tracestate"] == "congo=t61rcWkgMzE,rojo=00f067aa0ba902b7"

    def test_no_state_is_no_header(self, traced):
        headers, _ = traced.start({**parent(), "tracestate": ""})
        assert dict(headers).keys() == {"traceparent"}

    def test_baggage_goes_on_as_it_was_written(self, traced):
        baggage = "userId=Am%C3%A9lie;private,serverNode=DF 28"
        headers, _ = traced.start({**parent(), "baggage": baggage})
        assert dict(headers)["baggage"] == baggage

    def test_baggage_goes_on_without_a_trace(self, traced):
        headers, _ = traced.start({"baggage": "a=1"})
        assert dict(headers)["baggage"] == "a=1"

    def test_only_what_is_configured_is_passed_on(self):
        headers, span = Traced(propagators="baggage").start({**parent(), "baggage": "a=1"})
        assert dict(headers) == {"baggage": "a=1"}
        assert span is not None

    def test_none_passes_nothing_on(self):
        headers, _ = Traced(propagators="none").start({**parent(), "baggage": "a=1"})
        assert headers == ()

    def test_a_request_that_its_parent_does_not_sample_is_passed_on_unrecorded(self, traced):
        headers, span = traced.start({**parent("00"), "tracestate": "a=1", "baggage": "b=2"})
        assert span is None
        version, trace, at, flags = dict(headers)["traceparent"].split("-")
        assert (version, trace, flags) == ("00", TRACE, "00")
        assert at != PARENT
        assert (dict(headers)["tracestate"], dict(headers)["baggage"]) == ("a=1", "b=2")

    def test_a_request_that_is_not_sampled_is_not_read(self):
        class Unread(Reader):
            def request(self, request):
                raise AssertionError("it was read")

        headers, span = Traced(sampler=ALWAYS_OFF, reader=Unread()).start()
        assert (span, dict(headers).keys()) == (None, {"traceparent"})

    @given(st.dictionaries(st.sampled_from(["traceparent", "tracestate", "baggage"]), st.text()))
    def test_whatever_headers_say_a_span_is_started(self, headers):
        assert Traced().start(headers).span is not None

    def test_a_header_that_is_not_one_of_a_trace_is_no_parent(self, traced):
        _, span = traced.start({"traceparent": f"00-{'0' * 32}-{PARENT}-01"})
        span.end(NO_USAGE, "", "complete")
        assert traced.ended.parent is None


class TestARequest:
    def test_name_kind_and_attributes_are_those_of_the_convention(self, traced):
        traced.start().span.end(NO_USAGE, "", "complete")
        span = traced.ended
        assert (span.name, span.kind) == ("asks m", SpanKind.CLIENT)
        assert span.attributes["asked"] == "Hello?"

    def test_mapped_headers_are_attributes_also_when_empty_and_go_before_others(self):
        traced = Traced(attributes=(("x-a", "a"), ("x-b", "b"), ("x-c", "c"), ("x-d", "mapped")))
        traced.start({"x-a": "1", "x-b": "", "x-d": "by a header"}).span.end(NO_USAGE, "", "complete")
        attributes = traced.ended.attributes
        assert (attributes["a"], attributes["b"], attributes["mapped"]) == ("1", "", "by a header")
        assert "c" not in attributes

    def test_an_operation_without_a_reader_has_mapped_headers_too(self):
        traced = Traced(attributes=(("x-a", "a"),))
        _, span = traced.start({"x-a": "1"}, operation="image_generation", model="painter")
        span.answered(200)
        span.piece(b"an image")
        span.end(NO_USAGE, "", "complete")
        assert traced.ended.name == "asks painter"
        assert traced.ended.attributes["a"] == "1"
        assert traced.ended.status.status_code is StatusCode.OK

    def test_the_provider_is_that_of_the_last_attempt(self, traced):
        _, span = traced.start()
        span.bound("openai")
        span.bound("aws.bedrock")
        span.end(NO_USAGE, "", "complete")
        assert traced.ended.attributes["provider"] == "aws.bedrock"

    def test_of_very_many_attributes_the_first_and_the_last_are_kept(self):
        class Wide(Convention):
            def request(self, request):
                return {f"a{n}": n for n in range(50_000)}

        traced = Traced(convention=Wide(), max_span_attributes=SpanLimits.UNSET)
        traced.start().span.end(NO_USAGE, "", "complete")
        kept = [name for name in traced.ended.attributes if name[1:].isdigit()]
        assert len(kept) == MAX_ATTRIBUTES
        assert (kept[0], kept[-1]) == ("a0", "a49999")

    def test_limits_hold(self):
        traced = Traced(attributes=tuple((f"x-{n}", f"a{n}") for n in range(20)), max_span_attributes=5)
        traced.start({f"x-{n}": "v" for n in range(20)}).span.end(NO_USAGE, "", "complete")
        assert len(traced.ended.attributes) == 5


def answered(traced, *pieces, status=200, ending="complete", stream=False):
    _, span = traced.start(stream=stream)
    span.bound("openai")
    span.answered(status)
    for piece in pieces:
        span.piece(piece)
    span.end(USAGE, "m-1", ending)
    return traced.ended


class TestAnAnswer:
    def test_it_is_recorded_and_the_status_is_ok(self, traced):
        span = answered(traced, b"Hel", b"lo!")
        assert {"answered": "Hello! whole", "tokens": 7, "by": "m-1"}.items() <= span.attributes.items()
        assert span.status.status_code is StatusCode.OK
        assert [event.name for event in span.events] == ["last"]

    def test_a_stream_has_an_event_at_its_first_piece(self, traced):
        span = answered(traced, b"", b"Hel", b"lo!", stream=True)
        assert span.attributes["answered"] == "Hello! streamed"
        first, last = span.events
        assert (first.name, dict(first.attributes), last.name) == ("first", {"of": "m"}, "last")
        assert span.start_time <= first.timestamp <= last.timestamp <= span.end_time

    def test_the_event_is_of_the_time_of_the_piece(self, traced):
        clock = iter([7, 99])
        _, span = traced.start(stream=True)
        span.answered(200)
        sdk = span._span
        add = sdk.add_event
        sdk.add_event = lambda name, attributes: add(name, attributes, timestamp=next(clock))
        span.piece(b"a")
        assert [event.timestamp for event in sdk.events] == [7]
        span.piece(b"b")
        assert [event.timestamp for event in sdk.events] == [7]

    def test_an_error_is_the_convention_s(self, traced):
        span = answered(traced, b'{"error":', b'"busy"}', status=429)
        assert (span.status.status_code, span.status.description) == (StatusCode.ERROR, "error 429")
        assert span.attributes["error.type"] == "429"
        assert [dict(event.attributes) for event in span.events] == [{"body": '{"error":"busy"}'}]
        assert "answered" not in span.attributes

    def test_of_an_error_so_much_is_kept(self, traced):
        span = answered(traced, *[b"x" * 10_000] * 10, status=500)
        (event,) = span.events
        assert len(event.attributes["body"]) == MAX_ERROR_BODY

    def test_an_error_does_not_quote_credentials(self):
        """Neither the client's nor ours, nor what else looks like one."""
        traced = Traced()
        _, span = traced.start({"authorization": "Bearer of-the-client", "x-api-key": "the-other-one"})
        span.conceal(["Bearer injected-first", "short"])
        span.conceal(["injected-second"])
        span.answered(401)
        for piece in (
            b"no: of-the-cli",
            b"ent the-other-one injected-first injected-second short ?key=in-the-query&a=b",
        ):
            span.piece(piece)
        span.end(NO_USAGE, "", "complete")
        (event,) = traced.ended.events
        assert event.attributes["body"] == f"no: {' '.join([REDACTED] * 4)} short ?key={REDACTED}&a=b"

    def test_an_error_that_is_no_text(self, traced):
        (event,) = answered(traced, b"\xff\xfe", status=500).events
        assert event.attributes["body"] == "\ufffd\ufffd"

    def test_an_error_in_a_stream_s_place_has_no_first_piece(self, traced):
        span = answered(traced, b"no", status=503, stream=True)
        assert [event.name for event in span.events] == ["exception"]

    def test_an_answer_of_ours_replaces_what_came_before(self, traced):
        _, span = traced.start()
        span.answered(200)
        span.piece(b"half")
        span.refused(502, b"unreadable")
        span.end(NO_USAGE, "", "failed")
        ended = traced.ended
        assert (ended.status.status_code, ended.status.description) == (StatusCode.ERROR, "error 502")
        assert [dict(event.attributes) for event in ended.events] == [{"body": "unreadable"}]
        assert "answered" not in ended.attributes

    def test_a_refusal_before_any_backend(self, traced):
        _, span = traced.start()
        span.refused(401, b"no key")
        span.end(NO_USAGE, "", "complete")
        assert traced.ended.status.description == "error 401"

    def test_the_answer_to_our_refusal_may_pass_by_again(self, traced):
        _, span = traced.start()
        span.refused(401, b"no key")
        span.answered(401)
        span.piece(b"no key")
        span.end(NO_USAGE, "", "complete")
        (event,) = traced.ended.events
        assert event.attributes["body"] == "no key"

    def test_an_answer_that_broke_off_shows_what_came(self, traced):
        span = answered(traced, b"Hel", ending="failed", stream=True)
        assert span.attributes["answered"] == "Hel streamed"
        assert (span.status.status_code, span.status.description) == (StatusCode.ERROR, "error 0")
        assert [event.name for event in span.events] == ["first", "exception"]

    def test_a_client_that_left_is_no_error_of_the_backend(self, traced):
        span = answered(traced, b"Hel", ending="cancelled", stream=True)
        assert span.status.status_code is StatusCode.UNSET
        assert span.attributes["error.type"] == "client_cancelled"
        assert span.attributes["answered"] == "Hel streamed"
        assert [event.name for event in span.events] == ["first"]

    def test_a_client_that_left_before_any_answer(self, traced):
        traced.start().span.end(NO_USAGE, "", "cancelled")
        assert traced.ended.attributes["error.type"] == "client_cancelled"
        assert traced.ended.status.status_code is StatusCode.UNSET

    def test_a_client_that_left_in_the_middle_of_an_error(self, traced):
        assert answered(traced, b"no", status=500, ending="cancelled").status.description == "error 500"

    def test_without_an_answer_it_is_an_error(self, traced):
        traced.start().span.end(NO_USAGE, "", "complete")
        assert traced.ended.status.description == "error 0"

    def test_after_the_end_nothing_is_recorded(self, traced):
        _, span = traced.start()
        span.end(NO_USAGE, "", "cancelled")
        span.bound("late")
        span.answered(200)
        span.piece(b"late")
        span.refused(500, b"late")
        span.end(USAGE, "late", "complete")
        ended = traced.ended
        assert "provider" not in ended.attributes
        assert ended.status.status_code is StatusCode.UNSET

    @given(st.binary(max_size=200), st.lists(st.integers(0, 200), max_size=5), st.sampled_from([200, 500]))
    def test_any_cut_gives_the_same_span(self, body, cuts, status):
        edges = [0, *sorted(min(cut, len(body)) for cut in cuts), len(body)]
        pieces = [body[start:end] for start, end in itertools.pairwise(edges)]

        class Bytes(Reader):
            def answer(self, request, *, stream):
                return Kept(stream)

        whole, cut = (answered(Traced(reader=Bytes()), *data, status=status) for data in ([body], pieces))
        assert dict(whole.attributes) == dict(cut.attributes)
        assert [dict(event.attributes) for event in whole.events] == [dict(event.attributes) for event in cut.events]


class Kept(Reading):
    def close(self):
        return AnswerView(text=b"".join(self.pieces).hex())


FAULTS = {
    "the name": (("name",), (), "describe"),
    "attributes of the request": (("request",), (), "describe"),
    "the provider": (("bound",), (), "bound"),
    "the first piece": (("first_piece",), (), "piece"),
    "attributes of the answer": (("answer",), (), "_conclude"),
    "events": (("events",), (), "_conclude"),
    "the view of the request": ((), ("request",), "describe"),
    "the reader of the answer": ((), ("answer",), "answered"),
}


class BrokenConvention(Convention):
    def __init__(self, where):
        for name in where:
            setattr(self, name, fail)


class BrokenReader(Reader):
    def __init__(self, where):
        for name in where:
            setattr(self, name, fail)


def fail(*_, **__):
    raise KeyError("a fault")


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_told_once_and_harms_nothing_else(name):
    convention, reader, step = FAULTS[name]
    traced = Traced(convention=BrokenConvention(convention), reader=BrokenReader(reader), attributes=(("x-a", "a"),))
    with structlog.testing.capture_logs() as logs:
        for _ in range(3):
            _, span = traced.start({"x-a": "1"}, stream=True)
            span.bound("openai")
            span.answered(200)
            span.piece(b"Hello!")
            span.end(USAGE, "m", "complete")
    spans = traced.exporter.get_finished_spans()
    assert len(spans) == 3
    assert all(span.attributes["a"] == "1" for span in spans)
    assert all(span.status.status_code is StatusCode.OK for span in spans)
    assert [(entry["event"], entry["step"], entry["error"]) for entry in logs] == [
        ("a span is incomplete", step, "KeyError")
    ]


def test_a_fault_in_telling_a_failure_still_ends_the_span():
    traced = Traced(convention=BrokenConvention(["failure"]))
    with structlog.testing.capture_logs() as logs:
        span = answered(traced, b"no", status=500)
    assert span.end_time is not None
    assert [entry["step"] for entry in logs] == ["_conclude"]


def test_a_propagator_that_fails_is_told_once_and_the_request_goes_on():
    traced = Traced()
    traced.tracer._propagator.extract = fail
    with structlog.testing.capture_logs() as logs:
        assert [traced.start() for _ in range(2)] == [((), None)] * 2
    assert [entry["step"] for entry in logs] == ["start"]
