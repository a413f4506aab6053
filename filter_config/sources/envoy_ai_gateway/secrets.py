"""Credentials out of Secrets: data before stringData, decoded, and never in a message."""

from __future__ import annotations

import base64
import configparser
import io
from typing import Final

from filter_config.redact import Secret
from filter_config.sources.envoy_ai_gateway.context import POLICY, Context, Referrer, Target, grant_fix
from filter_config.sources.envoy_ai_gateway.fields import CORE_GROUP, SecretReference
from filter_config.sources.envoy_ai_gateway.kubernetes import CertificateReference, SecretObject

_DEFAULT_PROFILE: Final = "default"


class Unusable(Exception):
    """There is no credential; the text says why, the second argument what would be right."""

    def __init__(self, message: str, fix: str = "") -> None:
        super().__init__(message)
        self.fix = fix


def read_secret(
    context: Context,
    namespace: str,
    ref: SecretReference | CertificateReference,
    key: str,
    *,
    referrer: Referrer = POLICY,
) -> Secret:
    """A key of the Secret that a policy, or another referrer, refers to; another namespace must have granted it.

    Raises:
        Unusable: there is no such Secret or key, or it must not or cannot be read.
    """
    if (ref.group, ref.kind) != (CORE_GROUP, "Secret"):
        raise Unusable(f"a credential in a {ref.kind} cannot be read", "refer to a Secret")
    where = ref.namespace or namespace
    target = Target(CORE_GROUP, "Secret", where, ref.name)
    if not context.grants.allow(referrer, namespace, target):
        raise Unusable(
            f"{target} is in another namespace, which does not allow it", grant_fix(referrer, namespace, target)
        )
    return _read(context, where, ref.name, key)


def read_generated(context: Context, namespace: str, policy: str, key: str) -> Secret:
    """A key of the Secret that credential rotation writes for a policy (contract, control plane 8.3).

    Raises:
        Unusable: there is none.
    """
    return _read(context, namespace, generated_name(policy), key)


def generated_name(policy: str) -> str:
    """Name of that Secret."""
    return f"ai-eg-bsp-{policy}"


def _read(context: Context, namespace: str, name: str, key: str) -> Secret:
    found = context.resources.get(SecretObject, namespace, name)
    if found is None:
        reason = context.resources.absence(SecretObject, namespace, name)
        raise Unusable(f"Secret {namespace}/{name} {reason}", f"add it, with the key {key}")
    encoded = found.value.data.get(key)
    if encoded is None:
        text = found.value.string_data.get(key)
        if text is None:
            raise Unusable(f"Secret {namespace}/{name} has no key {key}", f"add {key} under data or stringData")
        return text
    try:
        return Secret(base64.b64decode("".join(encoded.reveal().split()), validate=True).decode())
    except ValueError:
        message = f"Secret {namespace}/{name}: data.{key} is no base64 of a text"
        raise Unusable(message, "encode it, or write it under stringData") from None


def aws_profile(file: Secret, profile: str) -> Secret:
    """A shared credentials file in which the profile is the default one, as the processor reads no other.

    Raises:
        Unusable: the file cannot be read or has no such profile.
    """
    if profile in ("", _DEFAULT_PROFILE):
        return file
    parser = configparser.RawConfigParser()
    try:
        parser.read_string(file.reveal())
    except configparser.Error:
        # The parser's own message quotes the line.
        raise Unusable("the key credentials is no AWS credentials file", "write an INI file with profiles") from None
    if not parser.has_section(profile):
        raise Unusable(f"the AWS credentials file has no profile {profile!r}", "add it, or name another profile")
    chosen = configparser.RawConfigParser()
    chosen[_DEFAULT_PROFILE] = dict(parser[profile])
    text = io.StringIO()
    chosen.write(text)
    return Secret(text.getvalue())
