//! What only PostgreSQL can be asked, or is told in its own words.

use tenure_testkit::{PostgresBuilder, PostgresServer};

/// Ends all sessions of clients; returns how many there were.
pub(crate) fn end_sessions(server: &PostgresServer) -> usize {
    number(
        server,
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name LIKE 'tenure%'",
    )
}

/// Ends a few sessions of clients.
pub(crate) fn end_some_sessions(server: &PostgresServer) {
    server.sql(
        "SELECT count(pg_terminate_backend(pid)) FROM \
         (SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'tenure%' ORDER BY random() LIMIT 5) AS few",
    );
}

/// Interrupts what clients ask for at the moment.
pub(crate) fn interrupt(server: &PostgresServer) {
    server.sql("SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity WHERE application_name LIKE 'tenure%'");
}

/// How many clients listen.
pub(crate) fn mailboxes(server: &PostgresServer) -> usize {
    number(
        server,
        "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND mode = 'ExclusiveLock' AND granted",
    )
}

/// How many rows have somebody in line who looks by itself.
pub(crate) fn pollers(server: &PostgresServer) -> usize {
    number(
        server,
        "SELECT count(*) FROM tenure_lock WHERE more LIKE '%\"pollers\"%'",
    )
}

fn number(server: &PostgresServer, query: &str) -> usize {
    server.sql(query).parse().unwrap()
}

/// A server that writes what need not be on disk only after long.
pub(crate) fn lazy(builder: PostgresBuilder) -> PostgresBuilder {
    builder.setting("wal_writer_delay", "10000")
}

/// A server that ends sessions which have nothing to say.
pub(crate) fn short_idle(builder: PostgresBuilder) -> PostgresBuilder {
    builder.setting("idle_session_timeout", "1000")
}

/// A server whose statements may not take long.
pub(crate) fn short_statements(builder: PostgresBuilder) -> PostgresBuilder {
    builder.setting("statement_timeout", "1000")
}

/// A server that can have replicas.
pub(crate) fn replicated(builder: PostgresBuilder) -> PostgresBuilder {
    builder
}

/// Lets a replica receive nothing more: what it has received, it would still replay.
pub(crate) fn fall_behind(replica: &PostgresServer) {
    replica.sql("ALTER SYSTEM SET primary_conninfo = ''");
    replica.sql("SELECT pg_reload_conf()");
    while number(replica, "SELECT count(*) FROM pg_stat_wal_receiver") > 0 {
        std::thread::yield_now();
    }
}

/// A user `global` who may come to every database.
pub(crate) fn with_global_rights(builder: PostgresBuilder) -> PostgresBuilder {
    builder.user("global", "secret", &[])
}

/// A user who may use a table that others make and give rights for.
pub(crate) fn everything_in_the_table(builder: PostgresBuilder, user: &str) -> PostgresBuilder {
    builder.user(user, "secret", &["USAGE ON SCHEMA public"])
}

/// A user as statements name it.
pub(crate) fn user(name: &str) -> String {
    name.to_owned()
}

pub(crate) fn grant_the_table(server: &PostgresServer, name: &str) {
    server.sql(&format!(
        "GRANT SELECT, INSERT, UPDATE, DELETE ON tenure_lock TO {name}"
    ));
}

pub(crate) const NEWER_FORMAT: &str = "COMMENT ON TABLE tenure_lock IS 'tenure 2'";

pub(crate) const FORGETS: [&str; 1] = ["ALTER TABLE tenure_lock SET UNLOGGED"];

pub(crate) const LONG_UNUSED: &str =
    "UPDATE tenure_lock SET since = since - interval '9 hours', ends = ends - interval '9 hours'";

/// A server whose commits can be held up.
pub(crate) fn stallable(builder: PostgresBuilder) -> PostgresBuilder {
    builder
}

/// Lets no commit be confirmed: the replica that has to is not there.
pub(crate) fn stall_commits(server: &PostgresServer) {
    server.sql("ALTER SYSTEM SET synchronous_standby_names = 'nobody'");
    server.sql("SELECT pg_reload_conf()");
    while number(
        server,
        "SELECT count(*) FROM pg_settings WHERE name = 'synchronous_standby_names' AND setting = 'nobody'",
    ) == 0
    {
        std::thread::yield_now();
    }
}

/// Lets commits go on.
pub(crate) fn resume_commits(server: &PostgresServer) {
    server.sql("ALTER SYSTEM RESET synchronous_standby_names");
    server.sql("SELECT pg_reload_conf()");
}
