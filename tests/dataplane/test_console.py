"""The console shows the traffic that a real Envoy has just carried: its figures, and the page in a real browser."""

from __future__ import annotations

import json
import os
import re
import socket
from pathlib import Path

import httpx
import pytest

from deploy.envoy.model import Retry
from tests.bench.tools import at_hand
from tests.dataplane.harness.client import CHAT, OpenAnswer, connect, new_id, question
from tests.dataplane.harness.documents import backend, cost, filter_config, route, rule
from tests.dataplane.harness.replies import Gate, chat_chunks, chat_completion, json_reply, stream_reply
from tests.dataplane.harness.waiting import wait_until

ANSWER = json_reply(chat_completion("real", prompt=11, completion=7))
CHUNKS = chat_chunks("real", "a", "b", prompt=11, completion=7)
ASKED = {"stream": True, "stream_options": {"include_usage": True}}
SCREENSHOTS = Path(
    os.environ.get("EXTPROC_SCREENSHOTS") or Path(__file__).resolve().parents[2] / ".cache" / "screenshots"
)
# A route may take every model: whatever a client writes is then shown.
HOSTILE = "<img src=x onerror=document.title='taken'>\"'&amp;"


@pytest.fixture(scope="module")
def upstream(start_upstream):
    return start_upstream("first")


@pytest.fixture(scope="module")
def second(start_upstream):
    return start_upstream("second")


@pytest.fixture(scope="module")
def where(upstream, second):
    return route(
        rule(upstream, models=["small"]),
        rule(upstream, second, models=["both"], retry=Retry()),
        rule(upstream, models=[HOSTILE]),
    )


@pytest.fixture(scope="module")
def config(where):
    return filter_config(
        backend(where.backend_name(0, 0), model="real", key="sk-first"),
        backend(where.backend_name(1, 0), key="sk-first"),
        backend(where.backend_name(1, 1), key="sk-second"),
        backend(where.backend_name(2, 0), key="sk-first"),
        globalLLMRequestCosts=[cost("llm_cost"), cost("ten_per_output", cel="output_tokens * 10u")],
    )


@pytest.fixture(scope="module", params=["one process", "two workers"])
def stack(request, start_stack, where, config):
    arguments = ("-workers", "2") if request.param == "two workers" else ()
    return start_stack(routes=[where], config=config, processor_arguments=arguments)


def figures(stack, window="5m"):
    status, text = stack.processor.admin(f"/console/data?window={window}")
    assert status == 200, text
    return json.loads(text)


def row(stack, name, by="model"):
    return next((row for row in figures(stack)["traffic"]["by"][by] if row["name"] == name), None)


def ended(stack):
    return figures(stack)["traffic"]["overall"]["attempts"]


@pytest.fixture(scope="module")
def traffic(stack, upstream, second):
    """Sends one of each, waits until all are counted, and gives their request ids."""
    assert ended(stack) == 0
    ids = {}

    def send(name, *, model="small", document=None, reply=ANSWER, status=200):
        ids[name] = new_id(name.replace(" ", "-"))
        if reply is not None:
            upstream.reply(reply)
        asked = question(model) if document is None else document
        response = client.post(CHAT, json=asked, headers={"x-request-id": ids[name]})
        assert response.status_code == status

    with connect(stack) as client:
        send("success")
        send("another")
        send("refused by the backend", reply=json_reply({"error": {"message": "no"}}, status=400), status=400)
        send("failed", reply=json_reply({"error": {"message": "down"}}, status=503), status=503)
        second.reply(ANSWER)
        send("failover", model="both", reply=json_reply({"error": {"message": "busy"}}, status=503))
        send("hostile", model=HOSTILE)
        send("malformed", document=[], reply=None, status=400)
        send("of no route", model="nobody", reply=None, status=404)
    ids["stream"] = new_id("stream")
    upstream.reply(stream_reply(*CHUNKS))
    with OpenAnswer(stack, question(**ASKED), **{"x-request-id": ids["stream"]}) as answer:
        assert answer.rest() == b"".join(CHUNKS)
    ids["left"] = new_id("left")
    gate = Gate()
    upstream.reply(stream_reply(CHUNKS[0], gate, *CHUNKS[1:]))
    with OpenAnswer(stack, question(**ASKED), **{"x-request-id": ids["left"]}) as answer:
        answer.until(b'"a"')
    gate.open()
    wait_until(lambda: ended(stack) == 11, "everything that was sent is counted")
    return ids


