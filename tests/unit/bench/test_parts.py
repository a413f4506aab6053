"""The parts of the harness that carry load: rows, columns, the echo, paced streams, translators."""

import asyncio
import itertools
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extproc.exchange import names
from extproc.exchange.message_reader import read_message
from extproc.settings import Settings
from filter_config.load import decode
from protos.ext_proc_pb2 import STREAMED
from tests.bench import reload, translators, upstream
from tests.bench.__main__ import chosen
from tests.bench.answers import ANSWERS
from tests.bench.columns import FULL, QUICK, Column, columns
from tests.bench.echo import Echo
from tests.bench.loads import LoadFailed
from tests.bench.machine import Machine
from tests.bench.results import Report, RowState
from tests.bench.rows import ROWS, known_settings, missing
from tests.bench.runner import Runner
from tests.bench.streams import Pace, Streams, _Connection, percentile
from tests.bench.table import LINES
from tests.bench.targets import TARGETS
from tests.bench.translators import Subject
from tests.bench.upstream import Upstream
from tests.support.playbook import request_body, request_headers, response_body, response_headers

ROW = {row.name: row for row in ROWS}

# Rows


@pytest.mark.parametrize(
    ("row", "known", "reason"),
    [
        ("envoy", set(), ""),
        ("grpcio", set(), ""),
        ("http2", set(), "no setting transport"),
        ("http2", {"transport"}, ""),
        ("http2-2w", {"transport"}, "no setting workers"),
        ("http2-2w", {"transport", "workers"}, ""),
        ("echo-grpcio", set(), ""),
        ("echo-http2", set(), "no transport http2"),
    ],
)
def test_a_build_that_lacks_an_option_misses_the_row(row, known, reason):
    assert missing(ROW[row], known=known, engines=("grpcio",)) == reason


@pytest.mark.parametrize(
    ("row", "known", "flags"),
    [
        ("grpcio", set(), []),
        ("grpcio", {"transport"}, ["--transport", "grpcio"]),
        ("http2-2w", {"transport", "workers"}, ["--transport", "http2", "--workers", "2"]),
    ],
)
def test_a_row_names_what_the_build_lets_it_choose(row, known, flags):
    assert ROW[row].arguments(known) == flags


@pytest.mark.parametrize("row", [row for row in ROWS if row.kind == "processor"], ids=lambda row: row.name)
def test_this_build_takes_the_flags_of_the_rows_that_it_has(row):
    known = known_settings()
    if missing(row, known=known):
        pytest.skip("not in this build")
    Settings.parse([*row.arguments(known), "--config-path", "f"], {})


# Columns


@pytest.mark.parametrize("scale", [FULL, QUICK], ids=["full", "quick"])
def test_a_request_of_h2load_is_sent_on_each_of_its_connections(scale):
    assert min(scale.requests.values()) >= 16


def test_every_line_of_the_table_is_of_a_column_that_is_measured():
    assert {line.column for line in LINES} == {column.name for column in columns(FULL)}


def test_targets_read_columns_that_are_measured():
    asked = set()

    class Recorder:
        def median(self, row, column, name):
            asked.add((row, column))

    for target in TARGETS:
        target.read(Recorder())
    assert {row for row, _ in asked} <= set(ROW)
    assert {column for _, column in asked} <= {column.name for column in columns(FULL)}


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (None, ["a-1", "a-16", "b", "b-2"]),
        ("a", ["a-1", "a-16"]),
        ("b", ["b"]),
        ("b-2,a-1", ["a-1", "b-2"]),
    ],
)
def test_a_filter_takes_whole_names_and_families(wanted, found):
    assert chosen(wanted, ["a-1", "a-16", "b", "b-2"]) == found


def test_a_filter_that_names_nothing_is_refused():
    with pytest.raises(ValueError, match="'c' is none of a-1, b"):
        chosen("b,c", ["a-1", "b"])


# The runner


class FakeStage:
    """Sides are rows: the runner does not look into them."""

    def __init__(self):
        self.fresh = []

    def side(self, row, *, backends=0):
        stage = self

        class Side:
            def __init__(self):
                self.row = row

            def __enter__(self):
                stage.fresh.append((row.name, backends))
                return self

            def __exit__(self, *_):
                pass

            def settle(self):
                pass

        return Side()


