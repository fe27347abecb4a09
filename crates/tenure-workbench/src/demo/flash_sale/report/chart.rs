//! One chart as SVG: a frame with axes, bands for the faults, and lines, areas and bars inside.

use std::fmt::Write;

use super::super::record::FaultSeen;
use super::scale::{Scale, round_step};
use super::thin::{Point, thin};
use super::words::{self, escape};

/// A chart over time, or over another quantity.
#[derive(Debug)]
pub(super) struct Chart {
    title: String,
    about: String,
    x: Scale,
    y: Scale,
    /// The frame, below all else.
    under: String,
    /// Lines, areas and bars.
    body: String,
    /// Labels, above all else.
    over: String,
}

/// An axis: its range, and how its numbers are written.
#[derive(Debug, Clone, Copy)]
pub(super) struct Axis {
    pub(super) values: (f64, f64),
    pub(super) spacing: Spacing,
    pub(super) text: fn(f64) -> String,
    pub(super) ticks: u32,
    /// What stands above the upright axis.
    pub(super) name: &'static str,
}

/// What has the same room on an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Spacing {
    /// Equal differences.
    Linear,
    /// Equal factors.
    Log,
}

impl Axis {
    /// Returns the same axis up to the next round value.
    pub(super) fn rounded_up(mut self) -> Self {
        if self.spacing == Spacing::Linear {
            let (from, to) = self.values;
            let step = round_step((to - from.min(0.0)) / f64::from(self.ticks));
            self.values.1 = (to / step - 1e-9).ceil() * step;
        }
        self
    }

    fn scale(&self, places: (f64, f64)) -> Scale {
        match self.spacing {
            Spacing::Linear => Scale::linear(self.values, places),
            Spacing::Log => Scale::log(self.values, places),
        }
    }
}

impl Chart {
    /// An empty frame; `rows` lines of text have room above it.
    pub(super) fn new(title: &str, about: &str, x: Axis, y: Axis, rows: usize) -> Self {
        let top = TOP + ROW * rows as f64;
        let mut chart = Self {
            title: escape(title),
            about: escape(about),
            x: x.scale((LEFT, RIGHT)),
            y: y.scale((BOTTOM, top)),
            under: String::new(),
            body: String::new(),
            over: String::new(),
        };
        chart.draw_axes(&x, &y);
        chart
    }

    /// Draws steps through the points: a value holds until the next.
    pub(super) fn steps(&mut self, class: &str, name: &str, points: &[Point], until: f64) {
        let path = steps(&thin(points, MOST_POINTS), until, &self.x, &self.y);
        self.path(class, name, &path);
    }

    /// Draws straight lines through the points, with a gap at each `None`.
    pub(super) fn line(&mut self, class: &str, name: &str, points: &[Option<Point>]) {
        let mut path = String::new();
        let mut pen = 'M';
        for point in points {
            let Some((x, y)) = point else {
                pen = 'M';
                continue;
            };
            let (x, y) = (short(self.x.at(*x)), short(self.y.at(*y)));
            // A lone point would not be seen; a short stroke is.
            let dot = if pen == 'M' { "h.01" } else { "" };
            let _ = write!(path, "{pen}{x} {y}{dot}");
            pen = 'L';
        }
        self.path(class, name, &path);
    }

