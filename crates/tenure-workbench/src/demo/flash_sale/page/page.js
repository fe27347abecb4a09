// Asks for the state a few times a second and shows it; sends orders.
"use strict";

const EVERY_MS = 150;
const STATES = {
  serving: ["serves", "good"],
  slow: ["slow sale", "warn"],
  frozen: ["frozen", "warn"],
  ended: ["ended", ""],
};
const BECAME = {
  sold: "write was accepted",
  sold_out: "sale found nothing left",
  stale: "stale write was refused",
  error: "sale failed",
};

const $ = (id) => document.getElementById(id);
let state = null;
// The number of the sale that was there when another was ordered; until it changes, that one is on its way.
let ordered = null;
// The faults that were ordered for a copy and have not come yet, by "kind copy".
const awaited = new Map();

async function look() {
  try {
    const answer = await fetch("state", { signal: AbortSignal.timeout(10_000) });
    if (!answer.ok) throw new Error(await answer.text());
    state = await answer.json();
    tell("gone", "");
    show();
  } catch {
    tell("gone", "The demo does not answer. Start it again with “tenure demo flash-sale --page”, then open the address that it prints.");
    $("status").textContent = "gone";
    $("status").className = "chip bad";
    for (const button of document.querySelectorAll("button")) button.disabled = true;
  }
  setTimeout(look, EVERY_MS);
}

async function order(what, body) {
  try {
    const answer = await fetch(what, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(body),
    });
    const said = answer.ok ? "" : await answer.text();
    tell("order", said && `Not done: ${said}.`);
    return answer.ok;
  } catch {
    // The next look says what is wrong.
    return false;
  }
}

// What is wrong, each kind by itself: an answer to an order does not hide that the demo is gone.
const troubles = new Map();
function tell(kind, sentence) {
  troubles.set(kind, sentence);
  const said = [...troubles.values()].filter(Boolean).join(" ");
  $("trouble").hidden = said === "";
  if ($("trouble").textContent !== said) $("trouble").textContent = said;
}

function show() {
  if (ordered !== null && (state.number ?? 0) > ordered) ordered = null;
  showOffers();
  showSale();
  showChart();
  showCopies();
  showLine();
  showFaults();
  showTotals();
}

function showOffers() {
  const select = $("lock");
  if (select.options.length > 0) return;
  const works = group("");
  const needs = group("need Redis: start with --all or --store redis://…");
  for (const lock of state.locks) {
    const option = new Option(lock.name, lock.name);
    option.title = lock.shows;
    option.disabled = !lock.works;
    (lock.works ? works : needs).append(option);
  }
  select.append(...works.children);
  if (needs.children.length > 0) select.append(needs);
  select.value = state.lock ?? "tenure";
}

function group(label) {
  const group = document.createElement("optgroup");
  group.label = label;
  return group;
}

function showSale() {
  const { lock, running, stock, sold, left } = state;
  const on = state.number > 0;
  const totals = state.totals;
  $("setting").textContent = on
    ? `${whole(stock)} pieces, ${whole(state.buyers)} buyers, ${state.copies.length} copies of the service; stock and lock in ${state.store}.`
    : `The copies are being started; stock and lock in ${state.store}.`;
  $("title").textContent = on ? `Lock: ${lock}` : "Stock";
  const status = ordered !== null || !on ? ["starts …", "warn"]
    : running ? ["running", "good"]
    : totals ? verdict(totals) : ["ends …", ""];
  $("status").textContent = status[0];
  $("status").className = `chip ${status[1]}`;
  $("left").textContent = on ? whole(totals ? totals.left : left) : "–";
  const oversold = Math.max(0, (totals ? totals.sold : sold) - stock);
  const part = stock > 0 ? Math.min(1, sold / stock) : 0;
  $("meter").style.width = `${100 * part}%`;
  $("meter").parentElement.classList.toggle("bad", oversold > 0);
  $("meter").parentElement.setAttribute("aria-valuemax", stock);
  $("meter").parentElement.setAttribute("aria-valuenow", Math.min(sold, stock));
  $("sold").textContent = !on ? "–"
    : oversold > 0 ? `${whole(totals ? totals.sold : sold)} sold of ${whole(stock)}: ${whole(oversold)} oversold`
    : `${whole(totals ? totals.sold : sold)} sold of ${whole(stock)}`;
  $("sold").className = oversold > 0 ? "soft bad" : "soft";
  const offer = state.locks.find((offer) => offer.name === lock);
  $("shows").textContent = offer ? sentence(offer.shows) : "";
  $("stop").disabled = !running;
  document.querySelector("#start .main").disabled = false;
}