def test_the_figures_are_those_of_the_traffic_just_sent(stack, traffic):
    whole = figures(stack)["traffic"]["overall"]
    assert {key: whole[key] for key in ("attempts", "succeeded", "errors", "refused", "retried", "cancelled")} == {
        "attempts": 11,
        "succeeded": 5,
        "errors": 4,
        "refused": 2,
        "retried": 1,
        "cancelled": 1,
    }
    assert whole["tokens"] == {"input": 55, "cached": 0, "output": 35, "reasoning": 0}
    assert whole["costs"] == {"llm_cost": 90, "ten_per_output": 350}
    assert whole["latency"]["count"] == 5
    assert whole["first_token"]["count"] == 1
    for series in ("attempts", "succeeded", "errors", "retried", "cancelled"):
        assert sum(whole["series"][series]) == whole[series]


def test_they_are_split_by_model_backend_and_route(stack, traffic):
    counted = ("attempts", "errors", "retried", "cancelled")
    by = {
        kind: {row["name"]: tuple(row[key] for key in counted) for row in rows}
        for kind, rows in figures(stack)["traffic"]["by"].items()
    }
    refused = (1, 1, 0, 0)
    assert by["model"] == {
        "real": (6, 2, 0, 1),
        "both": (2, 0, 1, 0),
        HOSTILE: (1, 0, 0, 0),
        "": refused,
        "nobody": refused,
    }
    unsent = {"": (2, 2, 0, 0)}
    assert by["backend"] == {"default/first": (8, 2, 1, 1), "default/second": (1, 0, 0, 0)} | unsent
    assert by["route"] == {"default/llm": (9, 2, 1, 1)} | unsent


def test_the_slowest_say_where_their_time_went(stack, traffic):
    slowest = {(entry["request_id"], entry["outcome"]): entry for entry in figures(stack)["traffic"]["slowest"]}
    # Of eleven, the ten slowest are kept; those that were refused at once took no time.
    assert len(slowest) == 10
    for entry in slowest.values():
        if not entry["backend"]:
            assert (entry["outcome"], entry["seconds"]) == ("refused", 0)
            assert entry["status"] in (400, 404)
            continue
        spent = [seconds for seconds in entry["phases"].values() if seconds is not None]
        assert sum(spent) <= entry["seconds"] + 1e-5
        assert entry["phases"]["processor"] > 0
    stream = slowest[traffic["stream"], "success"]
    assert (stream["model"], stream["asked"], stream["streamed"], stream["status"]) == ("real", "small", True, 200)
    assert all(seconds is not None for seconds in stream["phases"].values())
    left = slowest[traffic["left"], "client_cancelled"]
    assert left["phases"]["first_byte"] is not None
    failed = slowest[traffic["failed"], "failed"]
    assert (failed["status"], failed["phases"]["first_byte"]) == (503, None)
    # Envoy keeps the answer of an attempt that it gives up to itself.
    given_up = slowest[traffic["failover"], "retried"]
    assert (given_up["status"], given_up["phases"]["headers"]) == (0, None)


def test_the_live_config_and_the_last_refused_one_are_shown(stack, traffic, config):
    live = stack.live_config()["live"]
    shown = figures(stack)["config"]
    assert (shown["live"]["hash"], shown["live"]["since"]) == (live["hash"], live["since"])
    refused = stack.swap_config(b"backends: none", wait=False)
    wait_until(lambda: (figures(stack)["config"]["last_refused"] or {}).get("hash") == refused, "it is refused")
    shown = figures(stack)["config"]
    assert shown["last_refused"]["current"]
    assert "backends" in shown["last_refused"]["reason"]
    assert shown["live"]["hash"] == live["hash"]
    stack.swap_config(config)


def test_who_comes_over_the_network_does_not_see_it(stack):
    # A name of this machine that is not a loopback one, if it has any.
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
            address = probe.getsockname()[0]
        except OSError:
            pytest.skip("this machine has no address beside the loopback ones")
    with httpx.Client(base_url=f"http://{address}:{stack.processor.admin_port}", trust_env=False) as client:
        for path in ("/", "/console/data"):
            response = client.get(path)
            assert response.status_code == 403
            assert response.text.startswith(f"the console is not shown here: {address} is not among the peers")
        assert client.get("/ready").status_code == 200


# In a browser


@pytest.fixture(scope="module")
def browser():
    found = at_hand("chromium")
    if found is None:
        pytest.skip("there is no chromium here: `make browser` fetches it where apt can")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(
            executable_path=found.path,
            env={**os.environ, **found.environment},
            # The sandbox needs rights that a container seldom has; what is shown is our own page.
            args=["--no-sandbox"],
        )
        yield started
        started.close()


@pytest.fixture
def open_page(browser, stack):
    """Opens the console, and fails if its browser had anything to complain of."""
    complaints, contexts = [], []

    def opened(width=1280, scheme="light", fragment=""):
        context = browser.new_context(viewport={"width": width, "height": 844}, color_scheme=scheme)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("requestfailed", lambda request: complaints.append(f"{request.url}: {request.failure}"))
        page.goto(f"http://127.0.0.1:{stack.processor.admin_port}/{fragment}")
        page.get_by_role("status").filter(has_text="Ready").wait_for()
        return page

    yield opened
    for context in contexts:
        context.close()
    assert complaints == []


