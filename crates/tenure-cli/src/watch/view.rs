//! What the live screen shows.

use std::collections::HashMap;
use std::time::Duration;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Row, Table};
use tenure::driver::{Entry, Waiter};
use tenure::{Fence, Name};
use tokio::time::Instant;

use crate::duration::Rounded;
use crate::error::Result;
use crate::holding::Holding;
use crate::output::{escape, fit, mode, reason, times, who};

/// The state of the screen.
#[derive(Debug, Default)]
pub(super) struct View {
    store: String,
    entries: Vec<Entry>,
    /// When the entries were listed.
    looked: Option<Instant>,
    /// Why the last attempt to list them failed.
    trouble: Option<String>,
    /// The longest remaining time that was seen of each lease: about its ttl.
    longest: HashMap<(Name, Fence), Duration>,
    filter: String,
    /// Whether keys go into the filter.
    pub(super) typing: bool,
    /// How many rows are scrolled out of view at the top.
    top: usize,
    /// How many rows fit, as of the last drawing.
    height: usize,
}

impl View {
    pub(super) fn new(store: String) -> Self {
        Self {
            store,
            ..Self::default()
        }
    }

    /// Takes in the result of listing the locks.
    pub(super) fn found(&mut self, found: Result<Vec<Entry>>) {
        let entries = match found {
            Ok(entries) => entries,
            Err(failure) => {
                self.trouble = Some(failure.to_string());
                return;
            }
        };
        let mut longest = HashMap::new();
        for entry in &entries {
            for holding in Holding::all(&entry.holders) {
                let key = (entry.name.clone(), holding.first.fence);
                let before = self.longest.get(&key).copied().unwrap_or_default();
                longest.insert(key, before.max(holding.expires_in()));
            }
        }
        self.longest = longest;
        self.entries = entries;
        self.looked = Some(Instant::now());
        self.trouble = None;
    }

    pub(super) fn is_filtered(&self) -> bool {
        !self.filter.is_empty()
    }

    pub(super) fn type_in(&mut self, c: char) {
        self.filter.push(c);
        self.top = 0;
    }

    pub(super) fn rub_out(&mut self) {
        self.filter.pop();
    }

    pub(super) fn clear_filter(&mut self) {
        self.filter.clear();
        self.typing = false;
    }

    /// Scrolls down by `rows`, or up if negative; the next drawing keeps it in bounds.
    pub(super) fn scroll(&mut self, rows: isize) {
        self.top = self.top.saturating_add_signed(rows);
    }

    /// Returns how many rows a page has.
    pub(super) fn page(&self) -> isize {
        isize::try_from(self.height).unwrap_or(1).max(1)
    }

    /// Draws the screen.
    pub(super) fn draw(&mut self, frame: &mut Frame<'_>) {
        let layout = Layout::vertical([
            Constraint::Length(1),
            Constraint::Length(u16::from(self.trouble.is_some())),
            Constraint::Min(1),
            Constraint::Length(1),
        ]);
        let [head, trouble, body, foot] = layout.areas(frame.area());
        frame.render_widget(self.head(), head);
        frame.render_widget(self.trouble(), trouble);
        self.draw_locks(frame, body);
        frame.render_widget(self.foot(), foot);
    }

