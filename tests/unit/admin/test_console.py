"""The console: what it answers, to whom, and that its page can do no harm. How it looks is tested in a browser."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import re
from importlib import resources

import httpx
import msgspec
import pytest
from prometheus_client import CollectorRegistry

from extproc.admin.console import DATA_PATH, Console, Figures, the_page
from extproc.admin.pages import Pages, build_app
from extproc.admin.peers import Peers
from extproc.admin.status import MAX_SHOWN, config_summary
from extproc.auth.sources import CellState
from extproc.reload import ConfigStatus, LiveConfig, Refusal
from extproc.runtime import build_runtime
from extproc.telemetry.ledger import Entry, Ledger
from filter_config.load import Problem, decode

NOW = 1_800_000_007.0
HOSTILE = "</script><img src=x onerror=alert(1)>\u202e\u0000"
PATHS = ("/", DATA_PATH)


def record(ledger, model="m"):
    streamed = True
    ledger.record(
        Entry(
            *(NOW, model, model, "b", "r", "chat", "success", 200, 2.0, 0.1, 0.5, 0.6),
            *(streamed, "id", {"c": 1}, 1, 0, 2, 0),
        )
    )


def console(**parts):
    defaults = {"ledger": Ledger(), "peers": Peers(), "process": dict, "config": dict, "now": lambda: NOW}
    return Console(**defaults | parts)


def ask(path, shown, *, method="GET", client="127.0.0.1", headers=None):
    async def health():
        return "SERVING"

    pages = Pages(
        registry=CollectorRegistry(), health=health, is_ready=lambda: True, readiness=dict, config=dict, console=shown
    )

    async def fetch():
        transport = httpx.ASGITransport(app=build_app(pages), client=(client, 1))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost:1064") as session:
            return await session.request(method, path, headers={"accept-encoding": "identity"} | (headers or {}))

    return asyncio.run(fetch())


def test_the_page():
    response = ask("/", console())
    assert response.status_code == 200
    assert response.headers["content-type"] == "text/html; charset=utf-8"
    assert response.text.startswith("<!doctype html>")
    assert response.headers["cache-control"] == "no-store"
    assert response.headers["x-content-type-options"] == "nosniff"
    assert response.headers["referrer-policy"] == "no-referrer"
    assert response.headers["x-frame-options"] == "DENY"


def test_its_policy_lets_in_its_own_style_and_script_and_nothing_else():
    response = ask("/", console())
    policy = dict(part.split(" ", 1) for part in response.headers["content-security-policy"].split("; "))
    assert policy.pop("default-src") == "'none'"
    for tag, source in (("style", "style-src"), ("script", "script-src")):
        (text,) = re.findall(f"<{tag}>(.*?)</{tag}>", response.text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert policy.pop(source) == f"'sha256-{digest}'"
        assert len(text) > 1000
    assert policy == {
        "connect-src": "'self'",
        "img-src": "data:",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
    }


# What would let text become markup or code, or make the page ask for anything beside the figures.
FORBIDDEN = {
    "markup out of strings": r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|Contextual",
    "code out of strings": r"\beval\b|new Function|setTimeout\(\s*[\"'`]|javascript:",
    "an inline handler": r"<[^>]*\son[a-z]+\s*=",
    "an inline style": r"<[^>]*\sstyle\s*=",
    "something of elsewhere": r"(?:src|href)\s*=\s*[\"']?(?:https?:)?//|@import|url\(|\bimport\(",
}


@pytest.mark.parametrize("what", FORBIDDEN)
def test_the_page_has_none_of(what):
    text = the_page().body.decode().replace("http://www.w3.org/2000/svg", "")
    assert re.findall(FORBIDDEN[what], text) == []


def test_the_sources_of_the_page_are_in_the_package():
    names = {entry.name for entry in resources.files("extproc.admin").iterdir()}
    assert {"console.html", "console.css", "console.js"} <= names


def test_the_figures_are_as_declared():
    ledger = Ledger()
    record(ledger)
    response = ask(DATA_PATH, console(ledger=ledger, process=lambda: {"ready": True}, config=lambda: {"loads": 1}))
    assert response.headers["content-type"] == "application/json"
    assert response.headers["cache-control"] == "no-store"
    assert "access-control-allow-origin" not in response.headers
    figures = msgspec.json.decode(response.content, type=Figures, strict=True)
    assert (figures.now, figures.process, figures.config) == (NOW, {"ready": True}, {"loads": 1})
    assert figures.traffic.window == "15m"
    assert figures.traffic.overall.attempts == 1
    assert figures.traffic.by["model"][0].name == "m"


def test_names_that_strangers_choose_stay_what_they_are():
    ledger = Ledger()
    record(ledger, HOSTILE)
    response = ask(DATA_PATH, console(ledger=ledger))
    assert response.json()["traffic"]["by"]["model"][0]["name"] == HOSTILE
    # Should a browser ever be shown the figures themselves, it takes them for what they are.
    assert response.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("window", ["5m", "15m", "1h"])
def test_each_window_can_be_asked_for(window):
    assert ask(f"{DATA_PATH}?window={window}", console()).json()["traffic"]["window"] == window


def test_another_window_is_refused():
    response = ask(f"{DATA_PATH}?window=2h", console())
    assert (response.status_code, response.text) == (400, "no such window; there are 5m, 15m, 1h\n")


def test_many_viewers_cost_as_much_as_one():
    ledger, now = Ledger(), [NOW]
    shown = console(ledger=ledger, now=lambda: now[0])

    def attempts():
        return ask(DATA_PATH, shown).json()["traffic"]["overall"]["attempts"]

    assert attempts() == 0
    record(ledger)
    assert attempts() == 0
    now[0] += 1
    assert attempts() == 1


def test_it_is_compressed_for_who_takes_it():
    packed = ask("/", console(), headers={"accept-encoding": "gzip"})
    assert packed.headers["content-encoding"] == "gzip"
    assert packed.text == ask("/", console()).text


@pytest.mark.parametrize("path", PATHS)
def test_it_is_read_only(path):
    assert ask(path, console(), method="HEAD").status_code == 200
    for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS"):
        response = ask(path, console(), method=method)
        assert response.status_code == 405
        assert response.headers["allow"] == "GET, HEAD"


@pytest.mark.parametrize("path", PATHS)
def test_switched_off_it_is_not_there(path):
    response = ask(path, None)
    assert (response.status_code, response.text) == (404, "404 page not found\n")


@pytest.mark.parametrize("path", PATHS)
def test_another_machine_is_told_why_it_sees_nothing(path):
    response = ask(path, console(), client="10.0.0.7")
    assert response.status_code == 403
    assert response.text == (
        "the console is not shown here: 10.0.0.7 is not among the peers that may see it (flag -consolePeers)\n"
    )
    assert ask(path, console(peers=Peers.parse("10.0.0.0/8")), client="10.0.0.7").status_code == 200


@pytest.mark.parametrize("path", PATHS)
def test_a_page_elsewhere_cannot_read_it_by_a_name_of_its_own(path):
    assert ask(path, console(), headers={"host": "evil.example"}).status_code == 403


@pytest.mark.parametrize("path", ["/metrics", "/health", "/ready", "/config"])
def test_the_other_pages_are_for_everybody(path):
    assert ask(path, console(), client="10.0.0.7", headers={"host": "pod.example"}).status_code == 200


# What it says of the config


def live_config(problems=(), backends=("a/b/route/c/rule/0/ref/0",)):
    entries = ", ".join(f'{{"name": "{name}", "schema": {{"name": "OpenAI"}}}}' for name in backends)
    decoded = decode(f'{{"version": "dev", "backends": [{entries}]}}'.encode())
    runtime = build_runtime(decoded.config, digest="d1", problems=problems)
    return LiveConfig(digest="d1", since=NOW - 60, runtime=runtime, problems=tuple(problems))


def test_before_the_first_config():
    assert config_summary(ConfigStatus(), now=NOW) == {
        "loads": 0,
        "refusals": 0,
        "live": None,
        "last_refused": None,
        "credentials": None,
    }


def test_the_live_config_and_the_refused_one():
    refused = Refusal(reason="backends: none", at=NOW - 5, digest="d2")
    status = ConfigStatus(live=live_config(), refused=refused, failing=True, loads=3, refusals=1)
    page = config_summary(status, now=NOW)
    assert page["live"] == {
        "hash": "d1",
        "since": "2027-01-15T07:59:07.000Z",
        "age_seconds": 60.0,
        "backends": 1,
        "disabled": 0,
        "disabled_backends": {},
        "problems": [],
        "problem_count": 0,
    }
    assert page["last_refused"] == {
        "hash": "d2",
        "at": "2027-01-15T08:00:02.000Z",
        "age_seconds": 5.0,
        "current": True,
        "reason": "backends: none",
        "problems": [],
        "problem_count": 0,
    }


def test_what_is_wrong_is_shown_as_far_as_it_fits():
    names = [f"a/b{number}/route/c/rule/0/ref/0" for number in range(MAX_SHOWN + 5)]
    faults = [Problem(severity="fault", path="p", message="no key", backend=name) for name in names]
    states = [
        CellState(name="good", usable=True, refreshed_at=NOW, expires_at=NOW + 9, error=None),
        CellState(name="bad", usable=False, refreshed_at=None, expires_at=None, error="403"),
    ]
    page = config_summary(ConfigStatus(live=live_config(faults, names)), now=NOW, credentials=states)
    assert (page["live"]["disabled"], len(page["live"]["disabled_backends"])) == (MAX_SHOWN + 5, MAX_SHOWN)
    assert (page["live"]["problem_count"], len(page["live"]["problems"])) == (MAX_SHOWN + 5, MAX_SHOWN)
    assert page["credentials"]["fetched"] == 2
    assert [(state["source"], state["last_error"]) for state in page["credentials"]["unusable"]] == [("bad", "403")]
