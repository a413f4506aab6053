"""Filter configs to the Secrets that processors mount (contract, control plane 2.10).

The parts come first, then the index that names them and their checksum, then the single Secret that older processors
read. A Secret in the namespace of the proxies can have no owner in that of the Gateway: labels say whose it is, and
what has the label of a Gateway that wants it no more goes.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final

from deploy.controller.assemble import Assembled
from deploy.controller.indexes import CONFIG_LABEL
from deploy.controller.kinds import Key, Object, key_of
from deploy.controller.ownership import differs
from deploy.controller.store import Entry, View
from deploy.controller.writes import Apply, Delete, Write
from filter_config.bundle import INDEX_NAME, MAX_PARTS, PARTS_NAME, split
from filter_config.sources import block_yaml
from filter_config.sources.emit import object_names

MANAGED_LABEL: Final = "app.kubernetes.io/managed-by"
MANAGER: Final = "envoy-ai-gateway"
GATEWAY_ANNOTATION: Final = "aigateway.envoyproxy.io/gateway"
"""On a Secret: ``<namespace>/<name>`` of its Gateway, as a label cannot hold every name."""
LEGACY_KEY: Final = "filter-config.yaml"
PART_KEY: Final = "chunk"
MAX_LEGACY_BYTES: Final = 1048576


class TooLarge(Exception):
    """A filter config does not fit the Secrets of a bundle; the text says by how much."""


def digest_of(namespace: str, name: str) -> str:
    """The hash that ends the names of a Gateway's Secrets."""
    return object_names(namespace, name).index.rpartition("-")[2]


def gateway_of(entry: Entry) -> Key | None:
    """The Gateway of a Secret of ours."""
    said = (entry.metadata.get("annotations") or {}).get(GATEWAY_ANNOTATION, "")
    namespace, slash, name = said.partition("/")
    labels = entry.metadata.get("labels") or {}
    return Key("Gateway", namespace, name) if slash and CONFIG_LABEL in labels else None


def objects(gateway: Key, namespaces: Sequence[str], config: Assembled, version: str) -> Iterator[Object]:
    """The Secrets of a filter config, in each namespace in the order in which they are to be written.

    Raises:
        TooLarge: the bundle has too few parts for it.
    """
    payload = config.payload
    parts = split(payload)
    if len(parts) > MAX_PARTS:
        raise TooLarge(f"the filter config takes {len(parts)} parts of a bundle that has {MAX_PARTS}")
    names = object_names(gateway.namespace, gateway.name)
    index = _index(config, parts, names.parts, version)
    for namespace in namespaces:
        for name, part in zip(names.parts, parts, strict=False):
            yield secret(gateway, namespace, name, {PART_KEY: part})
        yield secret(gateway, namespace, names.index, {INDEX_NAME: index})
        if names.legacy and len(payload) <= MAX_LEGACY_BYTES:
            yield secret(gateway, namespace, names.legacy, {LEGACY_KEY: payload})


def _index(config: Assembled, parts: Sequence[bytes], names: Sequence[str], version: str) -> bytes:
    return block_yaml.dump(
        {
            "checksum": hashlib.sha256(config.payload).hexdigest(),
            "parts": [
                {"name": names[number], "path": f"{PARTS_NAME}/{number:03d}", "sizeBytes": len(part)}
                for number, part in enumerate(parts)
            ],
            "uuid": config.uuid,
            "version": version,
        }
    )


def secret(gateway: Key, namespace: str, name: str, content: Mapping[str, bytes]) -> Object:
    """A Secret of a Gateway, which says so."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {MANAGED_LABEL: MANAGER, CONFIG_LABEL: digest_of(gateway.namespace, gateway.name)},
            "annotations": {GATEWAY_ANNOTATION: f"{gateway.namespace}/{gateway.name}"},
        },
        "type": "Opaque",
        "data": {key: base64.b64encode(value).decode() for key, value in content.items()},
    }


def settle(view: View, gateway: Key, wanted: Iterable[Object], made: Iterable[Entry]) -> tuple[list[Write], list[str]]:
    """The writes that make the Secrets of a Gateway what they should be, and why some cannot be written."""
    writes: list[Write] = []
    refused: list[str] = []
    keys = set()
    for value in wanted:
        key = key_of(value)
        keys.add(key)
        found = view.live(*key)
        if found is not None and not _may_take(found, gateway, value["data"].keys()):
            refused.append(f"{key} is there and belongs to somebody else")
        elif found is None or (not found.is_deleting and differs(value, found.value)):
            writes.append(Apply(value=value))
    surplus = {entry.key: entry for entry in (*made, *_peers(view, gateway, keys))}
    writes += (
        Delete(key=key, uid=entry.uid)
        for key, entry in sorted(surplus.items())
        if key not in keys and not entry.is_deleting and gateway_of(entry) in (gateway, None)
    )
    return writes, refused


def _may_take(found: Entry, gateway: Key, keys: AbstractSet[str]) -> bool:
    """Whether a Secret is ours, or the peer's, which tells nothing of itself but its name and its only key.

    The name of the single Secret may be that of another Gateway's too, and of anybody's.
    """
    labels = found.metadata.get("labels") or {}
    if CONFIG_LABEL in labels:
        return gateway_of(found) == gateway
    return set(found.value.get("data") or {}) <= keys


def _peers(view: View, gateway: Key, wanted: set[Key]) -> Iterator[Entry]:
    """Secrets that the peer wrote for a Gateway that we write for, and that are of no use any more.

    Their names end in the hash of the Gateway, so they are nobody else's. Without a Gateway or a config of ours there
    is nothing to know that the peer is gone.
    """
    names = object_names(gateway.namespace, gateway.name)
    for namespace in sorted({key.namespace for key in wanted}):
        for name in names.parts:
            found = view.live("Secret", namespace, name)
            if found is not None:
                yield found