    fn head(&self) -> Paragraph<'_> {
        let shown: Vec<_> = self.shown().collect();
        let held = shown.iter().filter(|entry| !entry.holders.is_empty());
        let held = held.count();
        let waiting: usize = shown.iter().map(|entry| entry.waiters.len()).sum();
        Paragraph::new(Line::from(vec![
            Span::from(" tenure ").bold().reversed(),
            Span::from(format!(" {} ", escape(&self.store))),
            Span::from(format!("  {held} held · {waiting} waiting ")).dim(),
        ]))
    }

    fn trouble(&self) -> Paragraph<'_> {
        let trouble = self.trouble.as_deref().unwrap_or_default();
        let age = self.looked.map(|looked| Rounded(looked.elapsed()));
        let age = age.map_or_else(String::new, |age| format!("seen {age} ago: "));
        Paragraph::new(format!(" {age}{trouble}")).white().on_red()
    }

    fn foot(&self) -> Paragraph<'_> {
        let line = match (self.typing, self.is_filtered()) {
            (true, _) => format!(" /{}▏  Enter keeps the filter, Esc clears it", self.filter),
            (false, true) => format!(
                " q quit · ↑↓ scroll · showing {:?}, Esc clears",
                self.filter
            ),
            (false, false) => " q quit · ↑↓ scroll · / filter".to_owned(),
        };
        Paragraph::new(line).dim()
    }

    fn draw_locks(&mut self, frame: &mut Frame<'_>, area: Rect) {
        // One row is for the heading.
        self.height = usize::from(area.height.saturating_sub(1));
        let columns = Columns::of(area.width);
        let rows = self.rows(&columns);
        let bottom = rows.len().saturating_sub(self.height);
        let top = self.top.min(bottom);
        if rows.is_empty() {
            let text = match (self.looked, self.is_filtered()) {
                (None, _) => "",
                (Some(_), true) => "\n  no lock matches",
                (Some(_), false) => "\n  nobody holds or waits for a lock",
            };
            frame.render_widget(Paragraph::new(text).dim(), area);
            return;
        }
        let heading = ["NAME", "WHO", "FOR", "LEASE", "MODE", "REASON"];
        let heading = columns.row(heading.map(Line::from));
        let table = Table::new(rows.into_iter().skip(top), columns.widths);
        frame.render_widget(table.header(heading.style(Style::new().bold())), area);
        self.top = top;
    }

    fn rows(&self, columns: &Columns) -> Vec<Row<'static>> {
        let age = self.looked.map(|looked| looked.elapsed());
        let age = age.unwrap_or_default();
        let mut rows = Vec::new();
        for entry in self.shown() {
            for holding in Holding::all(&entry.holders) {
                rows.push(self.holder_row(columns, entry, &holding, age));
            }
            if entry.holders.is_empty() {
                rows.push(Row::new([columns.name(entry)]));
            }
            for (place, waiter) in entry.waiters.iter().enumerate() {
                rows.push(waiter_row(columns, place + 1, waiter, age));
            }
        }
        rows
    }

    fn holder_row(
        &self,
        columns: &Columns,
        entry: &Entry,
        holding: &Holding<'_>,
        age: Duration,
    ) -> Row<'static> {
        let first = holding.first;
        let left = holding.expires_in().saturating_sub(age);
        let longest = self.longest.get(&(entry.name.clone(), first.fence));
        let bar = bar(left, longest.copied().unwrap_or(left));
        let lease = match columns.is_wide {
            true => Line::from(vec![bar, Span::from(format!(" {}", Rounded(left)))]),
            false => Span::from(Rounded(left).to_string())
                .style(bar.style)
                .into(),
        };
        columns.row([
            columns.name(entry).bold(),
            fit(&holding.who(), columns.who).into(),
            Rounded(holding.held() + age).to_string().into(),
            lease,
            (mode(first.mode) + &times(holding.depth())).into(),
            fit(&reason(&first.about), columns.reason).into(),
        ])
    }

    /// Returns the entries whose name, holder or reason contains the filter.
    fn shown(&self) -> impl Iterator<Item = &Entry> {
        let wanted = self.filter.to_lowercase();
        self.entries.iter().filter(move |entry| {
            let has = |text: &str| text.to_lowercase().contains(&wanted);
            let abouts = entry.holders.iter().map(|holder| &holder.about);
            let mut abouts = abouts.chain(entry.waiters.iter().map(|waiter| &waiter.about));
            has(entry.name.as_str()) || abouts.any(|about| has(&who(about)) || has(&reason(about)))
        })
    }
}

