"""Builtins to structs: conversions, spellings of keys, and every wrong value with its path."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from filter_config.decode import did_you_mean, parse_time, read, shown
from filter_config.load import decode
from filter_config.model import ZERO_TIME, BundleIndex, Config, Document, Model
from filter_config.problems import MAX_REPEATS, Findings, Problem


def problems(text: str) -> list[str]:
    return [str(problem) for problem in decode(text.encode()).problems]


def config(text: str) -> Config:
    decoded = decode(text.encode())
    assert decoded.config is not None, decoded.problems
    return decoded.config


# --- scalars in text fields ---

VERSIONS = {
    "text": ("abc", "abc"),
    "float": ("1.0", "1"),
    "float with a zero": ("1.10", "1.1"),
    "hexadecimal": ("0x10", "16"),
    "octal": ("010", "8"),
    "exponent": ("1e3", "1000"),
    "yes": ("yes", "true"),
    "on": ("on", "true"),
    "n": ("n", "false"),
    "long digit string": ("12345678901234567890123", "1.2345679e+22"),
    "date": ("2024-01-02", "2024-01-02"),
    "time": ("12:30:45", "12:30:45"),
    "null": ("null", ""),
    "tilde": ("~", ""),
    "nothing": ("", ""),
    "quoted": ("'1.0'", "1.0"),
}


@pytest.mark.parametrize(("written", "read_as"), VERSIONS.values(), ids=VERSIONS)
def test_text_field(written, read_as):
    assert config(f"version: {written}\n").version == read_as


@pytest.mark.parametrize(
    ("written", "read_as"),
    [("1.0", "1"), ("true", "true"), ("12345678901234567890123", "1.2345679e+22"), ("null", ""), ('"yes"', "yes")],
)
def test_text_field_in_json(written, read_as):
    assert config(f'{{"version": {written}}}').version == read_as


def test_numbers_in_keys_and_tokens_are_text_too():
    backend = config("backends: [{name: 1, auth: {apiKey: {key: 0123}}}]").backends[0]
    assert backend.name == "1"
    assert backend.auth.api_key.key.reveal() == "83"


# --- booleans ---


@pytest.mark.parametrize(("written", "value"), [("true", True), ("yes", True), ("off", False), ("null", False)])
def test_boolean_field(written, value):
    override = f"{{headerName: x, fallbackToConfigured: {written}}}"
    auth = config(f"backends: [{{auth: {{apiKey: {{key: k}}, credentialOverride: {override}}}}}]").backends[0].auth
    assert auth.credential_override.fallback_to_configured is value


@pytest.mark.parametrize(
    ("written", "got"),
    [("'true'", "a text"), ("1", "a number"), ("[]", "a list"), ("{}", "a mapping")],
)
def test_not_a_boolean(written, got):
    override = f"{{fallbackToConfigured: {written}}}"
    found = decode(f"backends: [{{auth: {{apiKey: {{key: k}}, credentialOverride: {override}}}}}]".encode())
    assert found.config is None
    assert (
        Problem(
            path="backends[0].auth.credentialOverride.fallbackToConfigured",
            message=f"expected a boolean, got {got}",
            fix="write true or false, without quotes",
        )
        in found.problems
    )


# --- keys ---


def test_keys_match_in_any_case_and_say_so():
    found = decode(b"VERSION: v\nBackends: [{NAME: a, Schema: {name: OpenAI}}]")
    assert found.config.version == "v"
    assert found.config.backends[0].name == "a"
    assert [str(problem) for problem in found.problems] == [
        "backends: warning: 'Backends' is read as backends; write backends",
        "backends[0].name: warning: 'NAME' is read as name; write name",
        "backends[0].schema: warning: 'Schema' is read as schema; write schema",
        "version: warning: 'VERSION' is read as version; write version",
    ]


def test_of_two_spellings_the_alphabetically_later_wins():
    found = decode(b"version: second\nVersion: first")
    assert found.config.version == "second"
    assert [str(problem) for problem in found.problems] == [
        "version: warning: 'Version' is read as version; write version",
        "version: warning: 'version' and 'Version' are the same key; the last is used; keep one",
    ]


def test_boolean_words_as_keys():
    found = decode(b"modelsByHost: {y: [], off: []}")
    assert set(found.config.models_by_host) == {"true", "false"}


def test_repeated_key():
    found = decode(b"version: a\nversion: b")
    assert found.config.version == "b"
    assert problems("version: a\nversion: b") == [
        "warning: line 2: key 'version' is given twice in one mapping; the last one is used; keep one",
    ]


def test_unknown_keys_are_ignored_at_every_level_and_reported():
    found = decode(
        b"schema: x\nfoo: {bar: 1}\nbackend: []\nbackends: [{name: a, weight: 1, schema: {name: OpenAI, names: x}}]\n"
        b"llmRequestCosts: [{metadataKey: k, type: InputToken, routeName: r, costs: 1}]",
    )
    assert found.config.backends[0].name == "a"
    assert found.config.llm_request_costs[0].metadata_key == "k"
    assert {problem.severity for problem in found.problems} == {"warning"}
    assert [str(problem) for problem in found.problems] == [
        "backend: warning: unknown key 'backend' is ignored; did you mean backends?",
        "backends[0].schema.names: warning: unknown key 'names' is ignored; did you mean name?",
        "backends[0].weight: warning: unknown key 'weight' is ignored; remove it",
        "foo: warning: unknown key 'foo' is ignored; remove it",
        "llmRequestCosts[0].costs: warning: unknown key 'costs' is ignored; remove it",
        "schema: warning: unknown key 'schema' is ignored; remove it",
    ]


@pytest.mark.parametrize(
    ("word", "question"),
    [("apikey2", "did you mean apiKey?"), ("AZUREAPIKEYS", "did you mean azureAPIKey?"), ("zzz", ""), ("x" * 100, "")],
)
def test_did_you_mean(word, question):
    assert did_you_mean(word, ("apiKey", "azureAPIKey")) == question


# --- wrong values, all at once ---


def test_every_wrong_value_is_reported_with_its_path():
    found = decode(
        b"""
