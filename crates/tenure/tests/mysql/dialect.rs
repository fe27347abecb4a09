//! What only MySQL and MariaDB can be asked, or are told in their own words.

use std::thread;
use std::time::Duration;

use tenure_testkit::{MariaDbBuilder, MariaDbServer};

/// Ends all sessions of clients; returns how many there were.
pub(crate) fn end_sessions(server: &MariaDbServer) -> usize {
    let count = number(
        server,
        "SELECT COUNT(*) FROM information_schema.processlist WHERE user = 'tenure'",
    );
    server.sql("KILL USER tenure");
    count
}

/// Ends a few sessions of clients.
pub(crate) fn end_some_sessions(server: &MariaDbServer) {
    let some = server.sql(
        "SELECT id FROM information_schema.processlist WHERE user = 'tenure' ORDER BY RAND() LIMIT 5",
    );
    for session in some.lines() {
        // It may be gone already.
        let _ = server.query(&format!("KILL {session}"));
    }
}

/// Interrupts what clients ask for at the moment.
pub(crate) fn interrupt(server: &MariaDbServer) {
    server.sql("KILL QUERY USER tenure");
}

/// How many clients sleep in a query.
pub(crate) fn mailboxes(server: &MariaDbServer) -> usize {
    // Between two sleeps it is not seen for a moment.
    let look = |pause| {
        thread::sleep(Duration::from_millis(pause));
        number(
            server,
            "SELECT COUNT(*) FROM information_schema.processlist \
             WHERE info LIKE '%SLEEP(2)%' AND id <> CONNECTION_ID()",
        )
    };
    [0, 5, 20].into_iter().map(look).max().unwrap()
}

/// How many rows have somebody in line who looks by itself.
pub(crate) fn pollers(server: &MariaDbServer) -> usize {
    number(
        server,
        "SELECT COUNT(*) FROM tenure_lock WHERE more LIKE '%\"pollers\"%'",
    )
}

fn number(server: &MariaDbServer, query: &str) -> usize {
    server.sql(query).parse().unwrap()
}

/// A server that writes what need not be on disk only after long: it has nothing of the kind.
pub(crate) fn lazy(builder: MariaDbBuilder) -> MariaDbBuilder {
    builder
}

/// A server that ends sessions which have nothing to say.
pub(crate) fn short_idle(builder: MariaDbBuilder) -> MariaDbBuilder {
    builder.setting("wait-timeout", "1")
}

/// A server whose statements may not take long.
pub(crate) fn short_statements(builder: MariaDbBuilder) -> MariaDbBuilder {
    builder.setting("max-statement-time", "1")
}

/// A server that can have replicas.
pub(crate) fn replicated(builder: MariaDbBuilder) -> MariaDbBuilder {
    builder.binary_log()
}

/// Lets a replica replay nothing more.
pub(crate) fn fall_behind(replica: &MariaDbServer) {
    replica.pause_replay().unwrap();
}

/// A user `global` who may come to every database.
pub(crate) fn with_global_rights(builder: MariaDbBuilder) -> MariaDbBuilder {
    builder.user("global", "secret", &["SELECT ON *.*"])
}

/// A user who may use a table that others make and give rights for.
pub(crate) fn everything_in_the_table(builder: MariaDbBuilder, user: &str) -> MariaDbBuilder {
    builder.user(user, "secret", &["CREATE TEMPORARY TABLES ON test.*"])
}

/// A user as statements name it.
pub(crate) fn user(name: &str) -> String {
    format!("'{name}'@'%'")
}

pub(crate) fn grant_the_table(server: &MariaDbServer, name: &str) {
    server.sql(&format!(
        "GRANT SELECT, INSERT, UPDATE, DELETE ON tenure_lock TO {}",
        user(name)
    ));
}

pub(crate) const NEWER_FORMAT: &str = "ALTER TABLE tenure_lock COMMENT = 'tenure 2'";

pub(crate) const FORGETS: [&str; 3] = [
    "ALTER TABLE tenure_lock ENGINE = Aria",
    "CREATE OR REPLACE TABLE tenure_lock (name VARCHAR(99)) ENGINE = MyISAM COMMENT = 'tenure 1'",
    "CREATE OR REPLACE TABLE tenure_lock (name VARCHAR(99)) ENGINE = MEMORY COMMENT = 'tenure 1'",
];

pub(crate) const LONG_UNUSED: &str =
    "UPDATE tenure_lock SET since = since - INTERVAL 9 HOUR, ends = ends - INTERVAL 9 HOUR";

/// A server whose commits can be held up.
pub(crate) fn stallable(builder: MariaDbBuilder) -> MariaDbBuilder {
    builder
        .binary_log()
        .setting("rpl-semi-sync-master-timeout", "1000000")
        .setting("rpl-semi-sync-master-wait-point", "AFTER_SYNC")
}

/// Lets no commit be confirmed: the replica that has to is not there.
pub(crate) fn stall_commits(server: &MariaDbServer) {
    server.sql("SET GLOBAL rpl_semi_sync_master_enabled = ON");
}

/// Lets commits go on.
pub(crate) fn resume_commits(server: &MariaDbServer) {
    server.sql("SET GLOBAL rpl_semi_sync_master_enabled = OFF");
}
