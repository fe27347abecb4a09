// What the report and the live page share besides the charts: elements, numbers, and the figures of a sale.
"use strict";

// The stripes that both documents begin with are SVG.
const SVG = document.querySelector("svg").namespaceURI;

function html(tag, attributes, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

function svg(tag, attributes, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

// A whole number with a narrow space between thousands.
function whole(value) {
  const digits = Math.round(Math.abs(value)).toString().replace(/\B(?=(\d{3})+$)/g, "\u202f");
  return value <= -0.5 ? `−${digits}` : digits;
}

// A number with as many decimal places as its size needs.
function number(value) {
  const size = Math.abs(value);
  if (size >= 10 || Math.abs(size - Math.round(size)) < 1e-9) return whole(value);
  return value.toFixed(size >= 1 ? 1 : 2);
}

// Microseconds in the unit that fits.
function time(us) {
  const [value, unit] = us < 1e3 ? [us, "µs"] : us < 1e6 ? [us / 1e3, "ms"] : [us / 1e6, "s"];
  const places = value < 9.95 && Math.abs(value - Math.round(value)) > 0.049 ? 1 : 0;
  return `${value.toFixed(places)}\u202f${unit}`;
}

// How a sale ended, not by its colour alone.
function badge(sale) {
  return html("span", { class: `badge ${sale.exact ? "good" : "bad"}` }, `${sale.exact ? "✓" : "✗"} ${sale.result}`);
}

// The totals in large figures. While a sale runs, some answers are still on their way and look like lost updates.
function figures({ totals, stock, seconds }, inFlight = 0) {
  const rows = [
    ["sold", whole(totals.sold), `of ${whole(stock)}`],
    ["left", whole(totals.left), "according to the stock"],
    ["oversold", whole(totals.oversold), "sold, but never there", totals.oversold > 0],
    ["lost updates", whole(totals.lost_updates), "sold, but still counted", totals.lost_updates > inFlight],
    ["stale writes", whole(totals.refused_stale_writes), "refused"],
    ["errors", whole(totals.errors), `of ${whole(totals.requests)} requests`],
    ["sales/s", whole(totals.sales_per_second), `in ${number(seconds)}\u202fs`],
    ["wait p50", time(totals.wait_p50_us), `p99: ${time(totals.wait_p99_us)}`],
  ];
  return rows.map(([name, value, note, bad]) =>
    html("div", { class: bad ? "bad" : "", "data-name": name },
      html("dt", {}, name),
      html("dd", {}, value, html("small", {}, note))));
}

function copyClass(index) {
  return `copy${(index % 6) + 1}`;
}

function legend(...entries) {
  const entry = ([mark, text]) => html("li", {}, svg("svg", { class: "key", viewBox: "0 0 28 10", "aria-hidden": true }, mark), text);
  return html("ul", { class: "legend" }, ...entries.map(entry));
}

function lineKey(name) {
  return svg("path", { class: `line ${name}`, d: "M1 5H27" });
}

function stockLegend(sale) {
  const copies = sale.charts.seen.map((_, index) => [lineKey(copyClass(index)), `copy ${index + 1}`]);
  return legend(...copies, [lineKey("really"), "really left"]);
}
