"use strict";
(() => {
  // Every text that comes from outside goes through textContent; nothing here makes markup out of strings.
  const SVG = "http://www.w3.org/2000/svg";
  const EVERY = 3000; // ms between two questions
  const PATIENCE = 10000; // ms that an answer may take
  const COLOURS = 5; // names that have a colour of their own; the sixth is for the rest
  const PHASES = [
    ["processor", "processor", "s3"],
    ["headers", "backend until headers", "s0"],
    ["first_byte", "until first byte", "s2"],
    ["streaming", "body", "s1"],
    ["rest", "waiting in vain, or body of an error", "wait"],
  ];
  const OUTCOMES = {
    success: "ok", failed: "failed", retried: "retried", refused: "refused", client_cancelled: "client left",
  };
  const STATES = { ready: ["Ready", "good"], draining: ["Draining", "warn"], unready: ["Not ready", "bad"], silent: ["No answer", "bad"] };

  const $ = (id) => document.getElementById(id);
  const sum = (values) => values.reduce((total, value) => total + value, 0);

  function element(tag, attributes = {}, ...children) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    made.append(...children.filter((child) => child !== null));
    return made;
  }
  function shape(tag, attributes = {}, text = "") {
    const made = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    made.textContent = text;
    return made;
  }
  const named = (text) => element("span", { class: "name" }, text);

  // Numbers, durations, times

  const plain = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
  const compact = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
  const count = (value) => (Math.abs(value) < 100000 ? plain : compact).format(value);
  const short = (value) => (value < 1000 && value % 1 ? String(Number(value.toPrecision(2))) : compact.format(value));
  function duration(seconds) {
    if (seconds === null || seconds === undefined) return "–";
    if (seconds < 0.0001) return "<0.1 ms";
    if (seconds < 0.01) return `${(seconds * 1000).toFixed(1)} ms`;
    if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
    if (seconds < 100) return `${Number(seconds.toPrecision(3))} s`;
    return age(seconds);
  }
  function age(seconds) {
    const units = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];
    const first = units.findIndex(([, size]) => seconds >= size);
    if (first < 0) return "0 s";
    const [unit, size] = units[first];
    const whole = Math.floor(seconds / size);
    const next = units[first + 1];
    const rest = next ? Math.floor((seconds - whole * size) / next[1]) : 0;
    return rest ? `${whole} ${unit} ${rest} ${next[0]}` : `${whole} ${unit}`;
  }
  const clock = (seconds, parts = { hour: "2-digit", minute: "2-digit", second: "2-digit" }) =>
    new Date(seconds * 1000).toLocaleTimeString("en-GB", parts);
  const minute = (seconds) => clock(seconds, { hour: "2-digit", minute: "2-digit" });
  const share = (part, whole) => (whole ? `${Number(((100 * part) / whole).toPrecision(2))} %` : "0 %");

  // Charts

  const SIDE = { top: 8, right: 6, bottom: 18, left: 50 };

  function ceiling(value) {
    if (value <= 0) return 1;
    const power = 10 ** Math.floor(Math.log10(value));
    return [1, 2, 4, 5, 10].map((factor) => factor * power).find((rounded) => rounded >= value);
  }

  class Chart {
    /** A chart that keeps its place, its focus and its cursor while its figures change. */
    constructor(title, kind, format, extra = null) {
      this.kind = kind;
      this.format = format;
      this.cursor = null;
      this.series = [];
      this.heading = element("strong", {}, title);
      this.note = element("span", { class: "quiet" });
      this.svg = shape("svg", { class: "chart", role: "img", tabindex: "0" });
      this.legend = element("ul", { class: "legend" });
      const caption = element("figcaption", {}, this.heading, this.note, extra);
      this.figure = element("figure", {}, caption, this.svg, this.legend);
      this.svg.addEventListener("pointermove", (event) => this.point(event));
      this.svg.addEventListener("pointerleave", () => this.moveTo(null));
      this.svg.addEventListener("blur", () => this.moveTo(null));
      this.svg.addEventListener("keydown", (event) => this.key(event));
      new ResizeObserver(() => this.draw()).observe(this.svg);
    }
    show(series, { first, step, points }, note) {
      Object.assign(this, { series, first, step, points, about: note });
      this.draw();
    }
    key(event) {
      const last = this.points - 1;
      const at = this.cursor ?? last;
      const goal = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: last, Escape: null }[event.key];
      if (goal === undefined) return;
      event.preventDefault();
      this.moveTo(goal === null ? null : Math.min(Math.max(goal, 0), last));
    }
    point(event) {
      const box = this.svg.getBoundingClientRect();
      const inner = box.width - SIDE.left - SIDE.right;
      const at = Math.floor(((event.clientX - box.left - SIDE.left) / inner) * this.points);
      this.moveTo(at >= 0 && at < this.points ? at : null);
    }
    moveTo(cursor) {
      if (cursor === this.cursor) return;
      this.cursor = cursor;
      this.draw();
    }
    draw() {
      const width = this.svg.clientWidth, height = this.svg.clientHeight;
      if (!width || !this.points) return;
      const stacked = this.kind === "bars";
      const totals = Array.from({ length: this.points }, (_, at) => sum(this.series.map(({ values }) => values[at] ?? 0)));
      const top = ceiling(Math.max(...(stacked ? totals : this.series.flatMap(({ values }) => values.map((value) => value ?? 0)))));
      const inner = { width: width - SIDE.left - SIDE.right, height: height - SIDE.top - SIDE.bottom };
      const x = (at) => SIDE.left + (at / this.points) * inner.width;
      const y = (value) => SIDE.top + inner.height * (1 - value / top);
      const parts = [];
      for (const part of [0, 0.5, 1]) {
        parts.push(shape("line", { class: "grid", x1: SIDE.left, x2: width - SIDE.right, y1: y(top * part), y2: y(top * part) }));
        parts.push(shape("text", { x: SIDE.left - 5, y: y(top * part) + 4, "text-anchor": "end" }, this.format.axis(top * part)));
      }
      for (const [at, anchor] of [[0, "start"], [this.points / 2, "middle"], [this.points, "end"]])
        parts.push(shape("text", { x: x(at), y: height - 4, "text-anchor": anchor }, minute(this.first + at * this.step)));
      parts.push(...(stacked ? this.bars(x, y) : this.lines(x, y)));
      if (this.cursor !== null)
        parts.push(shape("line", { class: "cursor", x1: x(this.cursor + 0.5), x2: x(this.cursor + 0.5), y1: SIDE.top, y2: y(0) }));
      this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
      this.svg.replaceChildren(...parts);
      this.describe();
    }
    bars(x, y) {
      const parts = [], gap = x(1) - x(0) > 4 ? 1 : 0, reached = new Array(this.points).fill(0);
      for (const { values, colour } of this.series)
        values.forEach((value, at) => {
          if (!value) return;
          const from = y(reached[at]), to = y((reached[at] += value));
          parts.push(shape("rect", { class: `c-${colour}`, x: x(at), width: Math.max(x(1) - x(0) - gap, 1), y: to, height: Math.max(from - to, 1) }));
        });
      return parts;
    }
    lines(x, y) {
      const parts = [];
      for (const { values, colour } of this.series) {
        let path = "", open = false;
        values.forEach((value, at) => {
          if (value === null) { open = false; return; }
          path += `${open ? "L" : "M"}${x(at + 0.5).toFixed(1)} ${y(value).toFixed(1)}`;
          // A value by itself would be a line without length.
          if (!open && (values[at + 1] ?? null) === null) parts.push(shape("circle", { class: `c-${colour}`, cx: x(at + 0.5), cy: y(value), r: 2.5 }));
          open = true;
        });
        parts.unshift(shape("path", { class: `path l-${colour}`, d: path }));
      }
      return parts;
    }
    describe() {
      const at = this.cursor;
      const shown = this.series.map(({ name, colour, values, whole }) => ({ name, colour, value: this.format.value(at === null ? whole : values[at]) }));
      this.note.textContent = at === null ? this.about : clock(this.first + at * this.step);
      this.legend.replaceChildren(...shown.map(({ name, colour, value }) =>
        element("li", {}, element("span", { class: `swatch c-${colour}` }), named(name), element("b", {}, value))));
      const words = shown.map(({ name, value }) => `${name} ${value}`).join(", ") || "nothing";
      this.svg.setAttribute("aria-label", `${this.heading.textContent}, ${this.note.textContent}: ${words}. Arrow keys show points.`);
    }
  }

  const COUNTS = { axis: short, value: (value) => count(value ?? 0) };
  const TIMES = { axis: (value) => (value ? duration(value) : "0"), value: duration };
  const costKey = element("select", { "aria-label": "Cost", hidden: "" });
  const charts = {
    attempts: new Chart("Attempts", "bars", COUNTS),
    errors: new Chart("Errors and retries", "bars", COUNTS),
    tokens: new Chart("Tokens", "bars", COUNTS),
    costs: new Chart("Costs", "bars", COUNTS, costKey),
    latency: new Chart("Latency", "lines", TIMES),
    first_token: new Chart("Time to first token (TTFT)", "lines", TIMES),
  };
  $("charts").append(...Object.values(charts).map(({ figure }) => figure));

  // A name keeps its colour for as long as the page is open.
  const taken = new Map();
  function colourOf(kind, name) {
    const known = taken.get(kind) ?? new Map();
    taken.set(kind, known);
    if (!known.has(name) && known.size < COLOURS) known.set(name, `s${known.size}`);
    return known.get(name) ?? null;
  }
  const add = (one, other) => one.map((value, at) => value + other[at]);

  function split(rows, kind, pick, points) {
    const series = [], rest = { name: "other", colour: "s5", values: new Array(points).fill(0), whole: 0 };
    for (const row of rows) {
      const values = pick(row), colour = row.name === "other" ? null : colourOf(kind, row.name);
      const whole = sum(values);
      if (colour) { if (whole) series.push({ name: row.name || `(no ${kind})`, colour, values, whole }); }
      else { rest.values = add(rest.values, values); rest.whole += whole; }
    }
    return rest.whole ? [...series, rest] : series;
  }

  function drawCharts(traffic, by) {
    const rows = traffic.by[by], points = traffic.points, every = `per ${age(traffic.step)}`;
    const bars = (chart, pick) => chart.show(split(rows, by, pick, points), traffic, every);
    bars(charts.attempts, ({ series }) => series.attempts);
    bars(charts.errors, ({ series }) => add(series.errors, series.retried));
    bars(charts.tokens, ({ series }) => add(series.input, series.output));
    const keys = Object.keys(traffic.overall.costs).sort();
    if (keys.join("\n") !== [...costKey.options].map(({ value }) => value).join("\n")) {
      const chosen = costKey.value;
      costKey.replaceChildren(...keys.map((key) => element("option", { value: key }, key)));
      if (keys.includes(chosen)) costKey.value = chosen;
    }
    costKey.hidden = keys.length < 2;
    const key = costKey.value;
    charts.costs.heading.textContent = keys.length === 1 ? `Costs: ${key}` : "Costs";
    bars(charts.costs, ({ series }) => series.costs[key] ?? new Array(points).fill(0));
    for (const name of ["latency", "first_token"]) {
      const lines = traffic[name], whole = traffic.overall[name];
      charts[name].show(["p99", "p90", "p50"].map((which) =>
        ({ name: which, colour: which, values: lines[which], whole: whole && whole[which] })), traffic, whole ? `of ${count(whole.count)}` : "no values");
    }
  }

  // Tiles and tables

  function fact(name, value, ...more) {
    return element("div", {}, element("dt", {}, name), element("dd", {}, value), ...more.map((text) => element("dd", {}, text)));
  }

  function drawTiles({ overall, step, first, points }, now) {
    const { attempts, errors, refused, retried, cancelled, tokens, latency, first_token: token } = overall;
    const requests = attempts - retried;
    const lately = Math.max(1, now - (first + (points - 4) * step));
    const rate = sum(overall.series.attempts.slice(-4)) / lately;
    const failed = fact("Errors", share(errors, requests), `${count(errors - refused)} failed · ${count(refused)} refused · ${count(retried)} retried · ${count(cancelled)} left by the client`);
    failed.classList.toggle("hurt", errors > 0);
    const three = (name, values) => fact(name, values ? duration(values.p50) : "–", values ? `median · p90 ${duration(values.p90)} · p99 ${duration(values.p99)}` : "no values");
    const costs = Object.entries(overall.costs).sort();
    $("tiles").replaceChildren(
      fact("Requests", count(requests), `${Number(rate.toPrecision(2))} attempts a second now`),
      failed,
      three("Latency", latency),
      three("Time to first token (TTFT)", token),
      fact("Tokens", count(tokens.input + tokens.output), `${count(tokens.input)} in (${count(tokens.cached)} cached) · ${count(tokens.output)} out`),
      costs.length
        ? fact("Costs", count(costs[0][1]), costs.map(([key, value]) => `${key} ${count(value)}`).join(" · "))
        : fact("Costs", "–", "no cost rule has counted"),
    );
  }

  function table(id, columns, rows, nothing) {
    const [head, body] = $(id).children;
    if (head.childElementCount !== 1 || head.firstChild.childElementCount !== columns.length)
      head.replaceChildren(element("tr", {}, ...columns.map(({ title, left }) => element("th", { scope: "col", class: left ? "left" : "" }, title))));
    if (!rows.length) {
      body.replaceChildren(element("tr", {}, element("td", { class: "empty wide", colspan: columns.length }, nothing)));
      return;
    }
    body.replaceChildren(...rows.map((row) => element("tr", {}, ...columns.map(({ title, cell, mark }, at) => {
      const content = [cell(row)].flat();
      const made = at === 0
        ? element("th", { scope: "row" }, ...content)
        : element("td", { "data-label": title, class: mark ? mark(row) : "" }, element("span", {}, ...content));
      return made;
    }))));
  }

  function listed(costs) {
    const lines = Object.entries(costs).sort().map(([key, value]) => element("span", { class: "line" }, named(key), ` ${count(value)}`));
    return lines.length ? lines : "–";
  }

  const ROWS = [
    { title: "Attempts", cell: ({ attempts }) => count(attempts) },
    { title: "Errors", cell: ({ errors, attempts }) => (errors ? `${count(errors)} (${share(errors, attempts)})` : "0"), mark: ({ errors }) => (errors ? "hurt" : "") },
    { title: "Retried", cell: ({ retried }) => count(retried) },
    { title: "Client left", cell: ({ cancelled }) => count(cancelled) },
    { title: "Tokens in", cell: ({ tokens }) => count(tokens.input) },
    { title: "Tokens out", cell: ({ tokens }) => count(tokens.output) },
    { title: "Latency p50", cell: ({ latency }) => duration(latency && latency.p50) },
    { title: "Latency p99", cell: ({ latency }) => duration(latency && latency.p99) },
    { title: "TTFT p50", cell: ({ first_token: token }) => duration(token && token.p50) },
    { title: "TTFT p99", cell: ({ first_token: token }) => duration(token && token.p99) },
    { title: "Costs", cell: ({ costs }) => listed(costs), mark: () => "long" },
  ];

  function drawRows(rows, by) {
    const title = by[0].toUpperCase() + by.slice(1);
    $("rows-title").textContent = `By ${by}`;
    const first = { title, cell: ({ name }) => named(name || `(no ${by})`) };
    table("rows", [first, ...ROWS], rows, "Nothing has ended in this window.");
    $("rows").querySelector("th").textContent = title;
  }

  /** Names, lengths and colours of the phases of an attempt; an error has no first byte of an answer. */
  function phasesOf({ phases, seconds, status, backend }) {
    if (!backend) return [];
    const known = PHASES.map(([key, name, colour]) => ({ name, colour, length: phases[key] ?? 0 })).filter(({ length }) => length > 0);
    const rest = seconds - sum(known.map(({ length }) => length));
    const name = phases.headers === null ? "waiting for headers" : status >= 300 ? "body of the error" : "waiting for the body";
    return rest > Math.max(seconds * 0.005, 1e-4) ? [...known, { name, colour: "wait", length: rest }] : known;
  }

  function bar(attempt) {
    const drawn = shape("svg", { class: "bar", role: "img", "aria-label": "phases, see the text below" });
    let reached = 0;
    for (const { colour, length } of phasesOf(attempt)) {
      const part = (100 * length) / (attempt.seconds || 1);
      drawn.append(shape("rect", { class: `c-${colour}`, x: `${reached}%`, width: `${Math.max(part, 0.3)}%`, height: "100%" }));
      reached += part;
    }
    return drawn;
  }

  const SLOWEST = [
    { title: "Request", left: true, cell: ({ request_id: id, model, asked }) => [
      named(model || "(no model)"), ...(asked && asked !== model ? [element("span", { class: "split" }, " asked as ", named(asked))] : []),
      element("br"), element("code", { class: "copy" }, id || "no request id")] },
    { title: "Ended", left: true, cell: ({ at }) => clock(at) },
    { title: "Backend, route", left: true, mark: () => "long", cell: ({ backend, route }) => [
      named(backend || "–"), ...(route ? [element("br"), element("span", { class: "split name" }, route)] : [])] },
    { title: "Status", left: true, cell: ({ status, outcome }) => `${status || "–"} ${OUTCOMES[outcome] ?? outcome}`,
      mark: ({ outcome }) => (outcome === "failed" || outcome === "refused" ? "hurt" : "") },
    { title: "Tokens", left: true, cell: ({ tokens }) => [`${count(tokens.input)} in`, element("br"), `${count(tokens.output)} out`] },
    { title: "Took", cell: ({ seconds }) => element("b", {}, duration(seconds)), mark: () => "number" },
    { title: "Phases", left: true, mark: () => "wide", cell: (attempt) => [
      bar(attempt), element("span", { class: "split" },
        phasesOf(attempt).map(({ name, length }) => `${name} ${duration(length)}`).join(" · ") || "answered before a backend was asked")] },
  ];
  $("phases").append(...PHASES.map(([, name, colour]) => element("li", {}, element("span", { class: `swatch c-${colour}` }), name)));

  const WORKERS = [
    { title: "Worker", left: true, cell: ({ worker }) => worker },
    { title: "State", cell: ({ state }) => state, mark: ({ state }) => (state === "serving" ? "" : "hurt") },
    { title: "Config", cell: ({ hash, refused }) => [element("code", {}, (hash || "none").slice(0, 12)), refused ? ` refused ${refused.hash.slice(0, 12)}: ${refused.reason}` : ""],
      mark: ({ refused }) => (refused ? "hurt" : "") },
    { title: "Connections", cell: ({ connections }) => count(connections) },
    { title: "In flight", cell: ({ requests_in_flight: flying }) => count(flying) },
    { title: "Deaths", cell: ({ deaths }) => count(deaths) },
  ];

  // Config and state

  function alertOf(level, title, text) {
    return element("div", { class: `alert ${level}` }, element("strong", {}, title), named(text));
  }

  const when = (iso) => `${new Date(iso).toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "medium" })}`;

  function drawConfig({ live, loads, refusals, last_refused: refused, credentials }, process) {
    const facts = [];
    facts.push(fact("Version", `${process.version}, for gateway ${process.claimed}`));
    if (live) {
      facts.push(fact("Hash", element("code", { class: "copy", title: "SHA-256 of the config" }, live.hash)));
      facts.push(fact("Live since", element("time", { datetime: live.since }, `${when(live.since)} (${age(live.age_seconds)})`)));
      facts.push(fact("Backends", `${count(live.backends)}${live.disabled ? `, ${count(live.disabled)} disabled` : ""}`));
    } else facts.push(fact("Live", "no config yet"));
    facts.push(fact("Configs", `${count(loads)} loaded, ${count(refusals)} refused`));
    if (credentials && credentials.fetched) facts.push(fact("Fetched credentials", `${count(credentials.fetched)}, ${count(credentials.unusable.length)} unusable`));
    if (refused) {
      facts.push(fact("Last refused", element("time", { datetime: refused.at }, `${when(refused.at)} (${age(refused.age_seconds)} ago)`),
        element("code", { class: "copy" }, refused.hash ?? "unreadable"), named(refused.reason)));
    }
    $("config").replaceChildren(...facts);
    const problems = live ? live.problems : [];
    const box = $("problems"), [head, list] = box.children;
    box.hidden = !problems.length;
    head.textContent = live ? `Remarks on the live config: ${count(live.problem_count)}` : "";
    list.replaceChildren(...problems.map(({ severity, path, message }) => element("li", {}, named(`${severity}${path ? ` at ${path}` : ""}: ${message}`))));
  }

  let seen = null; // the last answer
  let silentSince = null;

  function drawAlerts() {
    const alerts = [];
    if (silentSince) alerts.push(alertOf("bad", `No answer since ${clock(silentSince / 1000)}`, seen ? "What is shown is from before." : "The processor does not answer."));
    if (seen) {
      const { live, last_refused: refused, credentials } = seen.config;
      if (refused && refused.current) alerts.push(alertOf("bad", "The newest config was refused; the one before is live", refused.reason));
      for (const [name, reason] of Object.entries(live ? live.disabled_backends : {})) alerts.push(alertOf("warn", `Backend ${name} is disabled`, reason));
      for (const { source, last_error: error } of credentials ? credentials.unusable : []) alerts.push(alertOf("bad", `No credential from ${source}`, error ?? "not fetched yet"));
    }
    // What has not changed is not said again to who listens.
    const text = alerts.map(({ textContent }) => textContent).join("\n");
    if (text === drawAlerts.said) return;
    drawAlerts.said = text;
    $("alerts").replaceChildren(...alerts);
  }

  function drawState() {
    const { process } = seen ?? {};
    const [text, level] = STATES[silentSince || !process ? "silent" : process.draining ? "draining" : process.ready ? "ready" : "unready"];
    const state = $("state");
    if (state.textContent !== text) state.textContent = text;
    state.className = `badge ${level}`;
    document.title = `${text} · extproc console`;
    if (!process) return;
    const workers = process.workers ? ` · ${process.workers.filter(({ state: is }) => is === "serving").length} of ${process.workers.length} workers` : "";
    const { live } = seen.config;
    const config = live ? `config ${live.hash.slice(0, 8)} live for ${age(live.age_seconds)}` : "no config";
    $("process").textContent = `${config} · ${count(process.requests_in_flight)} in flight${workers} · up ${age(seen.now - process.started_at)}`;
  }

  function draw() {
    drawAlerts();
    drawState();
    if (!seen) return;
    const chosen = document.getSelection();
    // Somebody is copying: what they have marked stays where it is.
    if (chosen && !chosen.isCollapsed && $("main").contains(chosen.anchorNode)) return;
    const { by } = choice();
    drawConfig(seen.config, seen.process);
    drawTiles(seen.traffic, seen.now);
    drawCharts(seen.traffic, by);
    drawRows(seen.traffic.by[by], by);
    table("slowest", SLOWEST, seen.traffic.slowest, "Nothing has ended in this window.");
    $("workers-panel").hidden = !seen.process.workers;
    if (seen.process.workers) table("workers", WORKERS, seen.process.workers, "");
  }

  // Asking

  const controls = $("controls"), live = $("live");
  const choice = () => ({ window: controls.elements.window.value, by: controls.elements.by.value });
  let timer = 0, asked = 0;

  async function ask() {
    clearTimeout(timer);
    const number = ++asked;
    try {
      const answer = await fetch(`console/data?window=${choice().window}`, { cache: "no-store", signal: AbortSignal.timeout(PATIENCE) });
      if (!answer.ok) throw new Error(`status ${answer.status}`);
      const figures = await answer.json();
      if (number !== asked) return;
      seen = figures;
      silentSince = null;
    } catch {
      if (number !== asked) return;
      silentSince ??= Date.now();
    }
    draw();
    plan();
  }
  function plan() {
    clearTimeout(timer);
    if (live.getAttribute("aria-pressed") === "true" && !document.hidden) timer = setTimeout(ask, EVERY);
  }

  live.addEventListener("click", () => {
    const on = live.getAttribute("aria-pressed") !== "true";
    live.setAttribute("aria-pressed", String(on));
    live.textContent = on ? "Live" : "Paused";
    if (on) ask(); else clearTimeout(timer);
  });
  document.addEventListener("visibilitychange", () => { if (!document.hidden && live.getAttribute("aria-pressed") === "true") ask(); });
  controls.addEventListener("submit", (event) => event.preventDefault());
  controls.addEventListener("change", (event) => {
    history.replaceState(null, "", `#${new URLSearchParams(choice())}`);
    if (event.target.name === "window") ask(); else draw();
  });
  costKey.addEventListener("change", draw);
  for (const [name, value] of new URLSearchParams(location.hash.slice(1))) {
    const known = [...controls.querySelectorAll("input")].find((input) => input.name === name && input.value === value);
    if (known) known.checked = true;
  }
  ask();
})();
