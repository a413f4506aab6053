"""Secrets whose values come from outside of the files: annotations that name a variable or a file for a key.

For gateways that run without a cluster, where a file of resources is no place for credentials (contract, control plane
7.4). Only keys that the Secret has are replaced; what cannot be had leaves the value as it is, and is told.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

import msgspec

from filter_config.redact import Secret
from filter_config.sources.envoy_ai_gateway.kubernetes import SecretObject
from filter_config.sources.envoy_ai_gateway.load import Found, Resources
from filter_config.sources.faults import Faults

VARIABLE: Final = "substitution.aigw.run/env/"
"""Begins annotations that name an environment variable for a key."""
FILE: Final = "substitution.aigw.run/file/"
"""Begins annotations that name a file for a key; a variable that is set comes first."""


def substitute(resources: Resources, environ: Mapping[str, str], faults: Faults) -> None:
    """Replaces the values of Secrets by those of variables and files."""
    for found in resources.all(SecretObject):
        keys = {*found.value.data, *found.value.string_data}
        values = {key: value for key in sorted(keys) if (value := _value(found, key, environ, faults)) is not None}
        if values:
            resources.replace(replace(found, value=_replaced(found.value, values)))


def _replaced(secret: SecretObject, values: Mapping[str, Secret]) -> SecretObject:
    data = {key: value for key, value in secret.data.items() if key not in values}
    return msgspec.structs.replace(secret, data=data, string_data={**secret.string_data, **values})


def _value(found: Found[SecretObject], key: str, environ: Mapping[str, str], faults: Faults) -> Secret | None:
    annotations = found.meta.annotations
    variable, file = annotations.get(VARIABLE + key), annotations.get(FILE + key)
    if variable is not None and environ.get(variable):
        return Secret(environ[variable])
    if file is not None:
        try:
            return Secret(Path(file).expanduser().read_text())
        except (OSError, RuntimeError, UnicodeDecodeError) as error:
            at = found.origin.at(f"metadata.annotations[{FILE}{key}]")
            reason = getattr(error, "strerror", None) or "it cannot be found, or is no text"
            faults.warning(at, f"the file cannot be read: {reason}; the value stays as it is", "name a readable file")
            return None
    if variable is not None:
        at = found.origin.at(f"metadata.annotations[{VARIABLE}{key}]")
        faults.warning(at, f"the variable {variable} is not set; the value stays as it is", "set it")
    return None