    /// Fills what lies between a lower and an upper value, with a gap at each `None`.
    pub(super) fn area(&mut self, class: &str, stretches: &[Option<(f64, f64, f64)>]) {
        for run in stretches.split(Option::is_none) {
            let run: Vec<_> = run.iter().flatten().collect();
            let upper = run.iter().map(|(x, _, high)| (x, high));
            let lower = run.iter().rev().map(|(x, low, _)| (x, low));
            let corners: Vec<_> = upper
                .chain(lower)
                .map(|(x, y)| format!("{} {}", short(self.x.at(*x)), short(self.y.at(*y))))
                .collect();
            if run.len() > 1 {
                let corners = corners.join("L");
                let _ = write!(self.body, r#"<path class="{class}" d="M{corners}Z"/>"#);
            }
        }
    }

    /// Fills what a line of steps has below zero.
    pub(super) fn below_zero(&mut self, class: &str, points: &[Point], until: f64) {
        let below: Vec<Point> = points
            .iter()
            .filter(|point| point.1 < 0.0)
            .copied()
            .collect();
        let Some(first) = below.first() else { return };
        let path = steps(&thin(&below, MOST_POINTS), until, &self.x, &self.y);
        let (zero, start) = (short(self.y.at(0.0)), short(self.x.at(first.0)));
        let _ = write!(
            self.body,
            r#"<path class="{class}" d="{path}V{zero}H{start}Z"/>"#
        );
    }

    /// Draws a bar from one value to another, over a range of the other axis; `class` by its part.
    pub(super) fn bar(&mut self, class: &str, (from, to): (f64, f64), (low, high): (f64, f64)) {
        let (left, right) = (self.x.at(from) + GAP, self.x.at(to) - GAP);
        let (top, bottom) = (self.y.at(high), self.y.at(low));
        if bottom - top < 0.05 {
            return;
        }
        let _ = write!(
            self.body,
            r#"<rect class="{class}" x="{}" y="{}" width="{}" height="{}"/>"#,
            short(left),
            short(top),
            short((right - left).max(0.6)),
            short(bottom - top),
        );
    }

    /// Lets the pointer read some lines over a range of the axis.
    pub(super) fn tip(&mut self, (from, to): (f64, f64), lines: &[String]) {
        let (left, right) = (short(self.x.at(from)), short(self.x.at(to)));
        let lines: Vec<_> = lines.iter().map(|line| escape(line)).collect();
        let tip = lines.join("&#10;");
        let _ = write!(
            self.over,
            r#"<g data-from="{left}" data-to="{right}" data-tip="{tip}"/>"#
        );
    }

    /// Draws a labelled line across the chart at a value of the lower axis.
    pub(super) fn mark(&mut self, at: f64, label: &str, row: usize) {
        let x = self.x.at(at);
        let y = TOP + ROW * row as f64;
        let (anchor, shift) = side(x);
        let _ = write!(
            self.over,
            r#"<path class="mark" d="M{x} {y}V{BOTTOM}"/><text class="label" x="{at}" y="{base}" text-anchor="{anchor}">{label}</text>"#,
            x = short(x),
            y = short(y - ROW + 3.0),
            at = short(x + shift),
            base = short(y),
            label = escape(label),
        );
    }

    /// Writes a value at the end of a line, to its left and above.
    pub(super) fn note(&mut self, class: &str, (x, y): Point, label: &str) {
        let _ = write!(
            self.over,
            r#"<text class="label {class}" x="{}" y="{}" text-anchor="end">{}</text>"#,
            short(self.x.at(x) - 5.0),
            short(self.y.at(y) - 6.0),
            escape(label),
        );
    }

    /// Draws a band from the begin of each fault to its end, and a line where another copy took over, each
    /// with a label in a row of its own.
    pub(super) fn faults(&mut self, faults: &[FaultSeen]) {
        let mut row = 0;
        for fault in faults {
            let at = |us: u64| self.x.at(us as f64 / 1e6);
            let (from, to) = (at(fault.from_us), at(fault.to_us));
            let width = (to - from).max(2.0);
            let (anchor, x) = match from > MIDDLE {
                true => ("end", from + width),
                false => ("start", from),
            };
            // Of more faults than there are rows only the bands are drawn.
            let label = (row < MOST_ROWS).then(|| escape(&words::fault(fault)));
            let y = TOP + ROW * row.min(MOST_ROWS) as f64;
            let _ = write!(
                self.under,
                r#"<rect class="band" x="{}" y="{top}" width="{}" height="{}"/>"#,
                short(from),
                short(width),
                short(BOTTOM - y - 4.0),
                top = short(y + 4.0),
            );
            if let Some(label) = label {
                let _ = write!(
                    self.over,
                    r#"<text class="label fault" x="{}" y="{}" text-anchor="{anchor}">{label}</text>"#,
                    short(x),
                    short(y + ROW - 3.0),
                );
            }
            row += 1;
            if let Some(taken) = fault.taken_over.filter(|_| row < MOST_ROWS) {
                let label = format!("copy {} takes over", taken.copy);
                self.mark(taken.at_us as f64 / 1e6, &label, row + 1);
                row += 1;
            }
        }
    }

    /// Returns the finished picture; `id` is not used by any other.
    pub(super) fn svg(&self, id: &str) -> String {
        let Self {
            title,
            about,
            under,
            body,
            over,
            ..
        } = self;
        format!(
            r#"<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-labelledby="{id}-t {id}-d" data-x="{}" data-y="{}"><title id="{id}-t">{title}</title><desc id="{id}-d">{about}</desc>{under}{body}{over}</svg>"#,
            self.x.told(),
            self.y.told(),
        )
    }

    fn path(&mut self, class: &str, name: &str, path: &str) {
        if path.is_empty() {
            return;
        }
        let name = escape(name);
        let _ = write!(
            self.body,
            r#"<path class="line {class}" data-name="{name}" d="{path}"/>"#
        );
    }

    fn draw_axes(&mut self, x: &Axis, y: &Axis) {
        for tick in self.y.ticks(y.ticks) {
            let (at, text) = (self.y.at(tick), (y.text)(tick));
            let class = if tick == 0.0 { "axis" } else { "grid" };
            let _ = write!(
                self.under,
                r#"<path class="{class}" d="M{LEFT} {at}H{RIGHT}"/><text x="{}" y="{}" text-anchor="end">{text}</text>"#,
                LEFT - 6.0,
                short(at + 4.0),
                at = short(at),
            );
        }
        for tick in self.x.ticks(x.ticks) {
            let (at, text) = (short(self.x.at(tick)), (x.text)(tick));
            let _ = write!(
                self.under,
                r#"<path class="axis" d="M{at} {BOTTOM}v4"/><text x="{at}" y="{}" text-anchor="middle">{text}</text>"#,
                BOTTOM + 18.0,
            );
        }
        let _ = write!(
            self.under,
            r#"<path class="axis" d="M{LEFT} {BOTTOM}H{RIGHT}"/><text class="unit" x="0" y="11">{}</text>"#,
            y.name,
        );
    }
}

/// The way of a pen along steps.
fn steps(points: &[Point], until: f64, x: &Scale, y: &Scale) -> String {
    let mut path = String::new();
    let mut last = (String::new(), String::new());
    for point in points {
        let (at_x, at_y) = (short(x.at(point.0)), short(y.at(point.1)));
        if path.is_empty() {
            let _ = write!(path, "M{at_x} {at_y}");
            last = (at_x, at_y);
            continue;
        }
        if last.0 != at_x {
            let _ = write!(path, "H{at_x}");
            last.0 = at_x;
        }
        if last.1 != at_y {
            let _ = write!(path, "V{at_y}");
            last.1 = at_y;
        }
    }
    if !path.is_empty() {
        let _ = write!(path, "H{}", short(x.at(until)));
    }
    path
}

/// Where a label at `x` stands, so that it stays inside.
fn side(x: f64) -> (&'static str, f64) {
    match x > MIDDLE {
        true => ("end", -4.0),
        false => ("start", 4.0),
    }
}

/// A place with one decimal at most: finer is not seen.
fn short(place: f64) -> String {
    let mut text = format!("{place:.1}");
    if text.ends_with(".0") {
        text.truncate(text.len() - 2);
    }
    text
}

/// How many labels of faults there are at most, each in a row of its own.
pub(super) const MOST_ROWS: usize = 4;

const WIDTH: f64 = 480.0;
const HEIGHT: f64 = 234.0;
const LEFT: f64 = 54.0;
const RIGHT: f64 = 462.0;
const TOP: f64 = 26.0;
const BOTTOM: f64 = 208.0;
const MIDDLE: f64 = (LEFT + RIGHT) / 2.0;

/// The height of a line of labels.
const ROW: f64 = 16.0;

/// Between two bars, on each side.
const GAP: f64 = 0.5;

/// More than the paper can show.
const MOST_POINTS: usize = 800;

#[cfg(test)]
mod tests {
    use super::*;