// How a sale ended, not by its colour alone.
function verdict(totals) {
  if (totals.oversold > 0) return [`✗ ${whole(totals.oversold)} oversold`, "bad"];
  if (totals.lost_updates > 0) return [`✗ ${whole(totals.lost_updates)} lost`, "bad"];
  if (totals.left > 0 && totals.requests >= state.stock) return [`✗ ${whole(totals.left)} unsold`, "bad"];
  return ["✓ exact", "good"];
}

// The chart: how the stock fell, as the copies see it and as it really is.
const FRAME = { left: 56, right: 632, top: 12, bottom: 216 };

function showChart() {
  const { history, stock } = state;
  const until = Math.max(history.at(-1)?.seconds ?? 0, 1);
  const lowest = Math.min(0, ...history.map((look) => stock - look.sold));
  const x = (seconds) => FRAME.left + (seconds / until) * (FRAME.right - FRAME.left);
  const y = (pieces) => FRAME.bottom - ((pieces - lowest) / ((stock || 1) - lowest)) * (FRAME.bottom - FRAME.top);
  const drawing = $("drawing");
  drawing.replaceChildren();
  for (const pieces of ticks(lowest, stock || 1, 4)) {
    draw(drawing, "path", { class: pieces === 0 ? "axis" : "grid", d: `M${FRAME.left} ${y(pieces)}H${FRAME.right}` });
    draw(drawing, "text", { x: FRAME.left - 8, y: y(pieces) + 4, "text-anchor": "end" }, whole(pieces));
  }
  for (const seconds of ticks(0, until, 6)) {
    draw(drawing, "text", { x: x(seconds), y: FRAME.bottom + 24, "text-anchor": "middle" }, `${Number(seconds.toFixed(2))} s`);
  }
  for (const fault of state.faults) {
    const from = x(fault.from_us / 1e6);
    const width = Math.max(3, x(fault.to_us / 1e6) - from);
    draw(drawing, "rect", { class: "band", x: from, y: FRAME.top, width, height: FRAME.bottom - FRAME.top });
  }
  const really = history.map((look) => [look.seconds, stock - look.sold]);
  const below = really.findIndex(([, pieces]) => pieces < 0);
  if (below > 0) {
    const points = [[really[below][0], 0], ...really.slice(below)];
    const path = points.map(([at, pieces]) => `${x(at)} ${y(pieces)}`).join("L");
    draw(drawing, "path", { class: "oversold", d: `M${path}V${y(0)}Z` });
  }
  $("oversold-key").hidden = below <= 0;
  line(drawing, "line really", really, x, y);
  line(drawing, "line copy1", history.map((look) => [look.seconds, look.left]), x, y);
  $("chart-d").textContent = `From ${stock} to ${state.left} in ${until.toFixed(1)} seconds; ${state.sold} sold.`;
}

function line(parent, name, points, x, y) {
  if (points.length === 0) return;
  const path = points.map(([at, pieces]) => `${x(at).toFixed(1)} ${y(pieces).toFixed(1)}`).join("L");
  draw(parent, "path", { class: name, d: `M${path}` });
}

function ticks(from, to, about) {
  const rough = (to - from) / about;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].find((factor) => factor * power >= rough * 0.999) * power;
  const found = [];
  for (let at = Math.ceil(from / step); at * step <= to * 1.0001; at++) found.push(at * step);
  return found;
}

function draw(parent, kind, attributes, text) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", kind);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text !== undefined) element.textContent = text;
  parent.append(element);
}

// Cards are made once and then changed, so that a button stays under the pointer.
const cards = new Map();