def run_columns(*taken, rows=("grpcio", "http2"), seconds=60.0):
    machine = Machine(cpu="", cores=1, memory_gib=1, kernel="", python="", envoy="", packages={}, commit="", load=0)
    report = Report(machine=machine, started="", concurrency=1, rows=[RowState(name=name, meaning="") for name in rows])
    stage = FakeStage()
    runner = Runner(report, tools=None, deadline=time.monotonic() + seconds, say=lambda _: None)
    runner.run(stage, [ROW[name] for name in rows], taken)
    return report, stage


def column(name, measure, rounds=1, **more):
    return Column(name=name, title=name, measure=measure, rounds=rounds, **more)


def test_rows_take_turns_within_a_column_and_columns_within_a_round():
    report, stage = run_columns(column("a", lambda *_: {"x": 1.0}, rounds=2), column("b", lambda *_: {"x": 1.0}))
    visited = [(sample.turn, sample.column, sample.row) for sample in report.samples]
    assert visited == [
        (0, "a", "grpcio"),
        (0, "a", "http2"),
        (0, "b", "grpcio"),
        (0, "b", "http2"),
        (1, "a", "http2"),
        (1, "a", "grpcio"),
    ]
    assert stage.fresh == [("grpcio", 0), ("http2", 0)]


def test_a_round_may_go_through_the_rows_there_and_back():
    report, _ = run_columns(column("a", lambda *_: {"x": 1.0}, rounds=2, passes=3))
    assert [sample.turn for sample in report.samples] == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5]
    assert [sample.row for sample in report.samples] == ["grpcio", "http2", "http2", "grpcio"] * 3


def test_rows_that_are_compared_closely_are_measured_some_more_times_in_turn():
    near = column("a", lambda *_: {"x": 1.0}, rounds=2, close=frozenset(("http2", "echo-http2")))
    report, _ = run_columns(near, rows=("grpcio", "http2", "echo-http2"))
    there, back = ["http2", "echo-http2"], ["echo-http2", "http2"]
    first = [sample.row for sample in report.samples if sample.turn == 0]
    assert first == ["grpcio", *there, *back, *there, *back, *there]
    second = [sample.row for sample in report.samples if sample.turn == 1]
    assert second == [*back, "grpcio", *there, *back, *there, *back]


def test_a_fresh_column_starts_rows_of_its_own():
    report, stage = run_columns(column("memory", lambda *_: {"x": 1.0}, fresh=True, backends=5000), rows=("http2",))
    assert stage.fresh == [("http2", 5000)]
    assert len(report.samples) == 1


def test_a_row_that_fails_again_and_again_is_left_alone_and_the_others_go_on():
    def measure(side, _):
        if side.row.name == "grpcio":
            raise LoadFailed("it hung")
        return {"x": 1.0}

    report, _ = run_columns(column("a", measure, rounds=4))
    assert report.faults == ["grpcio, a: it hung"] * 2
    assert [sample.row for sample in report.samples] == ["http2"] * 4


def test_when_the_time_is_over_the_rest_is_skipped_and_said_so():
    report, _ = run_columns(column("a", lambda *_: {"x": 1.0}, rounds=2), seconds=-1.0)
    assert report.samples == []
    assert report.skipped == ["a, round 1 of 2", "a, round 2 of 2"]


# The echo


@pytest.mark.parametrize(
    "message",
    [request_headers({":path": "/"}), request_body(b"{}"), response_headers({":status": "200"}), response_body(b"{}")],
    ids=lambda message: message.WhichOneof("request"),
)
def test_the_echo_answers_each_message_with_nothing_to_do(message):
    reply = Echo().open().feed(message.SerializeToString())
    kind = message.WhichOneof("request")
    assert reply.WhichOneof("response") == kind
    assert not getattr(reply, kind).HasField("response")
    assert not reply.HasField("mode_override")


def test_the_echo_asks_for_the_pieces_of_a_stream():
    headers = response_headers({":status": "200", "content-type": "text/event-stream"})
    assert Echo().open().feed(headers.SerializeToString()).mode_override.response_body_mode == STREAMED


