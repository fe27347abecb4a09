//! What came of the rounds: a table for people, and JSON for scripts.

use std::collections::BTreeMap;
use std::io::Write;
use std::time::Duration;

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{CellAlignment, Table};
use serde::Serialize;

use crate::bench::figures::{Figures, median, range};
use crate::bench::kind::Kind;
use crate::bench::line::{Aim, Line, short};
use crate::bench::machine::Machine;
use crate::bench::workload::Workload;
use tenure_cli::error::Result;
use tenure_cli::output::{self, millis};

/// One round of a workload: what was measured of each, by label.
pub(super) type Round = BTreeMap<&'static str, Figures>;

/// All rounds of a workload.
#[derive(Debug)]
pub(super) struct Runs {
    pub(super) workload: Workload,
    pub(super) rounds: Vec<Round>,
}

impl Runs {
    pub(super) fn new(workload: Workload) -> Self {
        Self {
            workload,
            rounds: Vec::new(),
        }
    }

    /// Adds figures whose names begin so to those of the last round.
    pub(super) fn add_to_last(&mut self, label: &'static str, figures: Figures, prefix: &str) {
        if let Some(round) = self.rounds.last_mut() {
            let last = round.entry(label).or_default();
            *last = std::mem::take(last).with_those_of(figures, prefix);
        }
    }

    /// One figure of one who was measured, round by round.
    fn values(&self, label: &str, figure: &str) -> Vec<f64> {
        let rounds = self.rounds.iter();
        rounds
            .filter_map(|round| round.get(label)?.find(figure))
            .collect()
    }

    /// Who of those that a line names has the largest median: a time that a moment's trouble made
    /// longer is nobody's floor.
    fn slowest(&self, line: Line) -> Option<&'static str> {
        let typical = |label: &str| median(&self.values(label, line.figure)).unwrap_or(0.0);
        let labels = line.slowest_of.iter().copied();
        labels.max_by(|one, other| typical(one).total_cmp(&typical(other)))
    }
}

/// How long each workload was measured, and how far the servers were moved away.
#[derive(Debug, Clone, Copy)]
pub(super) struct Times {
    pub(super) each: Duration,
    pub(super) away: Option<Duration>,
}

/// The whole run, as JSON shows it.
#[derive(Debug, Serialize)]
pub(super) struct Report<'a> {
    store: String,
    version: &'static str,
    machine: Machine,
    for_ms: u64,
    /// How far away the servers seemed to be, if they were moved.
    away_ms: Option<u64>,
    workloads: Vec<WorkloadReport<'a>>,
    /// What could not be had.
    missing: Option<&'a str>,
}

#[derive(Debug, Serialize)]
struct WorkloadReport<'a> {
    workload: Workload,
    lines: Vec<LineReport>,
    rounds: &'a [Round],
}

/// A line of the report with its figures.
#[derive(Debug, Serialize)]
struct LineReport {
    #[serde(skip)]
    line: Line,
    figure: &'static str,
    who: &'static str,
    tenure: Summary,
    floor: Option<FloorReport>,
    /// The median of the rounds' ratios: what disturbs a round disturbs both sides of it.
    ratio: Option<f64>,
    aim: Option<Aim>,
    met: Option<bool>,
}

#[derive(Debug, Serialize)]
struct FloorReport {
    name: &'static str,
    #[serde(flatten)]
    summary: Summary,
}

#[derive(Debug, Serialize)]
struct Summary {
    median: f64,
    range: [f64; 2],
}

impl<'a> Report<'a> {
    pub(super) fn new(
        store: String,
        machine: Machine,
        times: Times,
        kind: &'a dyn Kind,
        runs: &'a [Runs],
    ) -> Self {
        let workloads = runs.iter().map(|runs| WorkloadReport {
            workload: runs.workload,
            lines: lines_of(runs, &kind.lines()),
            rounds: &runs.rounds,
        });
        Self {
            store,
            version: env!("CARGO_PKG_VERSION"),
            machine,
            for_ms: millis(times.each),
            away_ms: times.away.map(millis),
            workloads: workloads.collect(),
            missing: kind.missing(),
        }
    }

