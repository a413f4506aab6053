"""Checks of a backend's credentials and mutations; see :mod:`filter_config.validate` for the grades."""

from __future__ import annotations

import json
import re
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final, NoReturn
from urllib.parse import urlsplit

from filter_config.decode import shown
from filter_config.model import AUTH_METHODS, HTTPHeader, HTTPHeaderMutation, SchemaName, document_key

if TYPE_CHECKING:
    from collections.abc import Mapping

    from filter_config.model import AzureAuth, BackendAuth, CredentialOverride, HTTPBodyMutation
    from filter_config.problems import Findings
    from filter_config.redact import Secret

# RFC 9110 token.
_TOKEN: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+\Z")
# What would end a header line, or be refused by Envoy.
_BREAKS: Final = re.compile(r"[\r\n\0]")
_BREAKS_FIX: Final = "remove line breaks and NUL characters"

_TENANT: Final = re.compile(r"[0-9A-Za-z](?:[0-9A-Za-z.-]*[0-9A-Za-z])?\Z")

# contract, filter config 3.12: names that configured mutations do not touch.
INTERNAL_PREFIX: Final = "x-ai-eg-"
"""Begins the names of headers that only the gateway writes."""
_PROTECTED_PREFIXES: Final = (":", INTERNAL_PREFIX)
_PROTECTED_NAME: Final = "x-envoy-original-path"

# contract, filter config 3.11: when the text of a body value stands for JSON rather than for a string.
_NUMBER_LIKE: Final = re.compile(r"[0-9+-][0-9.\-+eE]*\Z")
_JSON_WORDS: Final = frozenset(("0", "true", "false", "null"))
_BRACKETS: Final = (('"', '"'), ("{", "}"), ("[", "]"))

# Characters that make a body path a query; a query cannot be removed and creates nothing. A backslash escapes.
_QUERY: Final = re.compile(r"(?<!\\)(?:\\\\)*[*?#@|]")


# --- auth ---


def check_auth(auth: BackendAuth, at: str, backend: str, findings: Findings) -> None:
    """One method, with what it needs, and an override that can find a credential."""
    given = [method for method in AUTH_METHODS if getattr(auth, method) is not None]
    if not given:
        if not findings.has_error(at):
            methods = ", ".join(map(document_key, AUTH_METHODS))
            findings.fault(
                at, "no backend auth handler found", f"give one of {methods}, or remove auth", backend=backend
            )
        return
    if len(given) > 1:
        used, *ignored = map(document_key, given)
        findings.warning(at, f"several auth methods: {used} is used, {', '.join(ignored)} ignored", "keep one")
    if auth.credential_override is not None:
        _check_override(auth.credential_override, f"{at}.credentialOverride", findings)
    if auth.credential_override is None or auth.credential_override.fallback_to_configured:
        # Otherwise every request brings its own credential, and the configured one is never used.
        if given[0] == "azure" and auth.azure is not None:
            _check_entra(auth.azure, f"{at}.azure", backend, findings)
        _check_credential(auth, given[0], at, backend, findings)


# What the APIs take that do not take any bearer token; Bedrock has API keys besides signatures.
_FITTING_METHODS: Final[Mapping[str, tuple[str, ...]]] = {
    SchemaName.AWS_BEDROCK: ("aws", "api_key"),
    SchemaName.AWS_ANTHROPIC: ("aws", "api_key"),
    SchemaName.AZURE_OPENAI: ("azure_api_key", "azure"),
    SchemaName.GCP_VERTEX_AI: ("gcp",),
    SchemaName.GCP_ANTHROPIC: ("gcp",),
    SchemaName.ANTHROPIC: ("anthropic_api_key",),
}


def check_auth_fits(auth: BackendAuth, schema: str, at: str, findings: Findings) -> None:
    """A method that the API of the backend can take."""
    used = next((method for method in AUTH_METHODS if getattr(auth, method) is not None), None)
    fitting = _FITTING_METHODS.get(schema)
    if used is not None and fitting is not None and used not in fitting:
        message = f"{document_key(used)} is not what an API of schema {schema} takes"
        findings.warning(at, message, f"use {' or '.join(map(document_key, fitting))}")


