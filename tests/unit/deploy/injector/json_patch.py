"""JSON Patch (RFC 6902) applied, written from the RFC: what the API server does with the webhook's answer."""

from __future__ import annotations

import copy
import re


class PatchRefused(Exception):
    """The patch cannot be applied to this document; the API server would refuse the pod."""


def apply(document, operations):
    """The document after a patch, of operations ``add``, ``remove``, ``replace`` and ``test``."""
    document = copy.deepcopy(document)
    for operation in operations:
        document = _apply_one(document, copy.deepcopy(operation))
    return document


def _apply_one(document, operation):
    tokens = _tokens(operation["path"])
    if not tokens:
        raise PatchRefused("replaces the whole document")
    parent = document
    for token in tokens[:-1]:
        parent = _member(parent, token)
    match operation:
        case {"op": "add", "value": value} if isinstance(parent, list):
            # RFC 6902, 4.1: the index may be the one behind the last, for which "-" stands.
            parent.insert(_index(parent, tokens[-1], end=True), value)
        case {"op": "add", "value": value} if isinstance(parent, dict):
            parent[tokens[-1]] = value
        case {"op": "replace", "value": value}:
            _member(parent, tokens[-1])
            parent[_index(parent, tokens[-1]) if isinstance(parent, list) else tokens[-1]] = value
        case {"op": "remove"}:
            _member(parent, tokens[-1])
            del parent[_index(parent, tokens[-1]) if isinstance(parent, list) else tokens[-1]]
        case {"op": "test", "value": value}:
            if _member(parent, tokens[-1]) != value:
                raise PatchRefused(f"test of {operation['path']}")
        case _:
            raise PatchRefused(f"no operation: {operation}")
    return document


def _tokens(path):
    if path and not path.startswith("/"):
        raise PatchRefused(f"no JSON Pointer: {path}")
    if re.search(r"~(?![01])", path):
        raise PatchRefused(f"no escape of RFC 6901 in {path}")
    return [token.replace("~1", "/").replace("~0", "~") for token in path.split("/")[1:]]


def _member(parent, token):
    if isinstance(parent, list):
        return parent[_index(parent, token)]
    if not isinstance(parent, dict) or token not in parent:
        raise PatchRefused(f"there is no {token}")
    return parent[token]


def _index(parent, token, *, end=False):
    if token == "-" and end:
        return len(parent)
    if re.fullmatch(r"0|[1-9][0-9]*", token) is None or int(token) >= len(parent) + end:
        raise PatchRefused(f"no index: {token}")
    return int(token)
