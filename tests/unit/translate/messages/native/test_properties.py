"""Any request, any cut, any bytes: what must hold for all of them."""

import base64
import itertools
import json

from hypothesis import given, settings
from hypothesis import strategies as st

from extproc.endpoints.messages import Messages
from extproc.errors import MalformedRequest
from extproc.formats import jsonedit
from extproc.translate.messages.native_body import TopLevel
from tests.support import eventstream
from tests.unit.translate.chat.anthropic.attempts import CONVERSATION, sse
from tests.unit.translate.messages.native.attempts import (
    CLOUDS,
    CONTENT_TYPES,
    SCHEMAS,
    ask,
    counts,
    error,
    frames,
    stream,
    total,
    wire,
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
FEW = settings(max_examples=40)
EDITED = ("model", "stream", "anthropic_version", "anthropic_beta", "max_tokens", "x")
# Mostly what the API takes, or nothing would get further than to be refused.
VALUES = {
    "model": st.sampled_from(["claude-x", "claude-z", 'a"\\ü/', ""]) | st.none(),
    "stream": st.booleans() | st.none(),
    "anthropic_beta": st.lists(st.sampled_from(["context-1m-2025-08-07", "x", ""]), max_size=2) | JSON,
}
BLANKS = st.sampled_from(["", " ", "\n\t", "\r\n  "])


def spelled(name, escaped):
    """The key as JSON, with one of its letters as an escape."""
    if not escaped:
        return json.dumps(name)
    return f'"\\u{ord(name[0]):04x}{name[1:]}"'


@st.composite
def objects(draw):
    """An object as text, with names that are edited, repeated and escaped, and blanks wherever they may be."""
    members = draw(
        st.lists(
            st.tuples(st.sampled_from(EDITED), st.booleans(), JSON, BLANKS, BLANKS, BLANKS), min_size=1, max_size=6
        )
    )
    texts = [
        f"{before}{spelled(name, escaped)}{between}:{after}{json.dumps(value, ensure_ascii=False)}"
        for name, escaped, value, before, between, after in members
    ]
    end = draw(BLANKS)
    return ("{" + f"{end},".join(texts) + end + "}" + draw(BLANKS)).encode()


def top_level(body):
    """The members in their order, repeated ones too; nested objects as lists of pairs."""
    members: list[tuple[str, object]] = json.loads(body, object_pairs_hook=list)
    return members


@FEW
@given(body=objects(), sets=st.sets(st.sampled_from(EDITED)), cuts=st.sets(st.sampled_from(EDITED)))
def test_an_edit_changes_every_member_of_its_name_and_no_other(body, sets, cuts):
    cuts -= sets
    edited = TopLevel(body).edited(sets=dict.fromkeys(sorted(sets), b'"new"'), cuts=sorted(cuts))
    kept = [(name, "new" if name in sets else value) for name, value in top_level(body) if name not in cuts]
    names = {name for name, _ in kept}
    assert top_level(edited) == kept + [(name, "new") for name in sorted(sets) if name not in names]


@FEW
@given(body=objects(), name=st.sampled_from(EDITED))
def test_one_edit_alone_is_the_one_of_the_general_editor(body, name):
    """Byte for byte: two ways to find a member, and one result."""
    path = jsonedit.parse_path(name)
    assert TopLevel(body).edited(sets={name: b"7"}) == jsonedit.set_value(body, path, b"7", every=True)
    assert TopLevel(body).value(name) == jsonedit.find(body, name)
    if jsonedit.duplicate_keys(body, name) == 1:
        assert TopLevel(body).edited(cuts=[name]) == jsonedit.delete(body, path)


def accepted(schema, body, **backend):
    """What is sent; ``None`` for a request that is none. Any other exception is a fault."""
    try:
        return ask(schema, body, **backend)[1]
    except MalformedRequest:
        return None


@FEW
@given(body=objects(), schema=st.sampled_from(SCHEMAS), override=st.sampled_from(["", "claude-y"]))
def test_any_request_is_refused_or_reaches_one_meaning(body, schema, override):
    """However often a member is said, all places that might read one of them read the same."""
    translator_request = accepted(schema, body, model_override=override)
    if translator_request is None:
        return
    asked = Messages().parse(body, content_type="", metering=False)
    told = top_level(body if translator_request.body is None else translator_request.body)
    said = {name: [value for key, value in told if key == name] for name in EDITED}
    if schema == "Anthropic":
        assert set(said["model"]) == {override or asked.model}
    else:
        assert said["model"] == []
        assert len({json.dumps(value) for value in said["anthropic_version"]}) == 1
    if schema == "AWSAnthropic":
        assert said["stream"] == []
        assert translator_request.path.endswith("stream" if asked.stream else "invoke")
    else:
        assert {bool(value) for value in said["stream"]} <= {asked.stream}


@FEW
@given(
    body=st.binary(max_size=60)
    | st.text(max_size=60).map(str.encode)
    | JSON.map(lambda value: json.dumps(value).encode())
)
def test_any_bytes_are_a_request_or_a_mistake_of_the_client(body):
    for schema in SCHEMAS:
        accepted(schema, body, model_override="m")


CUTS = st.lists(st.integers(0, 3000), max_size=8)


def cut(body, places):
    edges = [0, *sorted(min(place, len(body)) for place in places), len(body)]
    return [body[start:end] for start, end in itertools.pairwise(edges)]


@FEW
@given(schema=st.sampled_from(SCHEMAS), places=CUTS)
def test_any_cut_of_a_stream_reads_the_same(schema, places):
    output, results = stream(schema, cut(wire(schema, CONVERSATION), places))
    assert output == sse(CONVERSATION)
    assert counts(total(results)) == "13/3/0/40/53"
    assert any(result.complete for result in results)
    assert not any(result.failure for result in results)


@FEW
@given(
    body=st.one_of(
        st.binary(max_size=100),
        st.lists(
            st.sampled_from(CONVERSATION).map(lambda event: frames([event]))
            | st.binary(max_size=30).map(lambda data: eventstream.event("chunk", data))
            | st.binary(max_size=30).map(
                lambda data: eventstream.event("chunk", {"bytes": base64.b64encode(data).decode()})
            )
            | JSON.map(
                lambda value: eventstream.event(
                    "chunk", {"bytes": base64.b64encode(json.dumps(value).encode()).decode()}
                )
            )
            | st.text(min_size=1, max_size=9).map(lambda name: eventstream.exception(name, {"message": name})),
            max_size=6,
        ).map(b"".join),
        st.tuples(st.integers(0, 5000), st.integers(0, 255)).map(
            lambda flip: (
                (whole := frames(CONVERSATION))[: flip[0] % len(whole)]
                + bytes([flip[1]])
                + whole[flip[0] % len(whole) + 1 :]
            )
        ),
    ),
    places=CUTS,
)
def test_any_frames_end_in_one_of_two_ways(body, places):
    """The message's own end, or one error event; and the cut does not decide which."""
    output, results = stream("AWSAnthropic", [*cut(body, places), b""])
    assert output == stream("AWSAnthropic", [body, b""])[0]
    blocks = output.split(b"\n\n")
    assert blocks.pop() == b""
    last = blocks[-1].split(b"\n")[0]
    failed = next((result.failure for result in results if result.failure), "")
    assert (last == b"event: error") == bool(failed)
    assert failed or last == b"event: message_stop"
    assert sum(block.startswith(b"event: error\n") for block in blocks) == bool(failed)


@FEW
@given(body=st.binary(max_size=300), schema=st.sampled_from(["Anthropic", "GCPAnthropic"]), places=CUTS)
def test_any_bytes_pass_where_the_backend_speaks_the_clients_stream(body, schema, places):
    for content_type in (CONTENT_TYPES[schema], "application/json", ""):
        output, _ = stream(schema, cut(body, places), content_type=content_type or "x")
        assert output == body


@FEW
@given(
    body=st.binary(max_size=60) | JSON.map(lambda value: json.dumps({"error": value, "message": value}).encode()),
    status=st.integers(300, 599).map(str) | st.text(max_size=4),
    schema=st.sampled_from(CLOUDS),
    content_type=st.sampled_from(["application/json", "text/html", ""]),
)
def test_any_error_answer_is_one_of_the_api(body, status, schema, content_type):
    told = json.loads(error(schema, status, body, content_type=content_type).body)
    assert isinstance(told["error"]["type"], str)
    assert told["error"]["type"]