version: [1]
uuid: {}
backends:
- name: [a]
  schema: OpenAI
  auth: {apiKey: {key: [x]}, aws: 5}
  httpHeaderMutation: {set: x, remove: [[y]]}
- 7
- auth: []
modelsByHost: []
models: {}
mcpConfig: {routes: [{backends: [{toolSelector: {include: x}}]}]}
llmRequestCosts: [{routeName: [], type: CEL, cel: {}}]
""",
    )
    assert found.config is None
    errors = [(problem.path, problem.message) for problem in found.problems if problem.severity == "error"]
    assert errors == [
        ("version", "expected a text, got a list"),
        ("uuid", "expected a text, got a mapping"),
        ("backends[0].name", "expected a text, got a list"),
        ("backends[0].schema", "expected a mapping, got a text"),
        ("backends[0].auth.apiKey.key", "expected a text, got a list"),
        ("backends[0].auth.aws", "expected a mapping, got a number"),
        ("backends[0].httpHeaderMutation.set", "expected a list, got a text"),
        ("backends[0].httpHeaderMutation.remove[0]", "expected a text, got a list"),
        ("backends[1]", "expected a mapping, got a number"),
        ("backends[2].auth", "expected a mapping, got a list"),
        ("modelsByHost", "expected a mapping, got a list"),
        ("models", "expected a list, got a mapping"),
        ("mcpConfig.routes[0].backends[0].toolSelector.include", "expected a list, got a text"),
        ("llmRequestCosts[0].routeName", "expected a text, got a list"),
        ("llmRequestCosts[0].cel", "expected a text, got a mapping"),
    ]


def test_what_could_not_be_read_is_not_judged_again():
    found = decode(
        b"backends: [{name: [a], schema: 5, auth: {azureAPIKey: 5}}, {name: b, schema: {name: OpenAI}, auth: 5}, 7]\n"
        b"globalLLMRequestCosts: [{metadataKey: [], type: [], cel: []}, 7]",
    )
    assert {problem.severity for problem in found.problems} == {"error"}


def test_a_wrong_value_is_not_quoted():
    assert "sk-secret" not in str(decode(b"backends: [{auth: {apiKey: sk-secret}}]").problems)


@pytest.mark.parametrize("data", [b"[]", b"text", b"5", b"true"])
def test_top_level_must_be_a_mapping(data):
    found = decode(data)
    assert found.config is None
    assert found.problems[0].message.startswith("expected a mapping, got ")


@pytest.mark.parametrize("data", [b"", b"null", b"{}", b"# c\n"])
def test_an_empty_document_is_a_zero_config(data):
    assert decode(data).config == Config()
    assert decode(data).problems == ()


def test_null_is_the_zero_value_everywhere():
    found = config("version: ~\nbackends: [~, {schema: ~, auth: ~}]\nmodels: ~\nmodelsByHost: {a: ~}\nmcpConfig: ~")
    assert found.version == ""
    assert len(found.backends) == 2
    assert found.backends[1].auth is None
    assert found.models == ()
    assert found.models_by_host == {"a": ()}
    assert found.mcp_config is None


def test_many_findings_are_bounded_and_counted():
    found = decode(("backends:\n" + "- {weight: 1, name: a}\n" * (MAX_REPEATS + 5)).encode())
    warnings = [problem for problem in found.problems if problem.path.endswith(".weight")]
    assert len(warnings) == MAX_REPEATS
    assert "more problems of severity warning" in found.problems[-1].message
    assert found.config is not None


def test_integers():
    findings = Findings()
    read_index = read(
        BundleIndex,
        {"parts": [{"sizeBytes": 7}, {"sizeBytes": 7.0}, {"sizeBytes": None}, {"sizeBytes": "7"}, {"sizeBytes": True}]},
        findings,
    )
    assert [part.size_bytes for part in read_index.parts] == [7, 7, 0, 0, 0]
    assert [problem.path for problem in findings.closed()] == ["parts[3].sizeBytes", "parts[4].sizeBytes"]


def test_a_field_of_a_new_kind_is_an_error_at_once():
    class Strange(Document, frozen=True, kw_only=True):
        value: complex = 0j

    with pytest.raises(TypeError, match="no reader for"):
        read(Strange, {}, Findings())


def test_long_texts_are_cut_in_messages():
    assert shown("x" * 100) == repr("x" * 80 + "…")


# --- models ---

MODELS = {
    "emitted": "{CreatedAt: '2024-01-02T03:04:05Z', Name: m, OwnedBy: o}",
    "camel case": "{createdAt: 2024-01-02T03:04:05Z, name: m, ownedBy: o}",
    "lower case": "{createdat: '2024-01-02T05:04:05+02:00', name: m, ownedby: o}",
    "upper case": '{"CREATEDAT": "2024-01-02T03:04:05.000Z", "NAME": "m", "OWNEDBY": "o"}',
}


@pytest.mark.parametrize("written", MODELS.values(), ids=MODELS)
def test_model_keys_in_any_case_are_all_right(written):
    found = decode(f"models: [{written}]".encode())
    assert found.problems == ()
    assert found.config.models == (Model(name="m", owned_by="o", created_at=datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC)),)


def test_snake_case_is_another_key():
    found = decode(b"models: [{Name: m, created_at: '2024-01-02T03:04:05Z'}]")
    assert found.config.models[0].created_at == ZERO_TIME
    assert [str(problem) for problem in found.problems] == [
        "models[0].created_at: warning: unknown key 'created_at' is ignored; did you mean CreatedAt?",
    ]


@pytest.mark.parametrize("written", ["null", "~", ""])
def test_no_creation_time_is_the_zero_time(written):
    assert config(f"models: [{{name: m, createdAt: {written}}}]").models[0].created_at == ZERO_TIME


TIMES = {
    "2024-01-02T03:04:05Z": datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC),
    "2024-01-02T03:04:05.123456789Z": datetime(2024, 1, 2, 3, 4, 5, 123456, tzinfo=UTC),
    "2024-01-02T03:04:05.5Z": datetime(2024, 1, 2, 3, 4, 5, 500000, tzinfo=UTC),
    "2024-01-02T03:04:05+02:00": datetime(2024, 1, 2, 1, 4, 5, tzinfo=UTC),
    "2024-01-02T03:04:05-23:59": datetime(2024, 1, 3, 3, 3, 5, tzinfo=UTC),
    "2024-02-29T00:00:00Z": datetime(2024, 2, 29, tzinfo=UTC),
    "0001-01-01T00:00:00Z": ZERO_TIME,
    "9999-12-31T23:59:59Z": datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC),
    # refused
    "": None,
    "2024-01-02": None,
    "2024-01-02T03:04:05": None,
    "2024-01-02 03:04:05Z": None,
    "2024-01-02t03:04:05z": None,
    "2024-01-02T3:04:05Z": None,
    "2024-01-02T03:04Z": None,
    "2024-01-02T03:04:05,5Z": None,
    "2024-01-02T03:04:60Z": None,
    "2024-01-02T24:00:00Z": None,
    "2023-02-29T00:00:00Z": None,
    "2024-13-01T00:00:00Z": None,
    "2024-01-02T03:04:05+24:00": None,
    "2024-01-02T03:04:05+02:60": None,
    "2024-01-02T03:04:05+0200": None,
    "0001-01-01T00:00:00+01:00": None,
    "\uff12024-01-02T03:04:05Z": None,
    "2024-01-02T03:04:05Z\n": None,
}


@pytest.mark.parametrize(("text", "moment"), TIMES.items(), ids=[text or "empty" for text in TIMES])
def test_time(text, moment):
    assert parse_time(text) == moment


@given(st.datetimes(timezones=st.just(UTC)))
def test_a_time_as_go_writes_it_is_read_back(moment):
    text = moment.isoformat().replace("+00:00", "Z")
    assert parse_time(text) == moment


@given(st.datetimes(min_value=datetime(2, 1, 1), max_value=datetime(9998, 1, 1)), st.integers(-1439, 1439))  # noqa: DTZ001
def test_zones(naive, minutes):
    sign = "-" if minutes < 0 else "+"
    text = f"{naive.isoformat()}{sign}{abs(minutes) // 60:02}:{abs(minutes) % 60:02}"
    assert parse_time(text) == naive.replace(tzinfo=UTC) - timedelta(minutes=minutes)


@pytest.mark.parametrize("written", ["''", "2024-01-02", "'yesterday'"])
def test_a_wrong_time_refuses_the_document(written):
    found = decode(f"models: [{{createdAt: {written}}}]".encode())
    assert found.config is None
    (problem,) = found.problems
    assert problem.path == "models[0].createdAt"
    assert problem.message.endswith("is not an RFC 3339 timestamp")


@pytest.mark.parametrize("written", ["5", "true", "[]"])
def test_a_time_is_a_text(written):
    (problem,) = decode(f"models: [{{createdAt: {written}}}]".encode()).problems
    assert problem.message.startswith("expected a timestamp, got ")


# --- properties ---

SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
KEYS = st.sampled_from(
    ["version", "backends", "Backends", "models", "name", "schema", "auth", "apiKey", "key", "set", "cel", "type"],
) | st.text(max_size=6)
TREES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=5),
    max_leaves=25,
)


@given(TREES)
def test_whatever_is_given_a_config_is_read(tree):
    findings = Findings()
    found = read(Config, tree, findings)
    assert isinstance(found, Config)
    # Whoever reads no error can trust the types.
    if not findings.refused:
        msgspec.convert(
            msgspec.to_builtins(found, enc_hook=lambda secret: secret.reveal()),
            Config,
            dec_hook=lambda kind, value: kind(value),
        )
