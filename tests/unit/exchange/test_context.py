"""Ids are UUIDs of version 4."""

import uuid

from extproc.exchange.context import new_id


def test_ids_are_random_uuids():
    # More than are made at once.
    ids = {new_id() for _ in range(1500)}
    assert len(ids) == 1500
    assert {text[19] for text in ids} == set("89ab")
    for text in ids:
        parsed = uuid.UUID(text)
        assert str(parsed) == text
        assert parsed.version == 4
        assert parsed.variant == uuid.RFC_4122