def _check_override(override: CredentialOverride, at: str, findings: Findings) -> None:
    if override.header_name:
        return
    if not override.dynamic_metadata_namespace:
        source = "a source: headerName, or dynamicMetadataNamespace and dynamicMetadataKey"
        if override.fallback_to_configured:
            findings.warning(at, "no source: the configured credential is always used", f"give {source}")
        else:
            findings.warning(at, "no source and no fallback: every request is answered 401", f"give {source}")
    elif not override.dynamic_metadata_key:
        findings.warning(f"{at}.dynamicMetadataKey", "empty: no credential can be found", "name the metadata key")


def _check_credential(auth: BackendAuth, method: str, at: str, backend: str, findings: Findings) -> None:
    """The secret of the method that is used, as it will stand in a header."""
    attribute = {"azure": "access_token", "gcp": "access_token", "aws": ""}.get(method, "key")
    if not attribute:
        return
    secret: Secret = getattr(getattr(auth, method), attribute)
    path = f"{at}.{document_key(method)}.{document_key(attribute)}"
    if findings.has_error(path):
        return
    value = secret.reveal()
    if method != "gcp":
        # An empty GCP token stands for the default credentials, and a given one is used untrimmed.
        value = value.strip()
        if not value and method == "azure_api_key":
            findings.fault(path, "azure API key is required", "give the key", backend=backend)
        elif not value and method != "azure":
            findings.warning(path, "empty: requests are sent with an empty credential", "give the credential")
    if _BREAKS.search(value):
        findings.fault(path, "the credential holds a line break or a NUL character", _BREAKS_FIX, backend=backend)


# --- Azure ---

_ENTRA_KEYS: Final = ("client_id", "tenant_id", "client_secret", "federated_token_file", "authority_host")


def _check_entra(azure: AzureAuth, at: str, backend: str, findings: Findings) -> None:
    """Client credentials to get a token with; what is not given may be in the environment, which nobody knows here."""
    given = [name for name in _ENTRA_KEYS if getattr(azure, name) and not findings.has_error(_path(at, name))]
    keys = [document_key(name) for name in given]
    if azure.access_token.reveal().strip():
        if given:
            findings.warning(at, f"accessToken is used, {', '.join(keys)} ignored", "keep one")
        return
    if not given:
        if not findings.has_error(f"{at}.accessToken"):
            message = "empty: a token is asked for with what the AZURE_* environment gives"
            fix = "give the token, or clientID and tenantID with clientSecret or federatedTokenFile"
            findings.warning(f"{at}.accessToken", message, fix)
        return
    if {"client_secret", "federated_token_file"} <= set(given):
        findings.warning(at, "clientSecret is used, federatedTokenFile ignored", "keep one")
    if "client_secret" in given and not azure.client_id.strip() and not findings.has_error(f"{at}.clientID"):
        message = "clientSecret without the application that it is of"
        findings.fault(f"{at}.clientID", message, "give clientID", backend=backend)
    if "tenant_id" in given and not is_tenant(azure.tenant_id.strip()):
        message = f"{shown(azure.tenant_id)} is no tenant"
        findings.fault(f"{at}.tenantID", message, "write its ID, or a domain of it", backend=backend)
    if "authority_host" in given and not is_authority(azure.authority_host.strip()):
        message = f"{shown(azure.authority_host)} is no URL that a secret may be sent to"
        fix = "write https:// and the host, such as https://login.microsoftonline.us"
        findings.fault(f"{at}.authorityHost", message, fix, backend=backend)


def _path(at: str, attribute: str) -> str:
    return f"{at}.{document_key(attribute)}"


def is_tenant(text: str) -> bool:
    """Whether a tenant can be named so: by its ID or by a domain."""
    return _TENANT.match(text) is not None


