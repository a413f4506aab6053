"""From samples to a table: medians, added latency, targets, JSON."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.bench import page, results, table
from tests.bench.machine import Machine
from tests.bench.results import Figure, Figures, Report, RowState, Sample, added_latencies, ratio
from tests.bench.targets import TARGETS, Target, Verdict, regressions, verdicts

MACHINE = Machine(
    cpu="Abacus 9000",
    cores=2,
    memory_gib=4.0,
    kernel="Linux 1",
    python="CPython 3.11.0",
    envoy="1.40.0",
    packages={"grpcio": "1.75.0"},
    commit="abc",
    load=0.5,
)


def sample(row, column, turn=0, **figures):
    return Sample(row=row, column=column, turn=turn, figures={name: float(value) for name, value in figures.items()})


def report(*samples, rows=("envoy", "grpcio", "http2", "echo-http2"), **fields):
    states = [RowState(name=name, meaning=f"the row {name}") for name in rows]
    return Report(
        machine=MACHINE, started="2026-01-02 03:04 UTC", concurrency=2, rows=states, samples=[*samples], **fields
    )


@given(st.lists(st.floats(min_value=-1e9, max_value=1e9), min_size=1))
def test_the_median_lies_within_the_spread(values):
    figure = Figure.of(values)
    assert figure.low == min(values)
    assert figure.high == max(values)
    assert figure.low <= figure.median <= figure.high
    assert figure.count == len(values)


def test_rounds_become_one_figure():
    figures = Figures(
        report(*(sample("http2", "body-1m", turn, cpu_us=value) for turn, value in enumerate((30, 10, 50))))
    )
    assert figures.get("http2", "body-1m", "cpu_us") == Figure(median=30, low=10, high=50, count=3)
    assert figures.median("http2", "body-1m", "rate") is None


def test_latency_is_added_to_that_of_envoy_in_the_same_round():
    taken = [
        sample("envoy", "latency-1", 0, p50_ms=1, p99_ms=5, rate=100),
        sample("http2", "latency-1", 0, p50_ms=3, p99_ms=9, rate=50),
        sample("envoy", "latency-1", 1, p50_ms=10, p99_ms=50),
        sample("http2", "latency-1", 1, p50_ms=11, p99_ms=60),
    ]
    assert added_latencies(taken) == [
        sample("http2", "latency-1", 0, added_p50_ms=2, added_p99_ms=4),
        sample("http2", "latency-1", 1, added_p50_ms=1, added_p99_ms=10),
    ]


def test_without_envoy_alone_nothing_is_added():
    assert added_latencies([sample("http2", "latency-1", p50_ms=3, p99_ms=9)]) == []


@pytest.mark.parametrize(
    ("over", "under", "expected"), [(3.0, 2.0, 1.5), (None, 2.0, None), (3.0, None, None), (3.0, 0.0, None)]
)
def test_a_ratio_needs_both_sides(over, under, expected):
    assert ratio(over, under) == expected


def test_a_report_survives_the_way_through_its_file(tmp_path):
    before = report(
        sample("http2", "body-1m", cpu_us=1.5),
        sample("OpenAI", "translators", request_us=2),
        translators=[RowState(name="OpenAI", meaning="m")],
        faults=["grpcio, memory: it hung"],
        skipped=["reload, round 2 of 2"],
        quick=True,
        seconds=12.5,
    )
    results.write(before, tmp_path / "deep" / "report.json")
    assert results.read(tmp_path / "deep" / "report.json") == before
    assert json.loads((tmp_path / "deep" / "report.json").read_text())["samples"][0]["figures"] == {"cpu_us": 1.5}


def test_a_report_without_samples_is_valid_json(tmp_path):
    results.write(report(), tmp_path / "report.json")
    assert results.read(tmp_path / "report.json") == report()


def test_something_else_is_not_a_report(tmp_path):
    (tmp_path / "other.json").write_text('{"machine": 1}')
    with pytest.raises(msgspec.DecodeError):
        results.read(tmp_path / "other.json")


REACHED = (
    sample("grpcio", "body-0.6k", cpu_us=1000),
    sample("http2", "body-0.6k", cpu_us=200),
    sample("echo-http2", "body-0.6k", cpu_us=100),
    *(sample("http2", f"stream-{count}", cpu_us=28, late_p99_ms=12, resident_mb=150) for count in (16, 200, 1000)),
    *(sample("echo-http2", f"stream-{count}", cpu_us=14) for count in (16, 200, 1000)),
    sample("http2", "body-1m", cpu_us=3999),
    sample("http2", "reload", reload_p99_ms=18, steady_p99_ms=3),
)


def test_every_target_can_be_met():
    found = verdicts(Figures(report(*REACHED)))
    assert [verdict.name for verdict in found if not verdict.met] == []
    assert len(found) == len(TARGETS)


@pytest.mark.parametrize(
    ("missed", "worse"),
    [
        ("CPU per request, http2/grpcio", sample("grpcio", "body-0.6k", cpu_us=600)),
        ("CPU per request, http2/echo-http2", sample("echo-http2", "body-0.6k", cpu_us=99)),
        ("CPU per chunk, 16 streams, http2/echo-http2", sample("echo-http2", "stream-16", cpu_us=12)),
        ("CPU of a 1 MB request", sample("http2", "body-1m", cpu_us=4001)),
        ("lateness of chunks, 1,000 streams, p99", sample("http2", "stream-1000", cpu_us=28, late_p99_ms=50.5)),
        ("resident memory, 1,000 paced streams", sample("http2", "stream-1000", cpu_us=28, resident_mb=401)),
        ("longer wait during a reload, p99", sample("http2", "reload", reload_p99_ms=24, steady_p99_ms=3)),
    ],
)
def test_every_target_can_be_missed(missed, worse):
    others = [taken for taken in REACHED if (taken.row, taken.column) != (worse.row, worse.column)]
    found = {verdict.name: verdict for verdict in verdicts(Figures(report(*others, worse)))}
    assert found[missed].met is False
    assert found[missed].word == "MISSED"


def test_a_target_of_a_missing_row_is_not_judged():
    found = verdicts(Figures(report(sample("grpcio", "body-0.6k", cpu_us=1))))
    assert {verdict.word for verdict in found} == {"not measured"}


def test_a_limit_that_is_just_reached_is_met():
    target = Target(name="t", limit=2.0, unit="ms", read=lambda _: 2.0)
    assert verdicts(Figures(report()), (target,))[0].met is True


def test_an_earlier_report_shows_what_has_got_worse():
    before = Figures(report(sample("grpcio", "body-0.6k", cpu_us=100), sample("grpcio", "body-1m", cpu_us=100)))
    now = Figures(report(sample("grpcio", "body-0.6k", cpu_us=111), sample("grpcio", "body-1m", cpu_us=109)))
    words = {verdict.name.split(", ")[1]: verdict.word for verdict in regressions(now, before)}
    assert words["body-0.6k"] == "MISSED"
    assert words["body-1m"] == "met"
    assert words["body-100k"] == "not measured"


def test_the_table_has_a_line_for_each_figure_and_marks_what_is_envoys_own():
    taken = report(
        sample("envoy", "latency-1", p50_ms=0.5, p99_ms=2, rate=900),
        sample("http2", "latency-1", p50_ms=0.75, p99_ms=3, rate=700),
        rows=("envoy", "http2"),
    )
    grid = table.grid(taken, Figures(taken))
    assert grid == [
        ["median (low..high)", "envoy", "http2"],
        ["added latency p50, 1 in flight, ms", "= 0.50", "0.25"],
        ["added latency p99, 1 in flight, ms", "= 2.00", "1.00"],
        ["requests/s, 1 in flight", "900", "700"],
    ]


def test_a_row_that_the_build_lacks_is_named_as_such():
    taken = report(sample("grpcio", "body-1m", cpu_us=5000.4), rows=("grpcio",))
    taken.rows.append(RowState(name="http3", meaning="m", missing="no transport http3"))
    text = table.text(table.grid(taken, Figures(taken)))
    assert text.splitlines()[2].split() == ["not", "in", "this", "build"]
    assert text.splitlines()[3].split() == ["CPU", "per", "request,", "1", "MB,", "µs", "5000", "-"]


@pytest.mark.parametrize(
    ("figure", "digits", "shown"),
    [
        (Figure(median=1.25, low=1.0, high=2.0, count=3), 1, "1.2 (1.0..2.0)"),
        (Figure(median=1234.5, low=1234.5, high=1234.5, count=1), 0, "1234"),
        (Figure(median=-0.5, low=-2.0, high=0.5, count=2), 2, "-0.50 (-2.00..0.50)"),
    ],
)
def test_a_cell_shows_the_spread_where_there_is_one(figure, digits, shown):
    assert table.shown(figure, digits) == shown


def test_verdicts_are_shown_with_their_units():
    grid = table.verdict_grid(
        [
            Verdict(name="a", limit=4000.0, unit="µs", measured=3999.6),
            Verdict(name="b", limit=0.3, unit="", measured=0.314),
            Verdict(name="c", limit=50.0, unit="ms", measured=None),
        ]
    )
    assert grid[1:] == [
        ["a", "4,000 µs", "4,000 µs", "met"],
        ["b", "0.30", "0.31", "MISSED"],
        ["c", "50.0 ms", "-", "not measured"],
    ]


def test_the_page_says_where_its_figures_are_from_and_what_went_wrong(tmp_path):
    taken = report(
        *REACHED,
        sample("OpenAI", "translators", request_us=100, chunk_us=5),
        translators=[
            RowState(name="OpenAI", meaning="m"),
            RowState(name="Morse", meaning="m", missing="no translator"),
        ],
        faults=["grpcio, memory: it hung"],
    )
    written = page.write_docs(taken, tmp_path)
    text = written.read_text()
    for part in (
        "Abacus 9000, 2 cores",
        "| CPU of a 1 MB request | 4,000 µs | 3,999 µs | met |",
        "| CPU per request, 1 MB, µs | - | - | 3999 | - |",
        "| OpenAI | 100.0 | 5.0 |",
        "| Morse | not in this build | not in this build |",
        "- grpcio, memory: it hung",
    ):
        assert part in text
    assert results.read(tmp_path / page.DATA) == taken
