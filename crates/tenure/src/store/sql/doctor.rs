//! How the doctors of both databases ask, and the checks that they share.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::timeout;

use crate::doctor::{Check, Finding, RIGHTS};
use crate::error::{Error, Result};
use crate::store::sql::fault::{Fault, FaultKind, Outcome};
use crate::store::sql::settings::Settings;

/// A connection that can be asked anything.
#[async_trait]
pub(crate) trait Ask: Send {
    /// The name of the store, such as `"postgres"`.
    const KIND: &'static str;

    /// Runs a statement, and returns its rows as text.
    async fn rows(&mut self, statement: &str) -> Outcome<Vec<Texts>>;
}

/// The columns of a row; `None` is NULL.
pub(crate) type Texts = Vec<Option<String>>;

/// A server that answers in time.
#[derive(Debug)]
pub(crate) struct Patient<A> {
    pub(crate) asked: A,
    timeout: Duration,
}

/// What a server answered: rows, or why it refused.
pub(crate) type Told<T> = std::result::Result<T, String>;

impl<A: Ask> Patient<A> {
    pub(crate) fn new(asked: A, settings: &Settings) -> Self {
        Self {
            asked,
            timeout: settings.timeout,
        }
    }

    /// Asks for rows.
    ///
    /// # Errors
    ///
    /// If the server does not answer any more. A refusal is an answer.
    pub(crate) async fn rows(&mut self, statement: &str) -> Result<Told<Vec<Texts>>> {
        let late = |_| {
            let why = format!("no answer in {:?}", self.timeout);
            Err(Fault::new(FaultKind::Unknown, why))
        };
        let rows = timeout(self.timeout, self.asked.rows(statement)).await;
        match rows.unwrap_or_else(late) {
            Ok(rows) => Ok(Ok(rows)),
            Err(fault) if fault.kind == FaultKind::Unknown => Err(Error::Unavailable {
                driver: A::KIND,
                source: fault.source,
            }),
            Err(fault) => Ok(Err(fault.source.to_string())),
        }
    }

    /// Asks for one row; no row has no columns.
    pub(crate) async fn row(&mut self, statement: &str) -> Result<Told<Texts>> {
        let rows = self.rows(statement).await?;
        Ok(rows.map(|rows| rows.into_iter().next().unwrap_or_default()))
    }

    /// Asks for settings: rows of a name and a value. What is not shown is not there.
    pub(crate) async fn facts(&mut self, statements: &[&str]) -> Result<Facts> {
        let mut facts = Facts::default();
        for statement in statements {
            let rows = self.rows(statement).await?.unwrap_or_default();
            facts.0.extend(rows.into_iter().filter_map(|row| {
                let mut columns = row.into_iter();
                Some((columns.next()??, columns.next()??))
            }));
        }
        Ok(facts)
    }
}

/// What a server says of itself.
#[derive(Debug, Default)]
pub(crate) struct Facts(BTreeMap<String, String>);

impl Facts {
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    pub(crate) fn number(&self, name: &str) -> Option<u64> {
        self.get(name)?.parse().ok()
    }

    #[cfg(test)]
    pub(crate) fn of(facts: &[(&str, &str)]) -> Self {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        Self(facts.iter().map(owned).collect())
    }
}

/// A column of a row.
pub(crate) fn column(row: &Texts, column: usize) -> Option<&str> {
    row.get(column)?.as_deref()
}

/// A setting that the server hides.
pub(crate) fn not_shown(check: Check, name: &str) -> Finding {
    check.unknown(
        format!("not checked: the server does not show {name} to this user"),
        format!("run as an administrator: SHOW {name}"),
    )
}

