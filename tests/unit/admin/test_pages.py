from __future__ import annotations

import asyncio
import json

import httpx
import pytest
from prometheus_client import CollectorRegistry

from extproc.admin.encoding import accepts_gzip
from extproc.admin.pages import HealthUnknown, Pages, build_app
from extproc.telemetry.metrics import Metrics
from filter_config.redact import Secret


async def serving():
    return "SERVING"


async def not_serving():
    return "NOT_SERVING"


async def refused():
    raise HealthUnknown("connection refused")


def ask(path, *, method="GET", headers=None, **parts):
    """What a page answers; the raw bytes are in ``.content`` only where they are not compressed."""
    defaults = {
        "registry": CollectorRegistry(),
        "health": serving,
        "is_ready": lambda: True,
        "readiness": dict,
        "config": dict,
    }
    app = build_app(Pages(**defaults | parts))

    async def fetch():
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://admin") as client:
            return await client.request(method, path, headers={"accept-encoding": "identity"} | (headers or {}))

    return asyncio.run(fetch())


def test_metrics():
    metrics = Metrics()
    metrics.cost_error("k")
    response = ask("/metrics", registry=metrics.registry)
    assert response.status_code == 200
    assert response.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8; escaping=underscores"
    assert 'extproc_cost_errors_total{metadata_key="k"} 1\n' in response.text


def test_metrics_of_nothing_are_empty():
    response = ask("/metrics")
    assert (response.status_code, response.text) == (200, "")


def test_metrics_are_compressed_for_who_takes_it():
    metrics = Metrics()
    plain = ask("/metrics", registry=metrics.registry)
    packed = ask("/metrics", registry=metrics.registry, headers={"accept-encoding": "gzip"})
    assert packed.headers["content-encoding"] == "gzip"
    assert packed.text == plain.text
    assert "content-encoding" not in plain.headers


ENCODINGS = {
    "": False,
    "identity": False,
    "gzip": True,
    "GZIP": True,
    "br, gzip;q=0.5": True,
    "gzip;q=0": False,
    "gzip; q=0.000": False,
    "gzip;q=1.0": True,
    "*": True,
    "x-gzip": False,
}


@pytest.mark.parametrize("header", ENCODINGS)
def test_who_takes_gzip(header):
    assert accepts_gzip(header) is ENCODINGS[header]


HEALTH = {
    "serving": (serving, 200, "OK\n"),
    "not serving": (not_serving, 500, "unhealthy status: NOT_SERVING\n"),
    "no answer": (refused, 500, "health check RPC failed: connection refused\n"),
}


@pytest.mark.parametrize("name", HEALTH)
def test_health(name):
    health, status, text = HEALTH[name]
    response = ask("/health", health=health)
    assert (response.status_code, response.text) == (status, text)
    assert response.headers["content-type"] == "text/plain; charset=utf-8"
    assert response.headers.get("x-content-type-options") == (None if status == 200 else "nosniff")


@pytest.mark.parametrize(("ready", "status"), [(True, 200), (False, 503)])
def test_readiness(ready, status):
    response = ask("/ready", is_ready=lambda: ready, readiness=lambda: {"config": None})
    assert response.status_code == status
    assert response.headers["content-type"] == "application/json"
    assert response.json() == {"ready": ready, "config": None}


def test_config_hides_what_slipped_through():
    response = ask("/config", config=lambda: {"live": {"config": {"key": "sk-1", "x": Secret("sk-2"), "name": "n"}}})
    assert response.status_code == 200
    assert response.json() == {"live": {"config": {"key": "[REDACTED]", "x": "[REDACTED]", "name": "n"}}}


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE", "OPTIONS"])
@pytest.mark.parametrize("path", ["/metrics", "/health", "/ready", "/config"])
def test_every_method_is_taken(path, method):
    assert ask(path, method=method).status_code == 200


@pytest.mark.parametrize("path", ["/", "/nope", "/health/", "/metrics/x"])
def test_other_paths(path):
    response = ask(path)
    assert (response.status_code, response.text) == (404, "404 page not found\n")
    assert response.headers["content-type"] == "text/plain; charset=utf-8"
    assert response.headers["x-content-type-options"] == "nosniff"


def test_json_is_for_people_to_read():
    assert ask("/ready", readiness=lambda: {"a": 1}).text == json.dumps({"ready": True, "a": 1}, indent=2) + "\n"
