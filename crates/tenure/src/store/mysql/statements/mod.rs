//! The statements, for one table. What has a variable number of parameters is made here.

use std::sync::Arc;
use std::time::Duration;

/// The texts of all statements.
#[derive(Debug, Clone)]
pub(super) struct Statements {
    pub(super) table: Arc<str>,
    pub(super) create: Arc<str>,
    pub(super) give: Arc<str>,
    pub(super) insert: Arc<str>,
    pub(super) page: Arc<str>,
    pub(super) read: Arc<str>,
    pub(super) sweep: Arc<str>,
    pub(super) sweep_range: Arc<str>,
    pub(super) take: Arc<str>,
    pub(super) update: Arc<str>,
}

impl Statements {
    /// Makes the statements for a table.
    pub(super) fn new(table: &str) -> Self {
        let text = |text: &str| -> Arc<str> { marked(&without_comments(text), table).into() };
        Self {
            table: table.into(),
            create: text(include_str!("create.sql")),
            give: text(include_str!("give.sql")),
            insert: text(include_str!("insert.sql")),
            page: text(include_str!("page.sql")),
            read: text(include_str!("read.sql")),
            sweep: text(include_str!("sweep.sql")),
            sweep_range: text(include_str!("sweep_range.sql")),
            take: text(include_str!("take.sql")),
            update: text(include_str!("update.sql")),
        }
    }

    /// The table's own statement. The two databases name the same collation differently.
    pub(super) fn create(&self, is_mariadb: bool) -> String {
        let collation = match is_mariadb {
            true => "utf8mb4_nopad_bin",
            false => "utf8mb4_0900_bin",
        };
        self.create.replace("{collation}", collation)
    }

    /// Extends `count` leases of lone holders for the same time: ttl, then for each name, claim, client or NULL
    /// and fence.
    pub(super) fn extend(&self, count: usize) -> String {
        let each = vec!["(name = ? AND claim = ? AND client <=> ? AND fence = ?)"; count];
        let text = format!(
            "UPDATE {{table}} SET version = version + 1, ends = UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND \
             WHERE more IS NULL AND ends > UTC_TIMESTAMP(6) AND ({})",
            each.join(" OR ")
        );
        marked(&text, &self.table)
    }

    /// Finds out which of `count` rows nobody else has locked at the moment, by their names.
    pub(super) fn unlocked(&self, count: usize) -> String {
        let names = vec!["?"; count].join(", ");
        let text = format!(
            "SELECT l.name FROM {{table}} AS l WHERE l.name IN ({names}) FOR UPDATE SKIP LOCKED"
        );
        marked(&text, &self.table)
    }

    /// Reads `count` rows by their names.
    pub(super) fn read_all(&self, count: usize) -> String {
        let names = vec!["?"; count].join(", ");
        let text = format!(
            "SELECT {{now}}, NULL, {{columns}}, l.name FROM {{table}} AS l WHERE l.name IN ({names})"
        );
        marked(&text, &self.table)
    }

    /// Sleeps for a while, unless one of `count` rows has had another turn: name and turn for each.
    ///
    /// Returns 2 if one has, and 0 or 1 after the sleep; fails (1317) or returns early if it is interrupted.
    pub(super) fn sleep(&self, count: usize) -> String {
        let each = match count {
            0 => "FALSE".to_owned(),
            _ => vec!["(name = ? AND turn <> ?)"; count].join(" OR "),
        };
        let text = format!(
            "SELECT IF(EXISTS (SELECT 1 FROM {{table}} WHERE {each}), 2, SLEEP({}))",
            SLEEP.as_secs()
        );
        marked(&text, &self.table)
    }
}

fn marked(text: &str, table: &str) -> String {
    let mut text = text.replace("{table}", table);
    for (mark, meaning) in MARKS {
        text = text.replace(mark, meaning);
    }
    text
}

/// What stands for parts that several statements have.
const MARKS: [(&str, &str); 3] = [
    (
        "{now}",
        "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))",
    ),
    ("{time}", "'1970-01-01' + INTERVAL ? MICROSECOND"),
    (
        "{columns}",
        "l.version, l.turn, l.top, l.evicted, l.claim, l.owner, l.client, l.fence, l.fences, l.tells, \
         TIMESTAMPDIFF(MICROSECOND, '1970-01-01', l.since), TIMESTAMPDIFF(MICROSECOND, '1970-01-01', l.ends), \
         l.about, l.next, l.more",
    ),
];

/// How long a client that waits sleeps at a time: a server notices only then that it is gone.
pub(super) const SLEEP: Duration = Duration::from_secs(2);

/// The server need not read what is meant for people.
fn without_comments(text: &str) -> String {
    let lines = text.lines().filter(|line| !line.starts_with("--"));
    lines.collect::<Vec<_>>().join("\n").trim().to_owned()
}
