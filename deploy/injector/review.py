"""AdmissionReview, ``admission.k8s.io/v1``, as far as this webhook reads and writes it.

What is not declared here is passed over: the API server adds fields as it grows. NB: annotations are evaluated, so
there is no ``from __future__ import annotations`` here.
"""

import base64
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

import msgspec

from deploy.injector.patch import Operation

API_VERSION: Final = "admission.k8s.io/v1"
KIND: Final = "AdmissionReview"
_MAX_WARNING: Final = 250


class MalformedReview(ValueError):
    """The body is no AdmissionReview that can be answered; the text says why, in one line."""


class GroupVersionResource(msgspec.Struct, frozen=True, kw_only=True):
    """What kind of objects a request is about."""

    group: str = ""
    version: str = ""
    resource: str = ""


class AdmissionRequest(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What the API server asks."""

    uid: str
    resource: GroupVersionResource = GroupVersionResource()
    sub_resource: str = ""
    operation: str = ""
    namespace: str = ""
    object: Any = None


class _Review(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    api_version: str
    kind: str
    request: AdmissionRequest


class Result(StrEnum):
    """What became of a pod. The value is the label of the metric."""

    INJECTED = "injected"
    UNCHANGED = "unchanged"
    """There is nothing to inject, or it is there."""
    PASSED = "passed"
    """Something is not understood or not known: unchanged, with a warning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The answer to a request, which is always allowed.

    Attributes:
        warnings: shown to whoever makes the pod; without line breaks.
        reason: why the pod is unchanged, for the log.
    """

    uid: str
    result: Result
    patch: tuple[Operation, ...] = ()
    warnings: tuple[str, ...] = ()
    reason: str = ""


_DECODER: Final = msgspec.json.Decoder(_Review)


def read(body: bytes) -> AdmissionRequest:
    """The request in an AdmissionReview.

    Raises:
        MalformedReview: it is none of this version.
    """
    try:
        review = _DECODER.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedReview(f"no AdmissionReview: {_line(str(error))}") from error
    if (review.api_version, review.kind) != (API_VERSION, KIND):
        raise MalformedReview(f"no {KIND} of {API_VERSION}, but {_line(f'{review.kind} of {review.api_version}')}")
    if not review.request.uid:
        raise MalformedReview("no AdmissionReview: request.uid is empty")
    return review.request


def write(answer: Answer) -> bytes:
    """The AdmissionReview with an answer."""
    response: dict[str, Any] = {"uid": answer.uid, "allowed": True}
    if answer.patch:
        response["patchType"] = "JSONPatch"
        response["patch"] = base64.b64encode(msgspec.json.encode(answer.patch)).decode()
    if answer.warnings:
        response["warnings"] = [_line(warning) for warning in answer.warnings]
    return msgspec.json.encode({"apiVersion": API_VERSION, "kind": KIND, "response": response})


def _line(text: str) -> str:
    """What an HTTP header can carry: one printable line, not longer than the API server lets pass."""
    line = "".join(character if character.isprintable() else " " for character in text)
    return line if len(line) <= _MAX_WARNING else line[: _MAX_WARNING - 1] + "…"
