// Shows the numbers under the pointer. The report is complete without it.
"use strict";

for (const svg of document.querySelectorAll("svg[data-x]")) {
  const plot = document.createElement("div");
  const pointer = document.createElement("div");
  const cross = document.createElement("div");
  const tip = document.createElement("div");
  plot.className = "plot";
  pointer.className = "pointer";
  cross.className = "cross";
  tip.className = "tip";
  cross.hidden = tip.hidden = true;
  svg.replaceWith(plot);
  plot.append(svg, pointer, cross, tip);
  pointer.addEventListener("pointermove", (event) => show(svg, cross, tip, event));
  pointer.addEventListener("pointerleave", () => { cross.hidden = tip.hidden = true; });
}

function show(svg, cross, tip, event) {
  const box = svg.getBoundingClientRect();
  const factor = svg.viewBox.baseVal.width / box.width;
  const x = scale(svg.dataset.x);
  const at = (event.clientX - box.left) * factor;
  const lines = at < x.start || at > x.end ? [] : found(svg, x, at);
  cross.hidden = tip.hidden = lines.length === 0;
  if (lines.length === 0) return;
  const y = scale(svg.dataset.y);
  const left = at / factor;
  cross.style.left = `${left}px`;
  cross.style.top = `${Math.min(y.start, y.end) / factor}px`;
  cross.style.height = `${Math.abs(y.start - y.end) / factor}px`;
  tip.textContent = lines.join("\n");
  const room = box.width - tip.offsetWidth;
  const beside = left > box.width / 2 ? left - tip.offsetWidth - 10 : left + 10;
  tip.style.left = `${Math.max(0, Math.min(room, beside))}px`;
  tip.style.top = `${Math.min(y.start, y.end) / factor + 4}px`;
}

// What is to be read at a place: the bar there, or the value of each line.
function found(svg, x, at) {
  for (const bar of svg.querySelectorAll("[data-tip]")) {
    if (at >= Number(bar.dataset.from) && at < Number(bar.dataset.to)) {
      return bar.dataset.tip.split("\n");
    }
  }
  const y = scale(svg.dataset.y);
  const write = y.kind === "log" ? time : (value) => Math.round(value).toLocaleString("fr-FR");
  const lines = [];
  for (const path of svg.querySelectorAll("path[data-name]")) {
    const place = height(path.getAttribute("d"), at);
    if (place !== null) lines.push(`${path.dataset.name} ${write(value(y, place))}`);
  }
  return lines.length === 0 ? [] : [`second ${value(x, at).toFixed(2)}`, ...lines];
}

// The place of a line above `at`; null where it has none.
function height(path, at) {
  let x = 0, y = null, last = null;
  for (const [, letter, numbers] of path.matchAll(/([MLHVh])([^A-Za-z]*)/g)) {
    const [first, second] = numbers.trim().split(" ").map(Number);
    if (letter === "h") continue;
    if (letter === "V") { y = first; last = x <= at ? y : last; continue; }
    if (first > at) return letter === "M" ? null : last;
    x = first;
    if (letter !== "H") y = second;
    last = y;
  }
  return x >= at - 1 ? last : null;
}

function scale(text) {
  const [kind, ...numbers] = text.split(" ");
  const [from, to, start, end] = numbers.map(Number);
  return { kind, from, to, start, end };
}

function value(scale, place) {
  const part = (place - scale.start) / (scale.end - scale.start);
  const found = scale.from + part * (scale.to - scale.from);
  return scale.kind === "log" ? 10 ** found : found;
}

function time(us) {
  const [value, unit] = us < 1e3 ? [us, "µs"] : us < 1e6 ? [us / 1e3, "ms"] : [us / 1e6, "s"];
  return `${value < 9.95 ? value.toFixed(1) : Math.round(value)} ${unit}`;
}