function showCopies() {
  const copies = state.copies ?? [];
  for (const [number, card] of cards) {
    if (copies.some((copy) => copy.number === number)) continue;
    card.remove();
    cards.delete(number);
  }
  for (const copy of copies) {
    if (!cards.has(copy.number)) cards.set(copy.number, makeCard(copy.number));
    showCopy(cards.get(copy.number), copy);
  }
}

function makeCard(number) {
  const card = make("article", `card copy copy${((number - 1) % 6) + 1}`);
  card.dataset.copy = number;
  const head = make("header");
  const title = make("h3", "", `Copy ${number} `);
  title.append(make("small", "pid"));
  head.append(title, make("span", "chip state"));
  const count = make("p", "count");
  count.append(make("span", "number"), make("small", "", " sold"));
  const meter = make("div", "meter");
  meter.append(make("div"));
  const buttons = make("div", "buttons");
  for (const [kind, text] of [["pause", "Freeze"], ["kill", "Kill"]]) {
    const button = make("button", kind, text);
    button.type = "button";
    button.addEventListener("click", () => breakCopy(kind, number));
    buttons.append(button);
  }
  card.append(head, count, meter, buttons);
  $("copies").append(card);
  return card;
}

async function breakCopy(kind, number) {
  const before = state.faults.length;
  const key = `${kind} ${number}`;
  awaited.set(key, { sale: state.number, before });
  showCopies();
  if (!(await order(kind, { copy: number }))) awaited.delete(key);
}

function showCopy(card, copy) {
  const [word, look] = STATES[copy.state] ?? [copy.state, ""];
  const chip = card.querySelector(".state");
  chip.textContent = word;
  chip.className = `chip state ${look}`;
  card.querySelector(".pid").textContent = `process ${copy.pid}`;
  card.querySelector(".number").textContent = whole(copy.sold);
  const part = state.sold > 0 ? copy.sold / state.sold : 0;
  card.querySelector(".meter div").style.width = `${100 * part}%`;
  for (const [kind, text] of [["pause", "Freeze"], ["kill", "Kill"]]) {
    const button = card.querySelector(`.${kind}`);
    const waits = isAwaited(kind, copy);
    const alone = kind === "pause" && state.copies.length < 2;
    button.disabled = !state.running || waits || alone || copy.state !== "serving";
    button.textContent = !waits ? text : kind === "pause" && isOnlyOne(copy) ? "once another serves …" : "in its next sale …";
  }
}

// Whether no other copy could take over; then a copy is not frozen yet.
function isOnlyOne(copy) {
  return !state.copies.some((other) => other.number !== copy.number && other.state === "serving");
}

// A fault comes in the next sale of its copy; until then its button says so.
function isAwaited(kind, copy) {
  const key = `${kind} ${copy.number}`;
  const order = awaited.get(key);
  if (!order) return false;
  const came = state.faults.slice(order.before).some((fault) => fault.kind === kind && fault.copy === copy.number);
  const over = order.sale !== state.number || !state.running;
  if (came || over || copy.state !== "serving") awaited.delete(key);
  return awaited.has(key);
}

function showLine() {
  const line = $("line");
  const { holder, waiters, lock, running } = state;
  if (!holder && !(waiters?.length)) {
    const why = !running ? "No sale goes on."
      : lock === "tenure" ? "Nobody holds it at this moment."
      : lock === "none" ? "There is none: every copy sells whenever it likes."
      : "Nobody can look into this lock. With tenure you see here who holds it and who waits.";
    line.replaceChildren(make("p", "", why));
    return;
  }
  const seats = [];
  if (holder) seats.push(seat(holder, `holds it for ${holder.for_ms} ms, fence ${holder.fence}`, "holds"));
  waiters.forEach((waiter, place) => seats.push(seat(waiter, `is number ${place + 1} in line, for ${waiter.for_ms} ms`, "")));
  line.replaceChildren(...seats);
}

function seat(one, what, name) {
  const hue = one.copy > 0 ? `copy${((one.copy - 1) % 6) + 1}` : "";
  const seat = make("div", `seat ${name} ${hue}`);
  seat.append(make("strong", "", one.copy > 0 ? `Copy ${one.copy}` : `process ${one.pid}`));
  seat.append(make("span", "", what));
  return seat;
}

