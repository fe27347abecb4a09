//! The results of the rounds: a table for people, and JSON for scripts.

use std::collections::BTreeMap;
use std::io::Write;

use serde::Serialize;

use crate::bench::figures::{Figures, median, range};
use crate::bench::machine::Machine;
use crate::bench::report_row::{Aim, Row, short};
use crate::bench::workload::Workload;
use crate::terminal::table;
use tenure_cli::Result;
use tenure_cli::output;

/// One round of a workload: the figures of each contender, by label.
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

    /// Adds those figures whose names start with `prefix` to the last round.
    pub(super) fn add_to_last(&mut self, label: &'static str, figures: Figures, prefix: &str) {
        if let Some(round) = self.rounds.last_mut() {
            let last = round.entry(label).or_default();
            *last = std::mem::take(last).with_those_of(figures, prefix);
        }
    }

    /// Returns one figure of one contender, round by round.
    fn values(&self, label: &str, figure: &str) -> Vec<f64> {
        let rounds = self.rounds.iter();
        rounds
            .filter_map(|round| round.get(label)?.find(figure))
            .collect()
    }

    /// Returns the slowest of the row's labels by its median, so that a single disturbed round does
    /// not decide.
    fn slowest(&self, row: Row) -> Option<&'static str> {
        let typical = |label: &str| median(&self.values(label, row.figure)).unwrap_or(0.0);
        let labels = row.slowest_of.iter().copied();
        labels.max_by(|one, other| typical(one).total_cmp(&typical(other)))
    }
}

/// The whole run, as JSON shows it.
#[derive(Debug, Serialize)]
pub(super) struct Report<'a> {
    pub(super) store: String,
    pub(super) version: &'static str,
    pub(super) machine: Machine,
    pub(super) for_ms: u64,
    /// The delay that was added to the replies of the servers, if any.
    pub(super) away_ms: Option<u64>,
    pub(super) workloads: Vec<WorkloadReport<'a>>,
    /// What could not be measured.
    pub(super) missing: Option<&'a str>,
}

#[derive(Debug, Serialize)]
pub(super) struct WorkloadReport<'a> {
    workload: Workload,
    #[serde(rename = "lines")]
    rows: Vec<RowReport>,
    rounds: &'a [Round],
}

/// A row of the report with its figures.
#[derive(Debug, Serialize)]
struct RowReport {
    #[serde(skip)]
    row: Row,
    figure: &'static str,
    who: &'static str,
    tenure: Summary,
    floor: Option<FloorReport>,
    /// The median of the ratios of the rounds: a disturbance affects both sides of a round.
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

impl Report<'_> {
    /// Prints the table.
    pub(super) fn print(&self) -> Result<()> {
        let header = ["WORKLOAD", "WHAT", "TENURE", "FLOOR", "RATIO", "AIM", "MET"];
        let mut table = table(&header, [2, 3, 4, 5]);
        for workload in &self.workloads {
            for (number, row) in workload.rows.iter().enumerate() {
                let name = match number {
                    0 => workload.workload.name(),
                    _ => String::new(),
                };
                table.add_row(row.cells(name));
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

    fn missed(&self) -> Vec<String> {
        let is_missed =
            |report: &&WorkloadReport<'_>| report.rows.iter().any(|row| row.met == Some(false));
        let missed = self.workloads.iter().filter(is_missed);
        missed.map(|report| report.workload.name()).collect()
    }
}

/// Summarizes the rounds of each workload.
pub(super) fn workloads<'a>(runs: &'a [Runs], rows: &[Row]) -> Vec<WorkloadReport<'a>> {
    let of = |runs: &'a Runs| {
        let own = rows.iter().filter(|row| row.workload == runs.workload);
        WorkloadReport {
            workload: runs.workload,
            rows: own.filter_map(|row| RowReport::new(*row, runs)).collect(),
            rounds: &runs.rounds,
        }
    };
    runs.iter().map(of).collect()
}

impl RowReport {
    /// Summarizes a row; returns `None` if its figure could not be measured.
    fn new(row: Row, runs: &Runs) -> Option<Self> {
        let own = runs.values(row.who, row.figure);
        let floor = row.floor.or_else(|| runs.slowest(row));
        let floor = floor.map(|name| (name, runs.values(name, row.figure)));
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
        let met = row.aim.is_met(tenure.median, ratio);
        Some(Self {
            row,
            figure: row.figure,
            who: row.who,
            tenure,
            floor,
            ratio,
            aim: (!matches!(row.aim, Aim::None)).then_some(row.aim),
            met,
        })
    }

    fn cells(&self, workload: String) -> [String; 7] {
        let unit = self.row.unit;
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
            workload,
            self.row.what.to_owned(),
            show(&self.tenure),
            floor.unwrap_or_default(),
            ratio.unwrap_or_default(),
            self.row.aim.show(unit),
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
