// Polls the state of the sale several times a second and shows it; sends commands.
"use strict";

const POLL_MS = 150;
const STATES = {
  serving: ["serving", "good"],
  slow: ["slow sale", "warn"],
  frozen: ["frozen", "warn"],
  ended: ["ended", ""],
};
const FAULTS = { pause: "Freeze", kill: "Kill" };

const $ = (id) => document.getElementById(id);
let state = null;
// The number of the sale that ran when another was requested; until it changes, the new one is starting.
let requested = null;
// The faults that were requested and have not happened yet, by "kind copy".
const pending = new Map();

async function poll() {
  try {
    const answer = await fetch("state", { signal: AbortSignal.timeout(10_000) });
    if (!answer.ok) throw new Error(await answer.text());
    state = await answer.json();
    report("connection", "");
    show();
  } catch {
    report("connection", "The demo does not answer. Start it again with “tenure demo flash-sale --page”, then open the address that it prints.");
    $("status").textContent = "gone";
    $("status").className = "badge bad";
    for (const button of document.querySelectorAll("button")) button.disabled = true;
  }
  setTimeout(poll, POLL_MS);
}

async function send(command, body) {
  try {
    const answer = await fetch(command, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(body),
    });
    const reason = answer.ok ? "" : await answer.text();
    report("command", reason && `Not done: ${reason}.`);
    return answer.ok;
  } catch {
    // The next poll reports what is wrong.
    return false;
  }
}

// Problems, one of each kind: the answer to a command does not hide that the demo is gone.
const problems = new Map();
function report(kind, sentence) {
  problems.set(kind, sentence);
  const text = [...problems.values()].filter(Boolean).join(" ");
  $("problem").hidden = text === "";
  if ($("problem").textContent !== text) $("problem").textContent = text;
}

function show() {
  if (requested !== null && state.number > requested) requested = null;
  showLocks();
  showSale();
  showCopies();
  showQueue();
  showFaults();
}

function showLocks() {
  const select = $("lock");
  if (select.options.length > 0) return;
  const option = ({ name, shows, works }) => filled(new Option(name, name), { title: shows, ...(works ? {} : { disabled: "" }) }, []);
  select.append(...state.locks.filter((lock) => lock.works).map(option));
  const others = state.locks.filter((lock) => !lock.works).map(option);
  if (others.length > 0) select.append(html("optgroup", { label: "need Redis: start with --all or --store redis://…" }, ...others));
  select.value = state.lock ?? "tenure";
}

function showSale() {
  const { sale, phase } = state;
  const starting = requested !== null || !sale;
  const [status, look] = starting ? ["starting …", "warn"] : { running: ["running", "good"], ending: ["ending …", ""] }[phase] ?? [badge(sale).textContent, sale.exact ? "good" : "bad"];
  $("status").textContent = status;
  $("status").className = `badge ${look}`;
  $("stop").disabled = phase !== "running";
  document.querySelector("#start .main").disabled = false;
  $("setting").textContent = sale?.setting ?? `The copies are being started; lock and stock in ${state.store}.`;
  if (!sale) return;
  const { totals, stock } = sale;
  $("title").textContent = `Lock: ${sale.lock}`;
  $("left").textContent = whole(totals.left);
  const meter = document.querySelector(".stock .meter");
  meter.classList.toggle("bad", totals.oversold > 0);
  filled(meter, { "aria-valuemax": stock, "aria-valuenow": Math.min(totals.sold, stock) }, []);
  meter.firstElementChild.style.width = `${Math.min(100, (100 * totals.sold) / stock)}%`;
  $("sold").textContent = `${whole(totals.sold)} sold of ${whole(stock)}`;
  $("sold").className = totals.oversold > 0 ? "soft bad" : "soft";
  $("shows").textContent = sale.shows;
  $("totals-title").textContent = sale.finished ? "Final result" : "So far";
  $("report").hidden = !sale.finished;
  $("totals").replaceChildren(...figures(sale, sale.finished ? 0 : 64));
  showChart(sale);
}

// Drawn only when it has changed, so that the pointer can read it after the end.
let drawn = "";
function showChart(sale) {
  const data = JSON.stringify(sale);
  if (data === drawn) return;
  drawn = data;
  $("legend").replaceChildren(stockLegend(sale));
  $("chart").replaceChildren(stockChart(sale));
}

// Cards are made once and then changed, so that a button stays under the pointer.
const cards = new Map();

