"""A runtime beside one that is in use: what is the same in both is the very same, and everything else is anew."""

from __future__ import annotations

import msgspec
import pytest

from extproc.runtime import build_runtime
from filter_config.load import decode

KEY = {"apiKey": {"key": "sk"}}
AZURE = {"azure": {"clientID": "c", "tenantID": "t", "clientSecret": "s"}}
OVERRIDE = {**KEY, "credentialOverride": {"headerName": "x-mine", "fallbackToConfigured": True}}


def backend(name, **fields):
    return {"name": f"ns/{name}/route/r/rule/0/ref/0", "schema": {"name": "OpenAI"}, **fields}


def runtime(*backends, before=None, known=None):
    decoded = decode(msgspec.json.encode({"version": "v", "backends": list(backends)}))
    assert decoded.config is not None
    return build_runtime(decoded.config, digest="d", problems=decoded.problems, before=before, known=known)


def kept(before, after):
    """Short names of the backends that are the very same in both."""
    return {backend.short_name for name, backend in after.backends.items() if before.backends.get(name) is backend}


def test_what_is_the_same_is_not_compiled_again():
    before = runtime(backend("a", auth=KEY), backend("b"), backend("c"))

    after = runtime(backend("c", modelNameOverride="m"), backend("a", auth=KEY), backend("d"), before=before)

    assert kept(before, after) == {"ns/a"}
    assert [each.short_name for each in after.backends.values()] == ["ns/c", "ns/a", "ns/d"]


CHANGES = {
    "key": {"auth": {"apiKey": {"key": "other"}}},
    "schema": {"schema": {"name": "Anthropic"}},
    "headers": {"httpHeaderMutation": {"remove": ["x-a"]}},
    "body": {"httpBodyMutation": {"remove": ["a"]}},
    "model": {"modelNameOverride": "m"},
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_any_change_of_a_backend_makes_it_anew(change):
    before = runtime(backend("a", auth=KEY))

    after = runtime({**backend("a", auth=KEY), **change}, before=before)

    assert kept(before, after) == set()
    (made,), (alone,) = after.backends.values(), runtime({**backend("a", auth=KEY), **change}).backends.values()
    assert (made.schema, made.headers, made.body, made.strips) == (
        alone.schema,
        alone.headers,
        alone.body,
        alone.strips,
    )


def test_where_requests_may_bring_a_credential_concerns_all_backends():
    before = runtime(backend("a", auth=KEY), backend("b", auth=KEY))

    after = runtime(backend("a", auth=KEY), backend("b", auth=OVERRIDE), before=before)

    assert kept(before, after) == set()
    assert all("x-mine" in each.strips for each in after.backends.values())
    assert kept(after, runtime(backend("a", auth=KEY), backend("b", auth=OVERRIDE), before=after)) == {"ns/a", "ns/b"}


def test_what_is_renewed_is_asked_for_again_and_keeps_its_cell():
    before = runtime(backend("a", auth=AZURE), backend("b", auth=AZURE))
    (cell,) = before.cells

    after = runtime(backend("a", auth=AZURE), backend("b", auth=AZURE), before=before, known={cell.source.key: cell})

    assert kept(before, after) == set()
    assert after.cells == (cell,)


def test_a_fault_is_looked_at_again():
    wrong = backend("a", auth={"azureApiKey": {"key": ""}})
    before = runtime(wrong)

    after = runtime(wrong, before=before)

    assert kept(before, after) == set()
    assert after.faults == before.faults != {}