    /// Prints the table.
    pub(super) fn print(&self) -> Result<()> {
        let mut table = Table::new();
        table.load_style(UTF8_FULL_CONDENSED);
        table.set_header(["WORKLOAD", "WHAT", "TENURE", "FLOOR", "RATIO", "AIM", "MET"]);
        for workload in &self.workloads {
            for (number, line) in workload.lines.iter().enumerate() {
                let name = if number == 0 {
                    workload.workload.name()
                } else {
                    ""
                };
                table.add_row(line.row(name));
            }
        }
        for column in [2, 3, 4, 5] {
            if let Some(column) = table.column_mut(column) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        let mut out = output::stdout();
        writeln!(out, "{table}")?;
        let away = self.away_ms.map(|away| format!(", {away} ms away,"));
        let (store, away) = (&self.store, away.unwrap_or_default());
        writeln!(out, "store {store}{away} on {}", self.machine.sentence())?;
        if let Some(missing) = self.missing {
            writeln!(out, "{missing}")?;
        }
        let missed = self.missed();
        if !missed.is_empty() {
            writeln!(out, "aims that were missed: {}", missed.join(", "))?;
        }
        Ok(())
    }

    fn missed(&self) -> Vec<&'static str> {
        let is_missed =
            |report: &&WorkloadReport<'_>| report.lines.iter().any(|line| line.met == Some(false));
        let missed = self.workloads.iter().filter(is_missed);
        missed.map(|report| report.workload.name()).collect()
    }
}

fn lines_of(runs: &Runs, lines: &[Line]) -> Vec<LineReport> {
    let own = lines.iter().filter(|line| line.workload == runs.workload);
    own.filter_map(|line| LineReport::new(*line, runs))
        .collect()
}

impl LineReport {
    /// Sums up a line; `None` if its figure could not be had.
    fn new(line: Line, runs: &Runs) -> Option<Self> {
        let own = runs.values(line.who, line.figure);
        let floor = line.floor.or_else(|| runs.slowest(line));
        let floor = floor.map(|name| (name, runs.values(name, line.figure)));
        let ratios = floor.as_ref().map(|(_, floor)| {
            let ratios = own.iter().zip(floor).map(|(own, floor)| own / floor);
            ratios.filter(|ratio| ratio.is_finite()).collect::<Vec<_>>()
        });
        let ratio = ratios.and_then(|ratios| median(&ratios));
        let tenure = Summary::new(&own)?;
        let floor = floor.and_then(|(name, values)| {
            let summary = Summary::new(&values)?;
            Some(FloorReport { name, summary })
        });
        let met = line.aim.and_then(|aim| aim.is_met(tenure.median, ratio));
        Some(Self {
            line,
            figure: line.figure,
            who: line.who,
            tenure,
            floor,
            ratio,
            aim: line.aim,
            met,
        })
    }

    fn row(&self, workload: &str) -> [String; 7] {
        let unit = self.line.unit;
        let show = |summary: &Summary| {
            let [least, most] = summary.range;
            let median = unit.show(summary.median);
            if least == most {
                return median;
            }
            format!("{median} [{}–{}]", short(least), short(most))
        };
        let floor = self.floor.as_ref();
        let floor = floor.map(|floor| format!("{} {}", floor.name, show(&floor.summary)));
        let ratio = self.ratio.map(|ratio| format!("{ratio:.2}×"));
        let met = self.met.map(|met| if met { "yes" } else { "NO" });
        [
            workload.to_owned(),
            self.line.what.to_owned(),
            show(&self.tenure),
            floor.unwrap_or_default(),
            ratio.unwrap_or_default(),
            self.aim.map(|aim| aim.show(unit)).unwrap_or_default(),
            met.unwrap_or_default().to_owned(),
        ]
    }
}

impl Summary {
    fn new(values: &[f64]) -> Option<Self> {
        Some(Self {
            median: median(values)?,
            range: range(values)?,
        })
    }
}