def is_authority(url: str) -> bool:
    """Whether a URL names an Entra authority: a host alone, with TLS unless it is this machine's loopback."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        return False
    if not host or parts.path.strip("/") or parts.query or parts.fragment or parts.username is not None:
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and _is_loopback(host))


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


# --- headers ---


def check_header_mutation(
    mutation: HTTPHeaderMutation, at: str, backend: str, findings: Findings
) -> HTTPHeaderMutation:
    """Names and values that Envoy takes; the mutation is returned with its names in lower case."""
    sets = []
    for index, header in enumerate(mutation.set):
        path = f"{at}.set[{index}]"
        name = _header_name(header.name, f"{path}.name", backend, findings)
        if _BREAKS.search(header.value.reveal()):
            message = "the header's value holds a line break or a NUL character"
            findings.fault(f"{path}.value", message, _BREAKS_FIX, backend=backend)
        sets.append(HTTPHeader(name=name, value=header.value))
    names = [
        _header_name(name, f"{at}.remove[{index}]", backend, findings) for index, name in enumerate(mutation.remove)
    ]
    return HTTPHeaderMutation(set=tuple(sets), remove=tuple(names))


def _header_name(name: str, path: str, backend: str, findings: Findings) -> str:
    if findings.has_error(path):
        return name
    lower = name.lower()
    if is_protected(lower):
        message = f"{shown(name)} is a protected header; the mutation is ignored"
        findings.warning(
            path, message, "remove it: names with : or x-ai-eg- in front, and x-envoy-original-path, are Envoy's"
        )
    elif not _TOKEN.match(name):
        fix = "write letters, digits and - only, without spaces"
        findings.fault(path, f"{shown(name)} is no header name", fix, backend=backend)
    elif lower != name:
        findings.warning(path, f"{shown(name)} is read in lower case", f"write {lower}")
    return lower


def is_protected(name: str) -> bool:
    """Whether a header, in lower case, belongs to Envoy or the gateway, so that no configuration may touch it."""
    return name.startswith(_PROTECTED_PREFIXES) or name == _PROTECTED_NAME


# --- bodies ---


def check_body_mutation(mutation: HTTPBodyMutation, at: str, backend: str, findings: Findings) -> None:
    """Values that leave the body valid JSON, and paths that do something."""
    for index, field in enumerate(mutation.set):
        path = f"{at}.set[{index}]"
        _check_body_path(field.path, f"{path}.path", "can only replace what is there, and creates nothing", findings)
        if findings.has_error(f"{path}.value") or not is_raw_json(field.value) or _is_json(field.value):
            continue
        findings.fault(
            f"{path}.value",
            "the value looks like JSON and is none: it would break the body",
            'write valid JSON, or a string in quotes of its own, such as "\\"text\\""',
            backend=backend,
        )
    for index, removed in enumerate(mutation.remove):
        _check_body_path(
            removed, f"{at}.remove[{index}]", "cannot be removed: cannot delete value from a complex path", findings
        )


def _check_body_path(path: str, at: str, trouble: str, findings: Findings) -> None:
    if findings.has_error(at):
        return
    if not path:
        findings.warning(at, "empty: the entry is skipped", "name the field")
    elif _QUERY.search(path):
        findings.warning(at, f"{shown(path)} {trouble}", "escape * ? # @ and | with a backslash")


def is_raw_json(value: str) -> bool:
    """Whether the text of a body value is inserted as JSON rather than as a string (contract, filter config 3.11)."""
    text = value.strip()
    if text in _JSON_WORDS or _NUMBER_LIKE.match(text):
        return True
    return any(text.startswith(opening) and text.endswith(closing) for opening, closing in _BRACKETS)


def _is_json(text: str) -> bool:
    """RFC 8259, without the constants that Python's reader takes beyond it."""
    try:
        json.loads(text, parse_int=str, parse_float=str, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return False
    return True


def _refuse(constant: str) -> NoReturn:
    raise ValueError(constant)
