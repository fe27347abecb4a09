// Fills the report: all locks side by side if there are several, then each sale in full.
"use strict";

const sales = JSON.parse(document.getElementById("sales").textContent);
document.getElementById("setting").textContent = sales[0]?.setting ?? "";
const main = document.querySelector("main");
if (sales.length > 1) main.append(comparison());
main.append(...sales.map(section));

function comparison() {
  const headings = ["lock", "stock kept?", "requests", "sold", "left", "oversold", "lost updates", "stale writes refused", "errors", "sales/s", "wait p50", "wait p99"];
  const heads = headings.map((name) => html("th", { scope: "col" }, name));
  const table = html("table", {}, html("thead", {}, html("tr", {}, ...heads)), html("tbody", {}, ...sales.map(row)));
  return html("section", { "aria-label": "All locks" },
    html("h2", {}, "Side by side"),
    html("div", { class: "scroll", tabindex: 0 }, table),
    html("div", { class: "cards" }, ...sales.map(card)));
}

function row(sale) {
  const totals = sale.totals;
  const bad = (value) => html("td", { class: value > 0 ? "bad" : "" }, whole(value));
  const plain = (text) => html("td", {}, text);
  return html("tr", {},
    html("th", { scope: "row" }, link(sale)),
    html("td", { class: "text" }, badge(sale)),
    ...[totals.requests, totals.sold, totals.left].map((value) => plain(whole(value))),
    bad(totals.oversold),
    bad(totals.lost_updates),
    ...[totals.refused_stale_writes, totals.errors, totals.sales_per_second].map((value) => plain(whole(value))),
    plain(time(totals.wait_p50_us)),
    plain(time(totals.wait_p99_us)));
}

function card(sale) {
  return html("figure", { class: "card small" },
    html("figcaption", {}, link(sale), badge(sale)),
    stockChart(sale),
    html("p", {}, html("span", {}, sale.verdict), ` ${sale.shows}`));
}

function link(sale) {
  return html("a", { href: `#${sale.lock}` }, sale.lock);
}

function section(sale) {
  const bars = sale.charts.seen.map((_, index) => [svg("rect", { class: `bar ${copyClass(index)}`, x: 8, width: 12, height: 10 }), `copy ${index + 1}`]);
  const waits = legend([lineKey("p50"), "p50: half waited less"], [lineKey("p99"), "p99: 99 % waited less"]);
  return html("section", { id: sale.lock, "aria-label": `Lock ${sale.lock}` },
    html("h2", {}, `${sale.lock} `, badge(sale)),
    html("p", { class: "verdict" }, `${sale.verdict} `, html("span", { class: "shows" }, sale.shows)),
    html("dl", { class: "numbers" }, ...figures(sale)),
    ...(sale.events.length > 0 ? [html("ul", { class: "events" }, ...sale.events.map((event) => html("li", {}, event)))] : []),
    html("div", { class: "charts" },
      figure("Stock", "What each copy saw after each of its sales, and what was really left.", stockLegend(sale), stockChart(sale)),
      figure("Sales per second", "How many pieces were sold, and by which copy; copy 1 at the bottom.", legend(...bars), paceChart(sale)),
      figure("Waits over time", "How long requests waited for the lock, at the time of their answer.", waits, waitsChart(sale)),
      figure("Distribution of the waits", "Which share of the requests waited how long.", "", distributionChart(sale))));
}

function figure(title, about, legend, chart) {
  return html("figure", { class: "card" }, html("figcaption", {}, html("h3", {}, title), html("p", {}, about), legend), chart);
}
