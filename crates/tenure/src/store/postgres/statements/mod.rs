//! The statements, for one table.

use std::sync::Arc;
use std::time::Duration;

/// The texts of all statements.
#[derive(Debug, Clone)]
pub(super) struct Statements {
    pub(super) create: Arc<str>,
    pub(super) end: Arc<str>,
    pub(super) extend: Arc<str>,
    pub(super) give: Arc<str>,
    pub(super) insert: Arc<str>,
    pub(super) notify: Arc<str>,
    pub(super) page: Arc<str>,
    pub(super) presence: Arc<str>,
    pub(super) read: Arc<str>,
    pub(super) read_all: Arc<str>,
    pub(super) sweep: Arc<str>,
    pub(super) take: Arc<str>,
    pub(super) unlocked: Arc<str>,
    pub(super) update: Arc<str>,
    /// The same for a name that may have several holders.
    pub(super) update_shared: Arc<str>,
}

impl Statements {
    /// Makes the statements for a table.
    ///
    /// With `patience` each says by itself for how long it waits for rows that others have locked: where sessions are
    /// shared, their settings are not ours to change.
    pub(super) fn new(table: &str, patience: Option<Duration>) -> Self {
        let patience = patience.map_or(String::new(), |patience| {
            let ms = patience.as_millis();
            format!(" AND (SELECT set_config('lock_timeout', '{ms}', true)) IS NOT NULL")
        });
        // The patience inside counts for the wait for this lock.
        let turn = format!(
            " AND (SELECT pg_advisory_xact_lock({})::text WHERE true{patience}) IS NOT NULL",
            turn_key(table)
        );
        let text = |text: &str| -> Arc<str> {
            let mut text = without_comments(text).replace("{and turn}", "");
            text = text.replace("{table}", table);
            text = text.replace("{and patience}", &patience);
            for (mark, meaning) in MARKS {
                text = text.replace(mark, meaning);
            }
            for number in 1..=17 {
                let time = format!("timestamptz 'epoch' + ${number} * interval '1 microsecond'");
                text = text.replace(&format!("{{time of ${number}}}"), &time);
            }
            text.into()
        };
        Self {
            create: text(include_str!("create.sql")),
            end: text(include_str!("end.sql")),
            extend: text(include_str!("extend.sql")),
            give: text(include_str!("give.sql")),
            insert: text(include_str!("insert.sql")),
            notify: text(include_str!("notify.sql")),
            page: text(include_str!("page.sql")),
            presence: text(include_str!("presence.sql")),
            read: text(include_str!("read.sql")),
            read_all: text(include_str!("read_all.sql")),
            sweep: text(include_str!("sweep.sql")),
            take: text(include_str!("take.sql")),
            unlocked: text(include_str!("unlocked.sql")),
            update: text(include_str!("update.sql")),
            update_shared: text(&include_str!("update.sql").replace("{and turn}", &turn)),
        }
    }
}

/// The key of the advisory lock for which holders of a name, $1, and those who write its row queue up.
pub(super) fn turn_key(table: &str) -> String {
    format!("hashtextextended('{table} ' || $1 COLLATE \"C\", 0)")
}

/// What stands for parts that several statements have.
const MARKS: [(&str, &str); 3] = [
    (
        "{now}",
        "(date_part('epoch', statement_timestamp()) * 1000000)::bigint",
    ),
    // Nobody is taken for gone who has not had the time to come back since the server started.
    (
        "{is there: l.next}",
        "CASE WHEN l.next IS NOT NULL THEN NOT pg_try_advisory_xact_lock_shared(('x' || left(l.next, 16))::bit(64)::bigint) \
         OR pg_postmaster_start_time() > statement_timestamp() - interval '10 seconds' END",
    ),
    (
        "{columns}",
        "l.version, l.turn, l.top, l.evicted, l.claim, l.owner, l.client, l.fence, l.fences, l.tells, \
         (date_part('epoch', l.since) * 1000000)::bigint, (date_part('epoch', l.ends) * 1000000)::bigint, \
         l.about, l.next, l.more",
    ),
];

/// The server need not read what is meant for people; in the table's own statement, people do.
fn without_comments(text: &str) -> String {
    let lines = text.lines().filter(|line| !line.starts_with("--"));
    lines.collect::<Vec<_>>().join("\n").trim().to_owned()
}