# Paced streams


async def stream_from_stand_in(count, pace, connection=Upstream):
    loop = asyncio.get_running_loop()
    server = await loop.create_server(connection, "127.0.0.1", 0)
    streams = Streams(server.sockets[0].getsockname()[1], pace)
    await streams.open(count, spread=0.0)
    assert await streams.all_begun(10.0)
    assert await streams.all_ended(10.0)
    await streams.close()
    server.close()
    await server.wait_closed()
    return streams


def test_every_event_of_every_stream_is_seen_with_its_lateness():
    streams = asyncio.run(stream_from_stand_in(5, Pace(chunks=4, gap=0.001)))
    assert (streams.finished, streams.failed) == (5, 0)
    assert len(streams.lateness) == len(streams.arrivals) == 20
    assert min(streams.lateness) >= 0


class _Socket:
    def write(self, data):
        pass

    def close(self):
        pass


@given(st.sets(st.integers(min_value=13, max_value=1100)))
def test_events_may_be_cut_anywhere(cuts):
    stamps = (1, 10**15, 2 * 10**15)
    whole = upstream._STREAM_HEAD + b"".join(upstream._EVENT % stamp for stamp in stamps) + upstream._LAST
    streams = Streams(0, Pace(chunks=3, gap=0.1))
    connection = _Connection(streams, b"")
    connection.connection_made(_Socket())
    edges = [0, *sorted(cut for cut in cuts if cut < len(whole)), len(whole)]
    for start, end in itertools.pairwise(edges):
        connection.data_received(whole[start:end])
    arrived = [now - late for now, late in zip(streams.arrivals, streams.lateness, strict=True)]
    assert arrived == list(stamps)
    assert (streams.finished, streams.failed) == (1, 0)


class _Refusing(asyncio.Protocol):
    def connection_made(self, transport):
        transport.write(b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n")


def test_a_refused_stream_has_failed():
    streams = asyncio.run(stream_from_stand_in(2, Pace(chunks=3, gap=0.001), _Refusing))
    assert (streams.finished, streams.failed, len(streams.lateness)) == (0, 2, 0)


@pytest.mark.parametrize(("share", "value"), [(0.0, 1), (0.5, 51), (0.99, 100), (1.0, 100)])
def test_a_percentile_is_a_value_that_was_seen(share, value):
    assert percentile(list(range(100, 0, -1)), share) == value


def test_a_percentile_of_nothing_is_refused():
    with pytest.raises(ValueError, match="no values"):
        percentile([], 0.5)


def test_events_count_for_the_window_in_which_they_arrive():
    assert reload.within([1, 5, 9, 12], [10, 50, 90, 120], [(1, 4), (9, 11)]) == [10, 90]


# Configs and translators


def test_a_config_for_reloads_has_so_many_backends_and_no_problem():
    from tests.bench.stage import Route, Rule, filter_config

    text = filter_config(Route(name="bench", rules=(Rule(backends=()),)), backends=50, generation=7)
    decoded = decode(text.encode())
    assert decoded.problems == ()
    assert len(decoded.config.backends) == 50
    assert text.count("sk-bench-7") == 50


@pytest.mark.parametrize("state", translators.states(), ids=lambda state: state.name)
def test_a_translated_answer_is_one_that_can_be_measured(state):
    if state.missing:
        pytest.skip(state.missing)
    subject = Subject(translators.PAIRS[state.name], chunks=3)
    assert subject.per_request(2) > 0
    assert subject.per_chunk(2) > 0


def test_a_refused_request_is_not_measured(monkeypatch):
    monkeypatch.setitem(ANSWERS, "OpenAI", ANSWERS["AWSBedrock"])
    with pytest.raises(LoadFailed, match="the cost is 0, not 412"):
        Subject(translators.PAIRS["OpenAI"], chunks=1)


def test_the_attempt_carries_the_id_of_its_request():
    script = translators.script(translators.PAIRS["OpenAI"], ANSWERS["OpenAI"], stream=True)
    assert read_message(script.attempt).headers[names.INTERNAL_REQUEST_ID] == "req-1-bench"