    fn axis(from: f64, to: f64) -> Axis {
        Axis {
            values: (from, to),
            spacing: Spacing::Linear,
            text: words::number,
            ticks: 4,
            name: "unit",
        }
    }

    #[test]
    fn a_value_holds_until_the_next() {
        let (x, y) = (
            Scale::linear((0.0, 10.0), (0.0, 100.0)),
            Scale::linear((0.0, 10.0), (100.0, 0.0)),
        );
        let path = steps(&[(0.0, 10.0), (2.0, 10.0), (5.0, 4.0)], 10.0, &x, &y);
        assert_eq!(path, "M0 0H20H50V60H100");
    }

    #[test]
    fn a_long_line_stays_small_and_its_text_is_safe() {
        let points: Vec<Point> = (0..100_000)
            .map(|n| (f64::from(n) / 1000.0, f64::from(n % 1000)))
            .collect();
        let mut chart = Chart::new("<a>", "b & c", axis(0.0, 100.0), axis(0.0, 1000.0), 0);
        chart.steps("copy1", "copy \"1\"", &points, 100.0);
        let svg = chart.svg("x");
        assert!(svg.len() < 20_000, "{}", svg.len());
        for part in ["&lt;a&gt;", "b &amp; c", "copy &quot;1&quot;"] {
            assert!(svg.contains(part), "{part}");
        }
    }

