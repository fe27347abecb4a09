// Draws the charts of a sale as SVG, for the report and for the live page.
"use strict";

const WIDTH = 480, HEIGHT = 234, LEFT = 54, RIGHT = 462, TOP = 26, BOTTOM = 208;
const MIDDLE = (LEFT + RIGHT) / 2;
// The height of a row of labels above a chart, and how many there are at most.
const ROW = 16, MOST_ROWS = 4;

// The stock over time: as each copy saw it, and what was really left.
function stockChart(sale) {
  const { stock, totals, seconds, charts } = sale;
  const lowest = Math.min(0, charts.really_left.at(-1)[1]);
  const about = `From ${whole(stock)} to ${whole(totals.left)} in ${number(seconds)} seconds; ${whole(totals.sold)} sold, ${whole(totals.oversold)} of them oversold.`;
  const chart = overTime(sale, "Stock", about, { name: "pieces", range: [lowest, stock], about: 5, text: number });
  chart.belowZero("oversold", charts.really_left, seconds);
  chart.steps("really", charts.really_left, seconds);
  charts.seen.forEach((points, index) => chart.steps(copyClass(index), points, points.at(-1)?.[0]));
  if (totals.oversold > 0) {
    chart.note([seconds, lowest], `${whole(totals.oversold)} oversold`);
  } else if (sale.finished && totals.lost_updates > 0) {
    chart.note([seconds, totals.left], `${whole(totals.lost_updates)} lost`);
  }
  const valueAt = (points, at) => points.findLast(([since]) => since <= at)?.[1];
  return chart.plot((at) => {
    const copies = charts.seen.map((points, index) => [`copy ${index + 1}`, at <= points.at(-1)?.[0] ? valueAt(points, at) : undefined]);
    const seen = [["really left", valueAt(charts.really_left, at)], ...copies].filter(([, value]) => value !== undefined);
    return [`after ${at.toFixed(2)} s`, ...seen.map(([name, value]) => `${name} ${whole(value)}`)];
  });
}

// Sales per second over time, the copies stacked.
function paceChart(sale) {
  const { bars, width } = sale.charts.pace;
  const most = Math.max(0, ...bars.map((bar) => bar.reduce((sum, height) => sum + height, 0)));
  const about = `${whole(sale.totals.sales_per_second)} sales per second until the last piece was sold; ${whole(most)} at best.`;
  const chart = overTime(sale, "Sales per second", about, { name: "sales per second", range: roundedUp([0, most], 4), about: 4, text: number });
  bars.forEach((bar, index) => {
    let low = 0;
    bar.forEach((height, copy) => chart.bar(copyClass(copy), [index * width, (index + 1) * width], [low, low += height]));
  });
  return chart.plot((at) => {
    const index = Math.floor(at / width);
    const copies = (bars[index] ?? []).map((height, copy) => `copy ${copy + 1} ${whole(height)}/s`);
    return [`from ${number(index * width)} s`, ...copies];
  });
}

// How long requests waited for the lock, over time.
function waitsChart(sale) {
  const { totals, seconds, charts: { waits } } = sale;
  const about = `Half of the requests waited at most ${time(totals.wait_p50_us)}, 99 % at most ${time(totals.wait_p99_us)}.`;
  const found = waits.filter(Boolean);
  const most = Math.max(1, ...found.map((wait) => wait.p99_us));
  const least = Math.min(most, ...found.map((wait) => wait.p50_us));
  const chart = overTime(sale, "Wait for the lock over time", about, waitAxis([least, most]));
  chart.area("between", waits.map((wait) => wait && [wait.at, wait.p50_us, wait.p99_us]));
  chart.line("p99", waits.map((wait) => wait && [wait.at, wait.p99_us]));
  chart.line("p50", waits.map((wait) => wait && [wait.at, wait.p50_us]));
  return chart.plot((at) => {
    const wait = waits[Math.min(waits.length - 1, Math.floor((at / seconds) * waits.length))];
    return wait ? [`after ${at.toFixed(2)} s`, `p99 ${time(wait.p99_us)}`, `p50 ${time(wait.p50_us)}`] : [];
  });
}

// How the waits are distributed: which share of all requests waited how long.
function distributionChart(sale) {
  const { totals, charts: { distribution } } = sale;
  const [p50, p99] = [totals.wait_p50_us, totals.wait_p99_us];
  const about = `Half within ${time(p50)}, 99 % within ${time(p99)}.`;
  const used = distribution.filter(({ share }) => share > 0);
  const range = [(used[0]?.from_us ?? 1) * 1.01, (used.at(-1)?.to_us ?? 10) * 0.99];
  const percent = (share) => `${number(share * 100)}\u202f%`;
  const highest = Math.max(0, ...distribution.map(({ share }) => share));
  const y = { name: "of all requests", range: roundedUp([0, highest], 4), about: 4, text: percent };
  const chart = new Chart("Distribution of the waits", about, { ...waitAxis(range), about: 6 }, y, 2);
  for (const { from_us, to_us, share } of distribution) chart.bar("waited", [from_us, to_us], [0, share]);
  chart.mark(p50, `p50 ${time(p50)}`, 2);
  chart.mark(p99, `p99 ${time(p99)}`, 1);
  return chart.plot((at) => {
    const found = distribution.find(({ from_us, to_us }) => from_us <= at && at < to_us);
    return found ? [`${time(found.from_us)} to ${time(found.to_us)}`, `${percent(found.share)} of all`] : [];
  });
}