fn waiter_row(columns: &Columns, place: usize, waiter: &Waiter, age: Duration) -> Row<'static> {
    let cells = [
        fit(&format!("  {place}. in line"), columns.name),
        fit(&who(&waiter.about), columns.who),
        Rounded(waiter.waited + age).to_string(),
        String::new(),
        mode(waiter.mode),
        fit(&reason(&waiter.about), columns.reason),
    ];
    let row = columns.row(cells.map(Line::from));
    row.style(Style::new().dim())
}

/// The columns of the screen. A narrow screen has no bars and no modes.
#[derive(Debug)]
struct Columns {
    widths: Vec<Constraint>,
    is_wide: bool,
    name: usize,
    who: usize,
    reason: usize,
}

impl Columns {
    /// Divides a screen of this width.
    fn of(width: u16) -> Self {
        use Constraint::{Fill, Length};
        let is_wide = width >= WIDE;
        let widths = match is_wide {
            true => vec![
                Fill(3),
                Fill(2),
                Length(7),
                Length(BAR + 8),
                Length(11),
                Fill(3),
            ],
            false => vec![Fill(3), Fill(2), Length(7), Length(7), Fill(3)],
        };
        let areas = Layout::horizontal(&widths).spacing(1);
        let areas = areas.split(Rect::new(0, 0, width, 1));
        let column = |index: usize| usize::from(areas[index].width);
        Self {
            is_wide,
            name: column(0),
            who: column(1),
            reason: column(widths.len() - 1),
            widths,
        }
    }

    fn name(&self, entry: &Entry) -> Line<'static> {
        fit(&escape(entry.name.as_str()), self.name).into()
    }

    /// Makes a row of name, process, time, lease, mode and reason.
    fn row(&self, cells: [Line<'static>; 6]) -> Row<'static> {
        let [name, who, time, lease, mode, reason] = cells;
        match self.is_wide {
            true => Row::new([name, who, time, lease, mode, reason]),
            false => Row::new([name, who, time, lease, reason]),
        }
    }
}

/// Returns a bar that shows how much of a lease is left.
fn bar(left: Duration, whole: Duration) -> Span<'static> {
    let share = match whole.is_zero() {
        true => 0.0,
        false => left.div_duration_f64(whole).min(1.0),
    };
    let colour = match share {
        0.5.. => Color::Green,
        0.25..0.5 => Color::Yellow,
        _ => Color::Red,
    };
    let full = (1..=BAR).filter(|part| f64::from(*part) <= share * f64::from(BAR) + 0.5);
    let full = full.count();
    let rest = usize::from(BAR) - full;
    Span::from(format!("{}{}", "█".repeat(full), "░".repeat(rest))).fg(colour)
}

/// From this width on there is room for all columns.
const WIDE: u16 = 80;