function showCopies() {
  for (const [number, card] of cards) {
    if (state.copies.some((copy) => copy.number === number)) continue;
    card.remove();
    cards.delete(number);
  }
  for (const copy of state.copies) {
    if (!cards.has(copy.number)) cards.set(copy.number, makeCard(copy.number));
    showCopy(cards.get(copy.number), copy);
  }
}

function makeCard(number) {
  const buttons = Object.entries(FAULTS).map(([kind, text]) => {
    const button = html("button", { class: kind, type: "button" }, text);
    button.addEventListener("click", () => requestFault(kind, number));
    return button;
  });
  const card = html("article", { class: `card copy ${copyClass(number - 1)}`, "data-copy": number },
    html("header", {}, html("h3", {}, `Copy ${number} `, html("small", { class: "pid" })), html("span", { class: "badge state" })),
    html("p", { class: "count" }, html("span", { class: "number" }), html("small", {}, " sold")),
    html("div", { class: "meter" }, html("div", {})),
    html("div", { class: "buttons" }, ...buttons));
  $("copies").append(card);
  return card;
}

async function requestFault(kind, number) {
  const key = `${kind} ${number}`;
  pending.set(key, { sale: state.number, before: state.sale.faults.length });
  showCopies();
  if (!(await send(kind, { copy: number }))) pending.delete(key);
}

function showCopy(card, copy) {
  const [word, look] = STATES[copy.state];
  card.querySelector(".state").textContent = word;
  card.querySelector(".state").className = `badge state ${look}`;
  card.querySelector(".pid").textContent = `process ${copy.pid}`;
  card.querySelector(".number").textContent = whole(copy.sold);
  card.querySelector(".meter div").style.width = `${(100 * copy.sold) / Math.max(1, state.sale.totals.sold)}%`;
  for (const [kind, text] of Object.entries(FAULTS)) {
    const button = card.querySelector(`.${kind}`);
    const waits = isPending(kind, copy);
    const others = state.copies.filter((other) => other.number !== copy.number);
    const alone = kind === "pause" && others.length === 0;
    button.disabled = state.phase !== "running" || waits || alone || copy.state !== "serving";
    // A copy is frozen only while another one can take over.
    const blocked = kind === "pause" && !others.some((other) => other.state === "serving");
    button.textContent = !waits ? text : blocked ? "once another is serving …" : "in its next sale …";
  }
}

// A fault happens in the next sale of its copy; until then its button says so.
function isPending(kind, copy) {
  const key = `${kind} ${copy.number}`;
  const request = pending.get(key);
  if (!request) return false;
  const happened = state.sale.faults.slice(request.before).some((fault) => fault.kind === kind && fault.copy === copy.number);
  const over = request.sale !== state.number || state.phase !== "running";
  if (happened || over || copy.state !== "serving") pending.delete(key);
  return pending.has(key);
}

function showQueue() {
  const { holder, waiters, lock, phase } = state;
  const client = (one, what, name) => html("div", { class: `client ${name} ${one.copy > 0 ? copyClass(one.copy - 1) : ""}` },
    html("strong", {}, one.copy > 0 ? `Copy ${one.copy}` : `process ${one.pid}`),
    html("span", {}, what));
  const clients = waiters.map((waiter, index) => client(waiter, `number ${index + 1} in the queue, for ${waiter.for_ms} ms`, ""));
  if (holder) clients.unshift(client(holder, `has held the lock for ${holder.for_ms} ms, fence ${holder.fence}`, "holds"));
  const reason = phase !== "running" ? "No sale is running."
    : lock === "tenure" ? "Nobody holds the lock at this moment."
    : lock === "none" ? "There is no lock: every copy sells at any time."
    : "This lock cannot be inspected. With tenure you see here who holds it and who waits.";
  $("queue").replaceChildren(...(clients.length > 0 ? clients : [html("p", {}, reason)]));
}

function showFaults() {
  const frozen = state.copies.filter((copy) => copy.state === "frozen").map((copy) => `Copy ${copy.number} is frozen in the middle of a sale.`);
  const lines = [...(state.sale?.events ?? []), ...frozen].map((text) => html("li", {}, text));
  if (lines.length === 0) lines.push(html("li", { class: "none" }, "None yet. Freeze or kill a copy in the middle of a sale."));
  $("faults").replaceChildren(...lines);
}

$("start").addEventListener("submit", async (event) => {
  event.preventDefault();
  const before = state?.number ?? 0;
  if (await send("start", { lock: $("lock").value })) {
    requested = before;
    show();
  }
});
$("stop").addEventListener("click", () => send("stop", {}));

poll();
