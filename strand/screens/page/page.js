// The live page of a run: takes what the server saw, the newest last, and shows it.
"use strict";
(() => {
  const NONE = "–", KEPT = 1500;
  const $ = (id) => document.getElementById(id);
  const exact = (value, digits = 0) =>
    value == null ? NONE : value.toLocaleString("en-US", { maximumFractionDigits: digits });
  const rate = (value) => (value == null ? NONE : Math.abs(value) < 1e5 ? exact(value) : brief(value));
  const brief = (value) =>
    value == null ? NONE : value.toLocaleString("en-US", { notation: "compact", maximumSignificantDigits: 4 });
  const share = (value) => (value == null ? NONE : `${(100 * value).toFixed(1)} %`);
  const span = (seconds) => {
    if (seconds == null) return NONE;
    const [unit, size] = [["ns", 1e-9], ["µs", 1e-6], ["ms", 1e-3]].find(([, each]) => seconds < 999.5 * each) || ["s", 1];
    return `${Number((seconds / size).toPrecision(3)).toLocaleString("en-US")} ${unit}`;
  };
  // Without the name and password that the page's own address may have.
  const at = (path) => new URL(path, location.origin + location.pathname);
  const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  // ---- tables: their cells are changed where they are, so that a selection and the focus stay

  const wrote = (node, text) => {
    if (node.textContent !== text) node.textContent = text;
  };
  const put = (cell, value) => {
    if (value == null || typeof value !== "object") return wrote(cell, value == null ? NONE : String(value));
    if (value.ask != null) {
      if (cell.firstChild?.nodeName !== "BUTTON") {
        const button = document.createElement("button");
        button.type = "button";
        button.addEventListener("click", () => ask(button.dataset.symbol));
        cell.replaceChildren(button);
      }
      cell.firstChild.dataset.symbol = value.ask;
      return wrote(cell.firstChild, value.text);
    }
    if (cell.childNodes.length !== 2) {
      const bar = document.createElement(value.meter ? "span" : "i");
      if (value.meter) bar.append(document.createElement("i"));
      bar.className = value.meter ? "bar" : "";
      bar.setAttribute("aria-hidden", "true");
      cell.replaceChildren(bar, document.createTextNode(""));
    }
    const [bar, text] = cell.childNodes;
    (value.meter ? bar.firstChild : bar).style.width = `${(100 * Math.min(1, value.part || 0)).toFixed(1)}%`;
    if (text.data !== value.text) text.data = value.text;
  };
  const fill = (id, rows) => {
    const body = $(id).tBodies[0], hidden = [...$(id).tHead.rows[0].cells].map((cell) => cell.className);
    while (body.rows.length > rows.length) body.deleteRow(-1);
    rows.forEach((row, at) => {
      const line = body.rows[at] || body.insertRow();
      row.forEach((value, place) => {
        const cell = line.cells[place] || line.insertCell();
        cell.className = hidden[place];
        put(cell, value);
      });
    });
    return body.rows;
  };

  // ---- charts

  const axis = (values, more) => ({
    stroke: () => color("--quiet"), grid: { stroke: () => color("--rule"), width: 1 }, ticks: { show: false },
    font: "12px system-ui, sans-serif", values: values && ((_, found) => found.map((value) => (value == null ? "" : values(value)))), ...more,
  });
  const series = (label, name, show, more) => ({
    label, stroke: () => color(name), width: 1.5, points: { show: false }, value: (_, value) => show(value), ...more,
  });
  const charts = [];
  const chart = (id, x, y, lines, more) => {
    const box = $(id);
    const made = new uPlot(
      { width: Math.max(200, box.clientWidth), height: 170, cursor: { drag: { x: false, y: false } }, axes: [x, y], series: [more.first, ...lines], scales: more.scales },
      [[], ...lines.map(() => [])],
      box,
    );
    new ResizeObserver(() => made.setSize({ width: Math.max(200, box.clientWidth), height: 170 })).observe(box);
    charts.push(made);
    return made;
  };
  const clock = (seconds) => (seconds == null ? NONE : new Date(1000 * seconds).toISOString().slice(11, 19));
  const FROM_ZERO = { y: { range: (_, low, high) => [0, high > 0 ? high * 1.1 : 1] } };
  const overTime = (id, y, lines) =>
    chart(id, axis(clock, { space: 75 }), axis(y, { size: 62 }), lines, { first: { label: "UTC", value: (_, value) => clock(value) }, scales: FROM_ZERO });
  const throughput = overTime("throughput", brief, [series("ticks", "--one", rate), series("tasks", "--two", rate)]);
  const lags = overTime("lag", (value) => span(value), [series("lag", "--one", span)]);
  const stepped = { paths: uPlot.paths.stepped({ align: 1 }) };
  const percent = (value) => (value == null ? NONE : `${value.toFixed(1)} %`);
  const times = chart(
    "times",
    axis((value) => span(value), { space: 50, grid: { show: false } }),
    axis((value) => `${value} %`, { size: 62 }),
    [series("wait", "--one", percent, stepped), series("handler", "--two", percent, stepped), series("end to end", "--three", percent, stepped)],
    { first: { label: "from", value: (_, value) => span(value) }, scales: { x: { time: false, distr: 3 }, ...FROM_ZERO } },
  );
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => charts.forEach((each) => each.redraw()));

  const history = { at: [], tick: [], task: [], lag: [] };
  const remember = (run) => {
    if (run.at <= history.at[history.at.length - 1]) return;
    const of = (kind) => run.kinds.find((each) => each.kind === kind)?.per_s ?? null;
    history.at.push(run.at);
    history.tick.push(of("tick"));
    history.task.push(of("task"));
    history.lag.push(run.lag);
    if (history.at.length > KEPT) Object.values(history).forEach((each) => each.shift());
  };
  const draw = (run) => {
    throughput.setData([history.at, history.tick, history.task]);
    for (const [place, kind] of [[1, "tick"], [2, "task"]]) {
      const there = run.kinds.some((each) => each.kind === kind);
      if (throughput.series[place].show !== there) throughput.setSeries(place, { show: there });
    }
    const knows = history.lag.some((each) => each != null);
    $("lag-box").hidden = !knows;
    if (knows) lags.setData([history.at, history.lag]);
    const kinds = run.kinds.map((each) => each.kind), select = $("kind");
    if (kinds.join() !== [...select.options].map((each) => each.value).join())
      select.replaceChildren(...kinds.map((kind) => new Option(`${kind}s`, kind)));
    const found = run.kinds.find((each) => each.kind === select.value);
    if (!found) return;
    const parts = ["wait", "handler", "end_to_end"].map((name) => {
      const counts = found.times[name], sum = counts.reduce((a, b) => a + b, 0);
      return counts.map((n) => (sum ? (100 * n) / sum : null));
    });
    // A bucket ends where the next one begins; the last one too.
    const ends = found.from.length ? [2 * found.from[found.from.length - 1]] : [];
    times.setData([[...found.from, ...ends].map((each) => Math.max(each, 1e-9)), ...parts.map((part) => [...part, ...ends.map(() => 0)])]);
    $("times-of").textContent = found.seconds == null ? "since the start" : `last ${span(Math.round(found.seconds))}`;
    $("times-note").textContent = !found.from.length ? "Nothing was counted yet." : run.paced ? "" : "As fast as it goes, a wait is how long a tick was in a queue.";
  };

  // ---- figures

  const sum = (numbers) => Object.values(numbers).reduce((a, b) => a + b, 0);
  const cards = (run) => {
    const found = [];
    for (const each of run.kinds) {
      found.push([`${each.kind}s accepted`, exact(each.accepted), `${rate(each.per_s)} per s`]);
      found.push([`${each.kind}s pending`, exact(each.pending), ""]);
    }
    const lag = run.recorded ? "a replay has none" : run.lag == null ? "known with timers or outputs" : "";
    found.push(["Lag", span(run.lag), lag]);
    found.push(["Outputs' backlog", exact(run.backlog), run.backlog == null ? "the run has no outputs" : "ticks"]);
    found.push(["Imbalance", run.imbalance == null ? NONE : run.imbalance.toFixed(2), "1 is even"]);
    found.push(["Newest tick", run.feed_time == null ? NONE : run.feed_time.slice(11, 19), run.feed_time?.slice(0, 10) ?? ""]);
    const box = $("cards");
    while (box.children.length > found.length) box.lastChild.remove();
    found.forEach((texts, at) => {
      if (!box.children[at]) {
        const card = document.createElement("div");
        card.append(document.createElement("dt"), document.createElement("dd"), document.createElement("dd"));
        card.lastChild.className = "quiet";
        box.append(card);
      }
      texts.forEach((text, place) => wrote(box.children[at].children[place], text));
    });
  };
  const limit = (alert) => (alert.unit === "ratio" ? share(alert.limit) : alert.unit === "seconds" ? span(alert.limit) : `${exact(alert.limit)} ${alert.unit}`);
  const alerts = (found) => {
    const lines = found == null ? ["No rules are watched."] : found.length ? found : ["None fires."];
    const box = $("alerts");
    while (box.children.length > lines.length) box.lastChild.remove();
    lines.forEach((line, at) => {
      const item = box.children[at] || box.appendChild(document.createElement("li"));
      const of = line.level === "all" ? "" : ` of ${line.level}`;
      wrote(item, line.rule ? `${line.severity}: ${line.rule}${of}: ${line.text}, ${line.is_low ? "below" : "above"} ${limit(line)}` : line);
      item.className = line.severity || "quiet";
    });
  };
  const show = (run) => {
    $("name").textContent = run.name || `${run.kind} of process ${run.pid}`;
    document.title = `${$("name").textContent} · Strand`;
    wrote($("about"), [run.kind, `process ${run.pid}`, run.policy, run.handlers.join(", "), `strand ${run.version}`].filter(Boolean).join(" · "));
    cards(run);
    alerts(run.alerts);
    fill("workers", run.workers.map((row) => [row.name, { meter: true, part: row.busy, text: share(row.busy) }, rate(row.handled), rate(row.steals)]));
    const two = run.kinds.length > 1;
    fill("levels", run.levels.map((row) => [two ? `${row.level}, ${row.kind}s` : row.level, exact(row.waiting), rate(row.started), span(row.p95), span(row.p99), share(row.success), exact(row.promoted)]));
    const drops = run.kinds.flatMap((each) => Object.entries(each.not_well).filter(([, n]) => n).map(([why, n]) => [`${each.kind}s ${why.replaceAll("_", " ")}`, exact(n)]));
    fill("drops", drops);
    $("drops").hidden = !drops.length;
    $("no-drops").hidden = drops.length > 0;
    fill("strands", run.strands.map((row) => [{ ask: row.symbols.split(/, | and \d/).find((each) => !each.startsWith("#")) ?? "", text: row.symbols }, rate(row.per_s), exact(row.accepted)]));
    $("strands-box").hidden = $("market").hidden = run.kind === "scheduler";
    draw(run);
  };

  // ---- a symbol

  // Prices of one table have as many digits.
  const priced = (all) => {
    const digits = Math.max(2, ...all.map((each) => (String(each).split(".")[1] || "").length));
    return (value) => value.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits });
  };
  const ladder = (asks, bids) => {
    const most = Math.max(...asks.concat(bids).map(([, size]) => size), 0);
    const price = priced(asks.concat(bids).map(([at]) => at));
    const sized = (size) => ({ part: most ? size / most : 0, text: exact(size, 8) });
    const many = (orders) => (orders < 0 ? NONE : exact(orders));
    const lines = fill("ladder", [
      ...[...asks].reverse().map(([at, size, orders]) => ["", "", price(at), sized(size), many(orders)]),
      ...bids.map(([at, size, orders]) => [many(orders), sized(size), price(at), "", ""]),
    ]);
    [...lines].forEach((line, at) => (line.className = at === asks.length ? "first" : ""));
  };
  const shows = (symbol) => {
    wrote($("fault"), symbol?.error ?? "");
    $("found").hidden = !symbol || !!symbol.error;
    if ($("found").hidden) return;
    const keeps = symbol.asks != null;
    $("ladder").hidden = !keeps;
    $("no-book").hidden = keeps;
    if (keeps) ladder(symbol.asks, symbol.bids);
    $("trades").hidden = !symbol.trades?.length;
    wrote($("no-tape"), symbol.trades == null ? "This run keeps no trades for the page." : symbol.trades.length ? "" : "None is kept yet.");
    const side = { A: "sell", B: "buy", N: NONE };
    const price = priced((symbol.trades ?? []).map((each) => each.price));
    if (symbol.trades) fill("trades", symbol.trades.map((each) => [each.time.slice(11, 26), price(each.price), exact(each.size, 8), side[each.aggressor] ?? NONE]));
    fill("row", Object.entries(symbol.row).map(([name, value]) => [name, typeof value === "number" ? exact(value, 9) : value]));
  };

  // ---- a replay

  const replay = (found) => {
    $("replay").hidden = !found;
    if (!found) return;
    wrote($("pause"), found.paused ? "Resume" : "Pause");
    wrote($("position"), exact(found.position));
    wrote($("time"), found.time ?? NONE);
    wrote($("speed-now"), `${found.paused ? "paused, " : ""}${found.speed ? `speed ${exact(found.speed, 6)}` : "as fast as it goes"}`);
    if ($("speed").value === "" && document.activeElement !== $("speed")) $("speed").value = found.speed;
    $("reset").hidden = !found.resets;
  };
  const turn = async (action, more) => {
    try {
      const reply = await fetch(at("replay"), { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ action, ...more }) });
      const found = await reply.json();
      wrote($("said"), reply.ok ? "" : found.error);
      if (reply.ok) replay(found);
    } catch {
      wrote($("said"), "The server does not answer.");
    }
  };
  $("pause").addEventListener("click", () => turn($("pause").textContent === "Pause" ? "pause" : "resume"));
  $("reset").addEventListener("click", () => turn("reset"));
  for (const [id, action, field, key] of [["step", "step", "ticks", "ticks"], ["pace", "speed", "speed", "speed"]])
    $(id).addEventListener("submit", (event) => {
      event.preventDefault();
      turn(action, { [key]: Number($(field).value) });
    });

  // ---- what the server saw: the newest is shown, once per frame

  let source, newest, isDrawn = true;
  const STATES = { running: "running", ended: "The run has ended: below is what it showed last.", "not begun": "The run has not begun yet.", unreadable: "The run cannot be read" };
  const drawNewest = () => {
    isDrawn = true;
    const { run, symbol } = newest;
    const state = run.replay?.paused && run.state === "running" ? "paused" : STATES[run.state];
    wrote($("state"), run.error ? `${state}: ${run.error}` : state);
    $("state").className = run.state;
    wrote($("seen"), run.at ? new Date(1000 * run.at).toISOString().slice(11, 21) : NONE);
    replay(run.replay);
    if (run.kinds) show(run);
    shows(symbol);
  };
  const connect = () => {
    source?.close();
    source = new EventSource(at(`events?symbol=${encodeURIComponent($("symbol").value.trim())}`));
    source.onmessage = (event) => {
      newest = JSON.parse(event.data);
      if (!newest.run) return;
      if (newest.run.kinds) remember(newest.run);
      if (isDrawn) requestAnimationFrame(drawNewest);
      isDrawn = false;
    };
    source.onerror = () => {
      wrote($("state"), "The connection is lost; trying again.");
      $("state").className = "lost";
      if (source.readyState === EventSource.CLOSED) setTimeout(connect, 3000);
    };
  };
  const ask = (symbol) => {
    $("symbol").value = symbol;
    connect();
  };
  $("ask").addEventListener("submit", (event) => {
    event.preventDefault();
    connect();
  });
  connect();
})();
