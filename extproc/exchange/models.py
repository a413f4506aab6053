"""Answering a list of models, without any backend."""

from __future__ import annotations

from extproc.endpoints.models import ModelCatalog, ModelListForm, normalise_host
from extproc.exchange import replies
from extproc.exchange.headers import HeaderDict


def list_models(catalog: ModelCatalog, form: ModelListForm, headers: HeaderDict) -> replies.Reply:
    """The list that the request's host may see, in the form of its API (contract, models 4.1)."""
    host = normalise_host(headers.get(":authority") or headers.get("host", ""))
    body = catalog.select(host).body(form)
    return replies.immediate(200, body, content_type="application/json", grpc_status=0)
