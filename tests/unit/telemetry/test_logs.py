"""The expected lines were printed by Go's ``slog`` for the same records."""

from __future__ import annotations

import io
import json
import logging
from datetime import UTC, datetime, timedelta, timezone

import pytest
import structlog

from extproc.telemetry import logs
from extproc.telemetry.levels import level_name, method_level, parse_level, threshold
from filter_config.redact import Secret

NOON = datetime(2026, 1, 2, 12, 0, 0, 345678, tzinfo=UTC)


@pytest.fixture(autouse=True)
def restored_logging():
    root, before = logging.getLogger(), structlog.get_config()
    handlers, level = root.handlers, root.level
    yield
    structlog.configure(**before)
    root.handlers, root.level = handlers, level


@pytest.fixture
def lines():
    """Configure, log through the given function, and return what was written."""

    def write(log, *, level=-4, style="text", now=NOON):
        stream = io.StringIO()
        logs.configure(level, style, stream=stream, clock=lambda: now)
        log(structlog.get_logger("test"))
        return stream.getvalue()

    return write


def test_a_text_line(lines):
    text = lines(lambda log: log.info("starting external processor", address=":1063"))
    assert text == 'time=2026-01-02T12:00:00.345Z level=INFO msg="starting external processor" address=:1063\n'


def test_the_zone_is_shown(lines):
    text = lines(lambda log: log.info("x"), now=NOON.astimezone(timezone(timedelta(hours=1))))
    assert text == "time=2026-01-02T13:00:00.345+01:00 level=INFO msg=x\n"


FIELDS = {
    "space": ("a b", '"a b"'),
    "empty": ("", '""'),
    "quotes": ('say "x"', r'"say \"x\""'),
    "backslash": (r"a\b", r"a\b"),
    "equals": ("a=b", '"a=b"'),
    "line feed": ("a\nb", r'"a\nb"'),
    "letter": ("é", "é"),
    "space that cannot be seen": ("a\u00a0b", r'"a\u00a0b"'),
    "integer": (5, "5"),
    "float": (1.5, "1.5"),
    "boolean": (True, "true"),
    "error": (ValueError("boom x"), '"boom x"'),
    "nothing": (None, "<nil>"),
    "list": (["a", "b c"], '"[a b c]"'),
    "tuple": (("a", 1), '"[a 1]"'),
    "mapping": ({"a": 1, "b": "c"}, '"map[a:1 b:c]"'),
    "bytes": (b"ab\xff", r"ab\xff"),
    "signs": ("<x>&", "<x>&"),
}


@pytest.mark.parametrize("name", FIELDS)
def test_fields_in_text(lines, name):
    value, shown = FIELDS[name]
    assert lines(lambda log: log.info("m", field=value)).endswith(f" msg=m field={shown}\n")


def test_a_name_is_quoted_like_a_value(lines):
    assert lines(lambda log: log.info("m", **{"a key": "v"})).endswith(' msg=m "a key"=v\n')


def test_a_json_line(lines):
    text = lines(lambda log: log.warning('m "q" <é>', k="v\n", n=5, l=["a"]), style="json")
    assert text == (
        '{"time":"2026-01-02T12:00:00.345678Z","level":"WARN","msg":"m \\"q\\" <é>","k":"v\\n","n":5,"l":["a"]}\n'
    )


def test_json_of_values_that_json_does_not_have(lines):
    text = lines(lambda log: log.info("m", error=ValueError("boom"), half="\ud800"), style="json")
    line = json.loads(text)
    assert line["error"] == "boom"
    assert line["half"] == "\ud800"


LEVELS = {
    "debug": ("debug", "DEBUG"),
    "info": ("info", "INFO"),
    "warning": ("warning", "WARN"),
    "error": ("error", "ERROR"),
}


@pytest.mark.parametrize("method", LEVELS)
def test_levels_in_lines(lines, method):
    assert f" level={LEVELS[method][1]} " in lines(lambda log: getattr(log, method)("m"))


PASSED = {
    -4: ["debug", "info", "warning", "error"],
    -3: ["info", "warning", "error"],
    0: ["info", "warning", "error"],
    2: ["warning", "error"],
    4: ["warning", "error"],
    5: ["error"],
    8: ["error"],
}


@pytest.mark.parametrize("level", PASSED)
def test_the_level_filters(lines, level):
    def log_all(log):
        for method in LEVELS:
            getattr(log, method)(method)

    written = [line.rpartition("msg=")[2] for line in lines(log_all, level=level).splitlines()]
    assert written == PASSED[level]


NAMES = {-8: "DEBUG-4", -4: "DEBUG", -2: "DEBUG+2", 0: "INFO", 2: "INFO+2", 4: "WARN", 8: "ERROR", 12: "ERROR+4"}


@pytest.mark.parametrize("level", NAMES)
def test_names_of_levels(level):
    assert level_name(level) == NAMES[level]


@pytest.mark.parametrize("level", [level for level in NAMES if level > -8])
def test_a_name_reads_back_as_its_level(level):
    assert parse_level(level_name(level)) == level


def test_levels_of_methods():
    assert [method_level(name) for name in ("debug", "warn", "exception", "unheard-of")] == [-4, 4, 8, 0]


def test_nothing_passes_a_level_above_all():
    assert threshold(1000) > logging.CRITICAL


def boom():
    raise ValueError("boom")


def test_an_exception_is_one_line_with_its_stack(lines):
    def fail(log):
        try:
            boom()
        except ValueError:
            log.exception("it failed")

    text = lines(fail)
    assert text.count("\n") == 1
    assert "level=ERROR" in text
    assert "ValueError: boom" in text
    assert "Traceback" in text


def test_an_exception_given_as_value(lines):
    text = lines(lambda log: log.error("it failed", exc_info=ValueError("boom")))
    assert "ValueError: boom" in text


SECRETS = {
    "typed": {"anything": Secret("hunter2")},
    "typed, nested": {"deep": {"list": [{"x": Secret("hunter2")}]}},
    "header by name": {"Authorization": "Bearer hunter2"},
    "key in snake case": {"access_token": "hunter2"},
    "key in camel case": {"credentialFileLiteral": "hunter2"},
    "nested mapping": {"headers": {"x-api-key": "hunter2"}},
}


@pytest.mark.parametrize("style", ["text", "json"])
@pytest.mark.parametrize("name", SECRETS)
def test_secrets_do_not_reach_the_stream(lines, name, style):
    text = lines(lambda log: log.info("m", **SECRETS[name]), style=style)
    assert "hunter2" not in text
    assert "[REDACTED]" in text


def test_bound_fields_are_redacted_and_in_order(lines):
    text = lines(lambda log: log.bind(request_id="r1", token="hunter2").info("m", host="h"))
    assert text.endswith("msg=m request_id=r1 token=[REDACTED] host=h\n")


def test_libraries_log_through_the_same_sink(lines):
    text = lines(lambda _: logging.getLogger("some.library").warning("watch %s out", 1))
    assert text == 'time=2026-01-02T12:00:00.345Z level=WARN msg="watch 1 out" logger=some.library\n'


def test_libraries_talking_about_themselves_are_not_heard(lines):
    assert lines(lambda _: logging.getLogger("some.library").info("hello")) == ""


def test_a_librarys_exception_keeps_its_stack(lines):
    def fail(_):
        try:
            boom()
        except ValueError:
            logging.getLogger("some.library").exception("oh")

    text = lines(fail)
    assert "level=ERROR msg=oh" in text
    assert "ValueError: boom" in text


def test_an_unknown_format_is_text(lines):
    assert lines(lambda log: log.info("m"), style="xml").startswith("time=")