def tile(page, name):
    return page.locator("#tiles > div").filter(has=page.get_by_text(name, exact=True))


def test_the_page_shows_exactly_that(stack, traffic, open_page):
    page = open_page(fragment="#window=5m&by=model")
    assert tile(page, "Requests").locator("dd").first.inner_text() == "10"
    errors = "2 failed · 2 refused · 1 retried · 1 left by the client"
    assert tile(page, "Errors").locator("dd").all_inner_texts() == ["40 %", errors]
    assert tile(page, "Tokens").locator("dd").all_inner_texts() == ["90", "55 in (0 cached) · 35 out"]
    assert tile(page, "Costs").locator("dd").last.inner_text() == "llm_cost 90 · ten_per_output 350"
    rows = page.locator("#rows tbody tr")
    assert rows.locator("th").all_inner_texts() == ["real", "both", "(no model)", HOSTILE, "nobody"]
    assert rows.first.locator("td").all_inner_texts()[:4] == ["6", "2 (33 %)", "0", "1"]
    ids = page.locator("#slowest code").all_inner_texts()
    # One of the two that were refused at once has no room.
    assert {*ids} <= {*traffic.values()}
    assert {*traffic.values()} - {*ids} <= {traffic["malformed"], traffic["of no route"]}
    assert page.get_by_text("answered before a backend was asked").count() == 1
    assert page.locator("#config code").first.inner_text() == stack.live_config()["live"]["hash"]
    # What a client wrote is text: no element came of it, and nothing ran.
    assert page.locator("img").count() == 0
    assert page.title() == "Ready · extproc console"


def test_the_charts_have_bars_for_what_was_sent(traffic, open_page):
    page = open_page(fragment="#window=5m")
    legends = page.locator("figure").filter(has=page.get_by_text("Attempts", exact=True)).locator("li")
    assert legends.all_inner_texts() == ["real\n6", "both\n2", "(no model)\n1", f"{HOSTILE}\n1", "nobody\n1"]
    assert page.locator("figure rect").count() >= 6
    page.get_by_role("radio", name="Backend").check()
    assert legends.all_inner_texts() == ["default/first\n8", "(no backend)\n2", "default/second\n1"]


def test_it_is_live(stack, traffic, upstream, open_page):
    page = open_page(fragment="#window=5m")
    before = int(tile(page, "Requests").locator("dd").first.inner_text())
    upstream.reply(ANSWER)
    with connect(stack) as client:
        assert client.post(CHAT, json=question()).status_code == 200
    tile(page, "Requests").locator("dd").first.filter(has_text=re.compile(f"^{before + 1}$")).wait_for(timeout=15_000)


def test_everything_can_be_reached_and_used_by_keyboard(traffic, open_page):
    page = open_page(fragment="#window=15m&by=model")
    reached = []
    for _ in range(13):
        page.keyboard.press("Tab")
        reached.append(
            page.evaluate(
                "(e => e.textContent.trim().slice(0, 20) && !e.matches('svg, select') ? e.textContent.trim()"
                " : e.getAttribute('aria-label')?.split(',')[0] ?? e.name)(document.activeElement)"
            )
        )
        if reached[-1] == "by":
            page.keyboard.press("ArrowRight")
            page.locator("#rows-title").filter(has_text="By backend").wait_for()
    assert [name for name in reached if name in ("window", "by", "Live")] == ["window", "by", "Live"]
    assert (reached[0], reached[-2:]) == ("Skip to the figures", ["metrics", "config"])
    charts = ["Attempts", "Errors and retries", "Tokens", "Costs", "Latency", "Time to first token (TTFT)"]
    assert [name for name in reached if name in charts] == charts
    chart = page.get_by_role("img", name=re.compile("^Attempts"))
    chart.focus()
    page.keyboard.press("End")
    assert re.match(r"Attempts, \d\d:\d\d:\d\d: ", chart.get_attribute("aria-label"))
    page.keyboard.press("Escape")
    assert chart.get_attribute("aria-label").startswith("Attempts, per 15 s: default/first ")


def test_a_pause_stops_asking(traffic, open_page):
    page = open_page()
    page.get_by_role("button", name="Live").click()
    assert page.get_by_role("button", name="Paused").get_attribute("aria-pressed") == "false"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_it_fits_the_screen(stack, traffic, open_page, width, scheme):
    page = open_page(width, scheme, "#window=5m")
    page.locator("#slowest tbody tr").first.wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") == width
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, re.findall(r"\d+", ground)[:3])) < 384) == (scheme == "dark")
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    how = "workers" if figures(stack)["process"]["workers"] else "console"
    path = SCREENSHOTS / f"{how}-{width}-{scheme}.png"
    page.screenshot(path=path, full_page=True)
    assert path.stat().st_size > 10_000