/// Whether a process finds enough connections.
///
/// `limit` and `used` are those of the whole server, `own` are those of the user if there are any.
pub(crate) fn connections(
    settings: &Settings,
    server: Option<(u64, u64)>,
    own: Option<(u64, u64)>,
) -> Finding {
    const CHECK: Check = Check("connections");
    let Some((limit, used)) = server else {
        return not_shown(CHECK, "max_connections");
    };
    let needs = u64::from(settings.connections) + 1;
    let (left, found) = match own {
        Some((own_limit, own_used))
            if own_limit.saturating_sub(own_used) < limit.saturating_sub(used) =>
        {
            let left = own_limit.saturating_sub(own_used);
            (
                left,
                format!("the user has {left} of {own_limit} connections left"),
            )
        }
        _ => {
            let left = limit.saturating_sub(used);
            (left, format!("{left} of {limit} connections are left"))
        }
    };
    match left < needs {
        true => CHECK.warning(
            format!("{found}, and a process that locks uses up to {needs}"),
            "raise max_connections, or lower connections in the URL",
        ),
        false => CHECK.fine(format!("{found}; a process that locks uses up to {needs}")),
    }
}

/// How many rows there are, and how many wait to be deleted: `counted` are idle rows, up to [`MANY_ROWS`].
pub(crate) fn rows(settings: &Settings, counted: Told<Texts>) -> Finding {
    const CHECK: Check = Check("rows");
    let memory = settings.fence_memory;
    let idle = match counted.map(|row| column(&row, 0).and_then(|idle| idle.parse::<u64>().ok())) {
        Ok(Some(idle)) => idle,
        Ok(None) => return CHECK.unknown("not checked: no count", "run this again"),
        Err(why) => {
            let found = format!("not checked: {why}");
            return CHECK.unknown(found, "see the finding about rights");
        }
    };
    match idle >= MANY_ROWS {
        true => CHECK.warning(
            format!("{idle} rows or more were not used for {memory:?} and are still there"),
            "clients delete idle rows while they lock: 1024 rows are looked at for every 256 locks",
        ),
        false => CHECK.fine(format!(
            "{idle} rows were not used for {memory:?}; clients delete them while they lock"
        )),
    }
}

/// A right that is missing, with what gives it.
pub(crate) fn lacks(missing: &[String], statements: &str) -> Finding {
    match missing.is_empty() {
        true => Finding {
            advice: Some(format!("the least that works: {statements}")),
            ..RIGHTS.fine("the user may do all that locks need")
        },
        false => RIGHTS.problem(
            format!("the user lacks {}", missing.join(", ")),
            format!("run as one who may: {statements}"),
        ),
    }
}

/// A statement on one line, without what is meant for people.
pub(crate) fn one_line(statement: &str) -> String {
    let lines = statement.lines();
    let code = lines.map(|line| line.split("--").next().unwrap_or_default());
    let words: Vec<_> = code.flat_map(str::split_whitespace).collect();
    words.join(" ").replace("( ", "(").replace(" )", ")")
}

/// From how many idle rows on a table is called large.
pub(crate) const MANY_ROWS: u64 = 100_000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Verdict;

    #[test]
    fn a_statement_fits_on_a_line() {
        let text =
            "CREATE TABLE t (\n  a int,  -- the first; it is\n  b int\n) WITH (x = 1);\nCOMMENT";
        let expected = "CREATE TABLE t (a int, b int) WITH (x = 1); COMMENT";
        assert_eq!(one_line(text), expected);
    }

    #[test]
    fn the_scarcer_connections_count() {
        let settings = Settings::parse("postgres://x/db?connections=4").unwrap();
        let cases = [
            (Some((100, 50)), None, Verdict::Fine),
            (Some((100, 95)), None, Verdict::Fine),
            (Some((100, 96)), None, Verdict::Warning),
            (Some((100, 50)), Some((10, 6)), Verdict::Warning),
            (Some((100, 50)), Some((10, 5)), Verdict::Fine),
            (Some((100, 99)), Some((1000, 6)), Verdict::Warning),
            (None, None, Verdict::Unknown),
        ];
        for (server, own, verdict) in cases {
            let found = connections(&settings, server, own);
            assert_eq!(found.verdict, verdict, "{server:?}, {own:?}: {found:?}");
        }
    }
}