    #[test]
    fn a_line_with_a_gap_is_drawn_in_two_parts() {
        let mut chart = Chart::new("a", "b", axis(0.0, 10.0), axis(0.0, 10.0), 0);
        let point = |n: f64| Some((n, n));
        chart.line("p50", "half", &[point(1.0), point(2.0), None, point(4.0)]);
        let svg = chart.svg("x");
        let (_, path) = svg.split_once("data-name=\"half\" d=\"").unwrap();
        let (path, _) = path.split_once('"').unwrap();
        assert_eq!(path.matches('M').count(), 2, "{path}");
        assert_eq!(path.matches('L').count(), 1, "{path}");
    }

    #[test]
    fn the_lines_of_a_tip_stay_apart_and_safe() {
        let mut chart = Chart::new("a", "b", axis(0.0, 10.0), axis(0.0, 10.0), 0);
        chart.tip((1.0, 2.0), &["one".into(), "<two>".into()]);
        let svg = chart.svg("x");
        assert!(svg.contains("data-tip=\"one&#10;&lt;two&gt;\""), "{svg}");
    }

    #[test]
    fn an_axis_ends_at_a_round_value_that_is_not_too_far() {
        for (to, round) in [
            (980.0, 1000.0),
            (1000.0, 1000.0),
            (6_400.0, 8_000.0),
            (0.42, 0.6),
        ] {
            let found = axis(0.0, to).rounded_up().values.1;
            assert!((found - round).abs() < 1e-9, "{to}: {found}");
        }
    }

    #[test]
    fn only_what_is_below_zero_is_filled() {
        let mut chart = Chart::new("a", "b", axis(0.0, 10.0), axis(-5.0, 10.0), 0);
        chart.below_zero("oversold", &[(1.0, 3.0), (2.0, 0.0)], 10.0);
        assert!(!chart.svg("x").contains("oversold"));
        chart.below_zero("oversold", &[(1.0, 3.0), (2.0, -1.0)], 10.0);
        assert!(chart.svg("x").contains("oversold"));
    }
}