function showFaults() {
  const list = $("faults");
  const lines = (state.faults ?? []).map((fault) => make("li", "", told(fault)));
  for (const copy of state.copies ?? []) {
    if (copy.state === "frozen") lines.push(make("li", "", `Copy ${copy.number} is frozen in the middle of a sale.`));
  }
  if (lines.length === 0) lines.push(make("li", "none", "Nothing yet. Freeze or kill a copy in the middle of a sale."));
  list.replaceChildren(...lines);
}

function told(fault) {
  const [from, to] = [fault.from_us / 1e6, fault.to_us / 1e6].map((at) => at.toFixed(2));
  const became = BECAME[fault.outcome] ?? fault.outcome;
  switch (fault.kind) {
    case "kill": return `Copy ${fault.copy} was killed at second ${from}; another process took its place.`;
    case "pause": return `Copy ${fault.copy} was frozen from second ${from} to ${to}${meanwhile(fault)}; then its ${became}.`;
    default: return `A sale of copy ${fault.copy} took from second ${from} to ${to}, its ${became}.`;
  }
}

// Who took over the lock of a frozen copy; without fences nobody knows.
function meanwhile({ fence, taken_over: taken }) {
  if (taken) return `; copy ${taken.copy} took over its lock at second ${(taken.at_us / 1e6).toFixed(2)}, ${whole(taken.sold)} sold meanwhile`;
  return fence === undefined ? "" : "; no other copy took over its lock";
}

function showTotals() {
  const totals = state.totals;
  $("totals-title").textContent = totals ? "In the end" : "So far";
  $("report").hidden = !totals;
  const { stock, sold, left } = state;
  const last = state.history.at(-1);
  const seen = totals ?? {
    requests: state.requests,
    sold,
    left,
    oversold: Math.max(0, sold - stock),
    lost_updates: Math.max(0, sold + left - stock),
    refused_stale_writes: state.refused_stale_writes,
    errors: state.errors,
    sales_per_second: last && last.seconds > 0 ? sold / last.seconds : 0,
  };
  const figures = [
    ["sold", whole(seen.sold), `of ${whole(stock)}`],
    ["left", whole(seen.left), "as the stock says"],
    ["oversold", whole(seen.oversold), "sold, never there", seen.oversold > 0],
    ["lost updates", whole(seen.lost_updates), "sold, still counted", seen.lost_updates > 0 && (totals || seen.lost_updates > 64)],
    ["stale writes", whole(seen.refused_stale_writes), "refused"],
    ["errors", whole(seen.errors), `of ${whole(seen.requests)} requests`],
    ["sales/s", whole(seen.sales_per_second), last ? `in ${last.seconds.toFixed(1)} s` : ""],
    ["wait p50", totals ? time(totals.wait_p50_us) : "–", totals ? `p99: ${time(totals.wait_p99_us)}` : "at the end"],
  ];
  $("totals").replaceChildren(...figures.map(([name, value, note, bad]) => {
    const figure = make("div", bad ? "bad" : "");
    figure.dataset.name = name;
    const number = make("dd", "", value);
    number.append(make("small", "", note));
    figure.append(make("dt", "", name), number);
    return figure;
  }));
}

function make(kind, name, text) {
  const element = document.createElement(kind);
  if (name) element.className = name;
  if (text !== undefined) element.textContent = text;
  return element;
}

function whole(number) {
  const digits = Math.round(Math.abs(number)).toString().replace(/\B(?=(\d{3})+$)/g, "\u202f");
  return number <= -0.5 ? `−${digits}` : digits;
}

function time(us) {
  const [value, unit] = us < 1e3 ? [us, "µs"] : us < 1e6 ? [us / 1e3, "ms"] : [us / 1e6, "s"];
  return `${value < 9.95 && !Number.isInteger(value) ? value.toFixed(1) : Math.round(value)}\u202f${unit}`;
}

function sentence(text) {
  return text.charAt(0).toUpperCase() + text.slice(1) + ".";
}

$("start").addEventListener("submit", async (event) => {
  event.preventDefault();
  const before = state?.number ?? 0;
  if (await order("start", { lock: $("lock").value })) {
    ordered = before;
    show();
  }
});
$("stop").addEventListener("click", () => order("stop", {}));

look();