/// The width of a bar.
const BAR: u16 = 10;

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use tenure::ClaimId;
    use tenure::driver::{About, Holder};

    use super::*;
    use crate::error::Failure;

    #[tokio::test(start_paused = true)]
    async fn shows_holders_with_their_leases_and_the_line() {
        let mut view = view();
        let screen = drawn(&mut view, 80, 8);
        assert!(screen[0].contains("local:"), "{screen:#?}");
        assert!(screen[0].contains("2 held · 1 waiting"), "{screen:#?}");
        assert!(screen[2].starts_with("deploy"), "{screen:#?}");
        assert!(screen[2].contains("██████████ 30s"), "{screen:#?}");
        assert!(screen[2].contains("nightly"), "{screen:#?}");
        assert!(screen[3].contains("1. in line"), "{screen:#?}");
        assert!(screen[4].starts_with("report"), "{screen:#?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_narrow_screen_shows_the_beginning_of_long_texts() {
        let mut view = view();
        let mut entries = std::mem::take(&mut view.entries);
        entries[0].name = Name::new(&"production/".repeat(9)).unwrap();
        view.found(Ok(entries));
        for width in [60, 80] {
            let screen = drawn(&mut view, width, 8);
            assert!(screen[2].starts_with("production"), "{screen:#?}");
            assert_eq!(screen[2].matches('…').count(), 1, "{screen:#?}");
            assert!(screen[2].contains("30s"), "{screen:#?}");
            assert!(screen[2].contains("nightly"), "{screen:#?}");
            assert_eq!(screen[1].contains("MODE"), width == 80, "{screen:#?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn leases_run_down_between_two_looks() {
        let mut view = view();
        tokio::time::advance(Duration::from_secs(15)).await;
        let screen = drawn(&mut view, 80, 8);
        assert!(screen[2].contains("█████░░░░░ 15s"), "{screen:#?}");
        tokio::time::advance(Duration::from_secs(60)).await;
        let screen = drawn(&mut view, 80, 8);
        assert!(screen[2].contains("░░░░░░░░░░ 0ms"), "{screen:#?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_filter_keeps_what_contains_it() {
        let mut view = view();
        view.typing = true;
        "NIGHT".chars().for_each(|c| view.type_in(c));
        let screen = drawn(&mut view, 80, 8);
        assert!(screen[0].contains("1 held"), "{screen:#?}");
        assert!(screen[2].starts_with("deploy"), "{screen:#?}");
        assert!(!screen.concat().contains("report"), "{screen:#?}");
        view.clear_filter();
        assert!(drawn(&mut view, 80, 8).concat().contains("report"));
    }

    #[tokio::test(start_paused = true)]
    async fn scrolling_stops_at_both_ends() {
        let mut view = view();
        view.scroll(isize::MAX);
        let screen = drawn(&mut view, 80, 4);
        assert!(screen[2].starts_with("report"), "{screen:#?}");
        view.scroll(isize::MIN);
        let screen = drawn(&mut view, 80, 4);
        assert!(screen[2].starts_with("deploy"), "{screen:#?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_store_out_of_reach_is_told_and_the_last_look_stays() {
        let mut view = view();
        tokio::time::advance(Duration::from_secs(3)).await;
        view.found(Err(Failure::new(69, "gone")));
        let screen = drawn(&mut view, 80, 8);
        assert!(screen[1].contains("seen 3s ago: gone"), "{screen:#?}");
        assert!(screen[3].starts_with("deploy"), "{screen:#?}");
        view.found(Ok(Vec::new()));
        let screen = drawn(&mut view, 80, 8).concat();
        assert!(
            !screen.contains("gone") && screen.contains("nobody"),
            "{screen}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn no_size_is_too_small() {
        let mut view = view();
        for (width, height) in [(1, 1), (3, 2), (20, 3), (300, 2)] {
            drawn(&mut view, width, height);
        }
    }

    fn view() -> View {
        let about = |reason: &str| About::new("vm", 7).with_reason(reason);
        let holder = |fence, reason| {
            let (claim, fence) = (ClaimId::new("ann").unwrap(), Fence::new(fence).unwrap());
            let mut holder = Holder::new(claim, fence, about(reason), Duration::from_secs(30));
            holder.held = Duration::from_secs(90);
            holder
        };
        let mut waiter = Waiter::new(ClaimId::new("bob").unwrap(), about("later"));
        waiter.waited = Duration::from_secs(5);
        let entry = |name, holder, waiters| {
            let mut entry = Entry::new(Name::new(name).unwrap());
            entry.holders = vec![holder];
            entry.waiters = waiters;
            entry
        };
        let mut view = View::new("local:".to_owned());
        view.found(Ok(vec![
            entry("deploy", holder(1, "nightly"), vec![waiter]),
            entry("report", holder(2, "weekly"), Vec::new()),
        ]));
        view
    }

    fn drawn(view: &mut View, width: u16, height: u16) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| view.draw(frame)).unwrap();
        let buffer = terminal.backend().buffer();
        let rows = buffer.content().chunks(usize::from(width));
        rows.map(|row| row.iter().map(ratatui::buffer::Cell::symbol).collect())
            .collect()
    }
}