function overTime(sale, title, about, y) {
  const takeOvers = sale.faults.filter((fault) => fault.taken_over).length;
  const rows = Math.min(MOST_ROWS, sale.faults.length + takeOvers);
  const x = { range: [0, sale.seconds], about: 6, text: (seconds) => `${number(seconds)}\u202fs` };
  const chart = new Chart(title, about, x, y, rows);
  chart.faults(sale.faults);
  return chart;
}

function waitAxis(range) {
  return { name: "wait for the lock", log: true, range, about: 5, text: time };
}

// A frame with two axes; each has a range, about how many ticks, and a text for each tick.
class Chart {
  constructor(title, about, x, y, rows) {
    this.x = scale(x, [LEFT, RIGHT]);
    this.y = scale(y, [BOTTOM, TOP + ROW * rows]);
    [this.under, this.body, this.over] = [svg("g", {}), svg("g", {}), svg("g", {})];
    const frame = { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img" };
    this.svg = svg("svg", frame, svg("title", {}, title), svg("desc", {}, about), this.under, this.body, this.over);
    for (const tick of this.y.ticks) {
      const at = this.y.at(tick);
      this.under.append(svg("path", { class: tick === 0 ? "axis" : "grid", d: `M${LEFT} ${at}H${RIGHT}` }));
      this.text(this.under, "", [LEFT - 6, at + 4], "end", y.text(tick));
    }
    for (const tick of this.x.ticks) {
      const at = this.x.at(tick);
      this.under.append(svg("path", { class: "axis", d: `M${at} ${BOTTOM}v4` }));
      this.text(this.under, "", [at, BOTTOM + 18], "middle", x.text(tick));
    }
    this.under.append(svg("path", { class: "axis", d: `M${LEFT} ${BOTTOM}H${RIGHT}` }));
    this.text(this.under, "unit", [0, 11], "start", y.name);
  }

  // Steps through the points: a value holds until the next one.
  steps(name, points, until) {
    this.path(`line ${name}`, steps(points, until, this.x, this.y));
  }

  // What a line of steps has below zero.
  belowZero(name, points, until) {
    const below = points.filter(([, value]) => value < 0);
    if (below.length === 0) return;
    this.path(name, `${steps(below, until, this.x, this.y)}V${this.y.at(0)}H${this.x.at(below[0][0])}Z`);
  }

  // Straight lines through the points, with a gap at each null.
  line(name, points) {
    this.path(`line ${name}`, line(points, this.x, this.y));
  }

  // What lies between a lower and an upper value, with a gap at each null.
  area(name, rows) {
    const runs = [[]];
    for (const row of rows) row ? runs.at(-1).push(row) : runs.push([]);
    for (const run of runs.filter((run) => run.length > 1)) {
      const upper = run.map(([at, , high]) => [at, high]);
      const lower = run.map(([at, low]) => [at, low]).reverse();
      const corners = [...upper, ...lower].map(([at, value]) => `${this.x.at(at)} ${this.y.at(value)}`);
      this.path(name, `M${corners.join("L")}Z`);
    }
  }

  bar(name, [from, to], [low, high]) {
    const [left, right] = [this.x.at(from) + 0.5, this.x.at(to) - 0.5];
    const [top, bottom] = [this.y.at(high), this.y.at(low)];
    if (bottom - top < 0.05) return;
    this.body.append(svg("rect", { class: `bar ${name}`, x: left, y: top, width: Math.max(0.6, right - left), height: bottom - top }));
  }

  // A labelled line across the chart; the labels have rows of their own above it.
  mark(at, label, row) {
    const [x, y] = [this.x.at(at), TOP + ROW * row];
    const [anchor, shift] = x > MIDDLE ? ["end", -4] : ["start", 4];
    this.over.append(svg("path", { class: "mark", d: `M${x} ${y - ROW + 3}V${BOTTOM}` }));
    this.text(this.over, "label", [x + shift, y], anchor, label);
  }

  // A bad value at the end of a line, to its left and above.
  note([at, value], label) {
    this.text(this.over, "label bad", [this.x.at(at) - 5, this.y.at(value) - 6], "end", label);
  }

  // A band from the start of each fault to its end, and a mark where another copy took over.
  faults(faults) {
    let row = 0;
    for (const fault of faults) {
      const [from, to] = [this.x.at(fault.from_us / 1e6), this.x.at(fault.to_us / 1e6)];
      const width = Math.max(2, to - from);
      const top = TOP + ROW * Math.min(row, MOST_ROWS);
      this.under.append(svg("rect", { class: "band", x: from, y: top + ROW, width, height: BOTTOM - top - ROW }));
      // Of more faults than there are rows only the bands are drawn.
      if (row < MOST_ROWS) {
        const [anchor, x] = from > MIDDLE ? ["end", from + width] : ["start", from];
        this.text(this.over, "label fault", [x, top + ROW - 4], anchor, faultLabel(fault));
      }
      row += 1;
      if (fault.taken_over && row < MOST_ROWS) {
        this.mark(fault.taken_over.at_us / 1e6, `copy ${fault.taken_over.copy} takes over`, row + 1);
        row += 1;
      }
    }
  }

  // Returns the chart with a pointer; `read` returns the lines to show for a value of the lower axis.
  plot(read) {
    const [pointer, cross, tip] = ["pointer", "cross", "tip"].map((name) => html("div", { class: name }));
    cross.hidden = tip.hidden = true;
    pointer.addEventListener("pointerleave", () => { cross.hidden = tip.hidden = true; });
    pointer.addEventListener("pointermove", (event) => {
      const box = this.svg.getBoundingClientRect();
      const factor = box.width / WIDTH;
      const left = event.clientX - box.left;
      const place = left / factor;
      const lines = place < LEFT || place > RIGHT ? [] : read(this.x.value(place));
      cross.hidden = tip.hidden = lines.length === 0;
      tip.textContent = lines.join("\n");
      const top = this.y.end * factor;
      Object.assign(cross.style, { left: `${left}px`, top: `${top}px`, height: `${BOTTOM * factor - top}px` });
      const beside = left > box.width / 2 ? left - tip.offsetWidth - 10 : left + 10;
      const room = box.width - tip.offsetWidth;
      Object.assign(tip.style, { left: `${Math.max(0, Math.min(room, beside))}px`, top: `${top + 4}px` });
    });
    return html("div", { class: "plot" }, this.svg, pointer, cross, tip);
  }

  path(name, d) {
    if (d) this.body.append(svg("path", { class: name, d }));
  }

  text(layer, name, [x, y], anchor, text) {
    layer.append(svg("text", { class: name, x, y, "text-anchor": anchor }, text));
  }
}

function faultLabel(fault) {
  const lasted = time(fault.to_us - fault.from_us);
  switch (fault.kind) {
    case "slow": return `slow sale in copy ${fault.copy}, ${lasted}`;
    case "pause": return `copy ${fault.copy} frozen, ${lasted}`;
    default: return `copy ${fault.copy} killed`;
  }
}

function steps(points, until, x, y) {
  const step = ([at, value], index) => index === 0 ? `M${x.at(at)} ${y.at(value)}` : `H${x.at(at)}V${y.at(value)}`;
  return points.length === 0 ? "" : `${points.map(step).join("")}H${x.at(until)}`;
}

function line(points, x, y) {
  let [path, pen] = ["", "M"];
  for (const point of points) {
    // A single point would be invisible; a short stroke is not.
    if (point) path += `${pen}${x.at(point[0])} ${y.at(point[1])}${pen === "M" ? "h.01" : ""}`;
    pen = point ? "L" : "M";
  }
  return path;
}

// Maps the values of an axis to places and back; values outside are moved to its ends.
function scale({ range: [from, to], about, log = false }, [start, end]) {
  if (log) {
    // Whole powers of ten, and at least one of them.
    from = Math.floor(Math.log10(Math.max(1, from)));
    to = Math.max(from + 1, Math.ceil(Math.log10(Math.max(1, to))));
  } else if (!(to > from)) {
    to = from + 1;
  }
  const at = (value) => {
    const part = ((log ? Math.log10(Math.max(1, value)) : value) - from) / (to - from);
    const place = start + Math.min(1, Math.max(0, part)) * (end - start);
    return Math.round(place * 10) / 10;
  };
  const value = (place) => {
    const found = from + ((place - start) / (end - start)) * (to - from);
    return log ? 10 ** found : found;
  };
  const step = log ? Math.max(1, Math.ceil((to - from) / about)) : roundStep((to - from) / about);
  const first = log ? from : Math.ceil(from / step) * step;
  const ticks = [];
  // A small excess, because sums of tenths are not exact.
  for (let n = 0; first + n * step <= to + step * 1e-9; n++) ticks.push(log ? 10 ** (first + n * step) : first + n * step);
  return { at, value, ticks, end };
}

// The smallest of 1, 2 and 5 times a power of ten that is not less than `least`.
function roundStep(least) {
  if (!(least > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(least));
  return [1, 2, 5, 10].find((factor) => factor * power >= least * (1 - 1e-9)) * power;
}

// The same range up to the next tick.
function roundedUp([from, to], about) {
  const step = roundStep((to - from) / about);
  return [from, Math.ceil(to / step - 1e-9) * step];
}
