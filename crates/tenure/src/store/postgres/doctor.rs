//! What in a PostgreSQL server endangers locks.

use async_trait::async_trait;
use tokio::time::timeout;
use tokio_postgres::SimpleQueryMessage;

use crate::doctor::{Check, Finding, RIGHTS, Verdict};
use crate::error::{Error, Result};
use crate::store::postgres::connect::PostgresSession;
use crate::store::postgres::{Postgres, fault};
use crate::store::sql::FORMAT;
use crate::store::sql::database::Database;
use crate::store::sql::doctor::{
    Ask, Facts, MANY_ROWS, Patient, Texts, Told, column, connections, lacks, not_shown, one_line,
    rows,
};
use crate::store::sql::fault::{Fault, FaultKind, Outcome};
use crate::store::sql::settings::Settings;

/// Checks a database.
///
/// # Errors
///
/// [`InvalidUrl`](crate::Error::InvalidUrl) for an invalid URL;
/// [`Unavailable`](crate::Error::Unavailable) if no connection can be made.
///
/// # Panics
///
/// Outside a Tokio runtime with I/O and time enabled.
///
/// # Cancel safety
///
/// Cancel safe: it changes nothing.
pub async fn doctor(url: &str) -> Result<Vec<Finding>> {
    let settings = Settings::parse(url)?;
    let postgres = Postgres::new(settings.clone())?;
    let session = timeout(settings.connect_timeout, postgres.session()).await;
    let late = |_| {
        let why = format!(
            "no connection to {} in {:?}",
            settings.place(),
            settings.connect_timeout
        );
        Err(Fault::new(FaultKind::Refused, why))
    };
    let session = session.unwrap_or_else(late).map_err(unavailable)?;
    let mut server = Patient::new(session, &settings);
    let facts = server.facts(&[SETTINGS]).await?;
    let table = postgres.table_found(&mut server).await?;
    let mut findings = vec![version(&facts), primary(&facts), durability(&facts)];
    findings.extend(table.finding(&postgres));
    findings.push(postgres.rights(&mut server, &table).await?);
    let replicas_attached = server.row(REPLICAS).await?;
    findings.push(replicas(&facts, &replicas_attached));
    findings.push(postgres.news(&mut server).await?);
    let used = server.row(CONNECTIONS).await?;
    findings.push(connections(&settings, of_server(&used), of_user(&used)));
    findings.push(snapshots(server.row(SNAPSHOTS).await?));
    if let TableFound::There { schema, .. } = &table {
        let idle = format!(
            "SELECT count(*) FROM (SELECT FROM {schema}.{}lock \
             WHERE ends < statement_timestamp() - {} * interval '1 microsecond' LIMIT {MANY_ROWS}) AS idle",
            settings.prefix,
            settings.fence_memory.as_micros(),
        );
        findings.push(rows(&settings, server.row(&idle).await?));
    }
    Ok(findings)
}

#[async_trait]
impl Ask for PostgresSession {
    const KIND: &'static str = Postgres::KIND;

    async fn rows(&mut self, statement: &str) -> Outcome<Vec<Texts>> {
        let answer = self.client.simple_query(statement).await;
        let rows = answer.map_err(fault::of)?.into_iter();
        let rows = rows.filter_map(|message| match message {
            SimpleQueryMessage::Row(row) => Some(row),
            _ => None,
        });
        let texts = rows.map(|row| {
            (0..row.len())
                .map(|index| row.get(index).map(str::to_owned))
                .collect()
        });
        Ok(texts.collect())
    }
}

/// The server's version.
fn version(facts: &Facts) -> Finding {
    const CHECK: Check = Check("version");
    let (Some(number), Some(text)) = (
        facts.number("server_version_num"),
        facts.get("server_version"),
    ) else {
        return not_shown(CHECK, "server_version");
    };
    let found = format!("PostgreSQL {text}");
    match number < OLDEST {
        true => CHECK.problem(found, "update: locks need PostgreSQL 13 or newer"),
        false => CHECK.fine(found),
    }
}

/// Whether the server can write.
fn primary(facts: &Facts) -> Finding {
    const CHECK: Check = Check("primary");
    match (facts.get("in_hot_standby"), facts.get("transaction_read_only")) {
        (Some("on"), _) => CHECK.problem(
            "the server is a standby, where no lock can be taken",
            "name the primary in the URL",
        ),
        (_, Some("on")) => CHECK.problem(
            "transactions are read-only (default_transaction_read_only is on)",
            "ALTER DATABASE … or ALTER ROLE … SET default_transaction_read_only = off, or name the primary in the URL",
        ),
        (_, Some(_)) => CHECK.fine("the server is a primary"),
        (_, None) => not_shown(CHECK, "transaction_read_only"),
    }
}

/// What a crash makes the server forget.
fn durability(facts: &Facts) -> Finding {
    const CHECK: Check = Check("durability");
    let (Some(fsync), Some(confirm)) = (facts.get("fsync"), facts.get("synchronous_commit")) else {
        return not_shown(CHECK, "fsync");
    };
    if fsync != "on" {
        return CHECK.problem(
            "a power cut may destroy the database, and its locks (fsync is off)",
            "set fsync to on",
        );
    }
    if confirm == "off" {
        return CHECK.warning(
            "synchronous_commit is off: locks turn it on in their own sessions, but behind a transaction pooler they \
             cannot, and a crash of the server forgets the locks of the last moment",
            "ALTER ROLE … SET synchronous_commit = on, for the user of the URL",
        );
    }
    match facts.get("full_page_writes") {
        Some("on") => CHECK.fine(format!(
            "every lock is on disk before its answer (fsync on, synchronous_commit {confirm})"
        )),
        Some(_) => CHECK.warning(
            "a power cut may damage pages of the table (full_page_writes is off)",
            "set full_page_writes to on, unless the file system prevents partial writes",
        ),
        None => not_shown(CHECK, "full_page_writes"),
    }
}

/// Whether a failover may forget a lock.
fn replicas(facts: &Facts, attached: &Told<Texts>) -> Finding {
    const CHECK: Check = Check("replicas");
    let count = attached
        .as_ref()
        .ok()
        .and_then(|row| column(row, 0)?.parse::<u32>().ok());
    let (Some(count), Some(names)) = (count, facts.get("synchronous_standby_names")) else {
        return CHECK.unknown(
            "not checked: the server does not show its replicas to this user",
            "run as an administrator: SELECT application_name, sync_state FROM pg_stat_replication",
        );
    };
    let attached = match count {
        0 => return CHECK.fine("no replica is attached: while the server is away nobody can lock"),
        1 => "1 replica is attached".to_owned(),
        some => format!("{some} replicas are attached"),
    };
    let confirm = facts.get("synchronous_commit").unwrap_or_default();
    match names.is_empty() || matches!(confirm, "off" | "local") {
        true => CHECK.warning(
            format!("{attached}, asynchronously: a failover may forget a lock that is held"),
            "set synchronous_standby_names, or let the resource check fences",
        ),
        false => CHECK
            .fine(format!(
                "{attached}, synchronous_standby_names is {names:?}, synchronous_commit is {confirm}"
            ))
            .but(Verdict::Fine, "promote only a replica that was synchronous"),
    }
}

/// Whether somebody's old snapshot keeps old versions of rows alive.
fn snapshots(oldest: Told<Texts>) -> Finding {
    const CHECK: Check = Check("snapshots");
    let query = "SELECT pid, usename, state, xact_start, query FROM pg_stat_activity \
                 WHERE backend_xmin IS NOT NULL ORDER BY age(backend_xmin) DESC";
    let advice = format!("end it; this finds it: {query}");
    let oldest = match oldest {
        Ok(oldest) => oldest,
        Err(why) => return CHECK.unknown(format!("not checked: {why}"), advice),
    };
    let age = column(&oldest, 0)
        .and_then(|age| age.parse::<u64>().ok())
        .unwrap_or(0);
    if age >= OLD_SNAPSHOT {
        let found = format!(
            "a transaction sees the database as it was {age} transactions ago: old versions of rows pile up, \
             and locks become slow"
        );
        return CHECK.warning(found, advice);
    }
    match column(&oldest, 1) {
        Some("t") => CHECK.fine("no transaction keeps old versions of rows alive"),
        _ => CHECK.unknown(
            "not checked: the server does not show other users' transactions to this user",
            format!("GRANT pg_read_all_stats to this user, or run as an administrator: {query}"),
        ),
    }
}

fn of_server(used: &Told<Texts>) -> Option<(u64, u64)> {
    pair(used, 0)
}

/// The user's own limit, unless it has none.
fn of_user(used: &Told<Texts>) -> Option<(u64, u64)> {
    pair(used, 2)
}

fn pair(row: &Told<Texts>, from: usize) -> Option<(u64, u64)> {
    let number = |index| column(row.as_ref().ok()?, index)?.parse().ok();
    Some((number(from)?, number(from + 1)?))
}

/// What is known of the table.
#[derive(Debug)]
enum TableFound {
    Missing {
        /// Where it would be made; none if there is no such schema.
        schema: Option<String>,
        may_create: bool,
    },
    There {
        schema: String,
        is_table: bool,
        persistence: String,
        comment: Option<String>,
        /// Whether the user may enter the schema, and may select, insert, update and delete.
        rights: Vec<bool>,
    },
}

impl TableFound {
    /// What there is to say of the table; a right to make it that is missing is said elsewhere.
    fn finding(&self, postgres: &Postgres) -> Option<Finding> {
        match self {
            Self::Missing {
                may_create: false, ..
            } => None,
            Self::Missing { .. } => Some(TABLE.fine(format!(
                "{} is not there: it is made on first use",
                postgres.table
            ))),
            Self::There {
                schema,
                is_table,
                persistence,
                comment,
                ..
            } => {
                let table = format!("{schema}.{}lock", postgres.settings.prefix);
                let comment = comment.as_deref().filter(|_| *is_table);
                Some(of_table(&table, comment, persistence))
            }
        }
    }
}

fn of_table(table: &str, comment: Option<&str>, persistence: &str) -> Finding {
    let format = comment.and_then(|comment| comment.strip_prefix("tenure ")?.parse::<u32>().ok());
    match format {
        Some(FORMAT) => {}
        Some(newer) => {
            return TABLE.problem(
                format!("{table} has format {newer}, and this version knows {FORMAT}"),
                "use the version of tenure that wrote it, or another prefix=",
            );
        }
        None => {
            return TABLE.problem(format!("{table} is not tenure's"), "choose another prefix=");
        }
    }
    match persistence {
        "p" => TABLE.fine(format!("{table} has format {FORMAT}")),
        "u" => TABLE.problem(
            format!(
                "{table} is UNLOGGED: a crash of the server forgets all locks, and a failover too"
            ),
            format!("ALTER TABLE {table} SET LOGGED"),
        ),
        _ => TABLE.problem(
            format!("{table} is temporary: nobody else sees its locks"),
            format!("DROP TABLE {table}"),
        ),
    }
}

impl Postgres {
    /// Looks for the table without entering its schema, which may be forbidden.
    async fn table_found(&self, server: &mut Patient<PostgresSession>) -> Result<TableFound> {
        let place = match &self.settings.schema {
            Some(schema) => format!("n.nspname = '{schema}'"),
            None => "n.nspname = ANY (current_schemas(false))".to_owned(),
        };
        let find = format!(
            "SELECT n.nspname, c.relkind IN ('r', 'p'), c.relpersistence, obj_description(c.oid, 'pg_class'), \
             has_schema_privilege(n.oid, 'USAGE'), has_table_privilege(c.oid, 'SELECT'), \
             has_table_privilege(c.oid, 'INSERT'), has_table_privilege(c.oid, 'UPDATE'), \
             has_table_privilege(c.oid, 'DELETE') \
             FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace \
             WHERE c.relname = '{}lock' AND {place} \
             ORDER BY array_position(current_schemas(false), n.nspname) LIMIT 1",
            self.settings.prefix
        );
        let found = server.row(&find).await?.map_err(refused)?;
        if let (Some(schema), Some(persistence)) = (column(&found, 0), column(&found, 2)) {
            return Ok(TableFound::There {
                schema: schema.to_owned(),
                is_table: column(&found, 1) == Some("t"),
                persistence: persistence.to_owned(),
                comment: column(&found, 3).map(str::to_owned),
                rights: (4..9)
                    .map(|index| column(&found, index) == Some("t"))
                    .collect(),
            });
        }
        let schema = match &self.settings.schema {
            Some(schema) => format!("'{schema}'"),
            None => "current_schema()".to_owned(),
        };
        let find = format!(
            "SELECT nspname, has_schema_privilege(oid, 'USAGE') AND has_schema_privilege(oid, 'CREATE') \
             FROM pg_namespace WHERE nspname = {schema}"
        );
        let found = server.row(&find).await?.map_err(refused)?;
        Ok(TableFound::Missing {
            schema: column(&found, 0).map(str::to_owned),
            may_create: column(&found, 1) == Some("t"),
        })
    }

    /// What the user may not do, and the statements that allow it.
    async fn rights(
        &self,
        server: &mut Patient<PostgresSession>,
        table: &TableFound,
    ) -> Result<Finding> {
        let user = server.row("SELECT quote_ident(current_user)").await?;
        let user = user.ok().and_then(|row| column(&row, 0).map(str::to_owned));
        let user = user.unwrap_or_else(|| "the_user".to_owned());
        let on_table =
            |table: &str| format!("GRANT SELECT, INSERT, UPDATE, DELETE ON {table} TO {user};");
        let (schema, held) = match table {
            TableFound::Missing {
                schema: Some(_),
                may_create: true,
            } => (None, Vec::new()),
            TableFound::Missing { schema, .. } => {
                return Ok(self.create_by_hand(schema.as_deref(), &user));
            }
            TableFound::There { schema, rights, .. } => (Some(schema), rights.clone()),
        };
        let names = [
            "USAGE on the schema",
            "SELECT",
            "INSERT",
            "UPDATE",
            "DELETE",
        ];
        let missing = names.iter().zip(&held).filter(|(_, may)| !**may);
        let mut missing: Vec<_> = missing.map(|(name, _)| (*name).to_owned()).collect();
        let mut statements = match schema {
            Some(schema) if held.first() == Some(&false) => format!(
                "GRANT USAGE ON SCHEMA {schema} TO {user}; {}",
                on_table(&format!("{schema}.{}lock", self.settings.prefix))
            ),
            Some(schema) => on_table(&format!("{schema}.{}lock", self.settings.prefix)),
            None => on_table(&self.table),
        };
        let functions = server.rows(&functions_refused()).await?.map_err(refused)?;
        for function in functions.iter().filter_map(|row| column(row, 0)) {
            missing.push(format!("EXECUTE on {function}"));
            statements = format!("{statements} GRANT EXECUTE ON FUNCTION {function} TO {user};");
        }
        Ok(lacks(&missing, &statements))
    }

    /// What to run for a user who may not make the table.
    fn create_by_hand(&self, schema: Option<&str>, user: &str) -> Finding {
        let named = self.settings.schema.as_deref();
        let (why, before) = match (named, schema) {
            (Some(schema), None) => (
                format!("there is no schema {schema}"),
                format!("CREATE SCHEMA {schema}; GRANT USAGE ON SCHEMA {schema} TO {user}; "),
            ),
            (Some(schema), Some(_)) => (
                format!("{user} may not make a table in the schema {schema}"),
                format!("GRANT USAGE ON SCHEMA {schema} TO {user}; "),
            ),
            (None, Some(schema)) => (
                format!("{user} may not make a table in the schema {schema}"),
                String::new(),
            ),
            (None, None) => (
                "the user's search_path has no schema that it may use".to_owned(),
                String::new(),
            ),
        };
        RIGHTS.problem(
            format!("the table {} is missing, and {why}", self.table),
            format!(
                "run as one who may: {before}{} GRANT SELECT, INSERT, UPDATE, DELETE ON {} TO {user};",
                one_line(&self.statements.create),
                self.table,
            ),
        )
    }

    /// How waiters learn that their turn has come.
    async fn news(&self, server: &mut Patient<PostgresSession>) -> Result<Finding> {
        const CHECK: Check = Check("news");
        let queue = server
            .row("SELECT round(pg_notification_queue_usage() * 100)")
            .await?;
        let is_pooled = timeout(
            self.settings.connect_timeout,
            self.is_pooled(&mut server.asked),
        )
        .await;
        let is_pooled = match is_pooled {
            Ok(Ok(is_pooled)) => is_pooled,
            Ok(Err(fault)) => {
                let found = format!("not checked: {}", fault.source);
                return Ok(CHECK.unknown(found, "see that LISTEN and NOTIFY work for this user"));
            }
            Err(_) => {
                let found = "not checked: no answer to NOTIFY";
                return Ok(CHECK.unknown(found, "see that LISTEN and NOTIFY work for this user"));
            }
        };
        if is_pooled {
            return Ok(CHECK.warning(
                "a pooler shares connections between clients: waiters poll every 1 to 100 ms",
                "connect to the server itself, or to a pooler in session mode (pool_mode = session)",
            ));
        }
        let used = queue
            .ok()
            .and_then(|row| column(&row, 0)?.parse::<u32>().ok());
        Ok(match used {
            Some(used) if used >= 50 => CHECK.warning(
                format!(
                    "the queue of notifications is {used} % full: when it is full, nobody is woken"
                ),
                "end the listener that does not read: its pid is in the server's log",
            ),
            _ => CHECK.fine("waiters are told by NOTIFY, on one more connection while they wait"),
        })
    }
}

/// A query for functions that the store calls and that the user may not.
fn functions_refused() -> String {
    let each = FUNCTIONS.map(|function| format!("('{function}')"));
    format!(
        "SELECT name FROM (VALUES {}) AS f (name) WHERE NOT has_function_privilege(name, 'EXECUTE')",
        each.join(", ")
    )
}

fn refused(why: String) -> Error {
    unavailable(Fault::new(FaultKind::Refused, why))
}

/// No connection, so nothing was changed.
fn unavailable(fault: Fault) -> Error {
    match fault.kind {
        FaultKind::Unknown => Fault::new(FaultKind::Refused, fault.source),
        _ => fault,
    }
    .error(Postgres::KIND)
}

const TABLE: Check = Check("table");

/// The oldest version that will do.
const OLDEST: u64 = 130_000;

/// How many transactions old a snapshot may be.
const OLD_SNAPSHOT: u64 = 10_000;

/// Functions that a server may have taken from its users.
const FUNCTIONS: [&str; 6] = [
    "pg_advisory_lock(bigint)",
    "pg_notify(text, text)",
    "pg_postmaster_start_time()",
    "pg_try_advisory_xact_lock_shared(bigint)",
    "set_config(text, text, boolean)",
    "statement_timestamp()",
];

/// What the server says of itself. `in_hot_standby` is a setting only from version 14 on.
const SETTINGS: &str = "SELECT name, setting FROM pg_settings WHERE name IN ('fsync', 'full_page_writes', \
    'server_version', 'server_version_num', 'synchronous_commit', 'synchronous_standby_names', 'transaction_read_only') \
    UNION ALL SELECT 'in_hot_standby', CASE WHEN pg_is_in_recovery() THEN 'on' ELSE 'off' END";

/// How many servers follow this one. Subscribers of logical replication are not promoted.
const REPLICAS: &str = "SELECT count(*) FROM pg_stat_replication AS r WHERE r.state IS DISTINCT FROM 'backup' \
    AND NOT EXISTS (SELECT FROM pg_replication_slots AS s WHERE s.active_pid = r.pid AND s.slot_type = 'logical')";

/// The connections of the server that users may have, and those that are used; the same of this user.
const CONNECTIONS: &str = "SELECT current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int, \
    (SELECT sum(numbackends) FROM pg_stat_database), \
    CASE WHEN r.rolconnlimit >= 0 THEN r.rolconnlimit END, \
    (SELECT count(*) FROM pg_stat_activity AS a WHERE a.usesysid = r.oid) \
    FROM pg_roles AS r WHERE r.rolname = current_user";

/// The age of the oldest snapshot of others, in transactions, and whether those of all users are shown.
const SNAPSHOTS: &str = "SELECT max(age(a.backend_xmin)), \
    pg_has_role(current_user, 'pg_read_all_stats', 'USAGE') \
    FROM pg_stat_activity AS a WHERE a.pid <> pg_backend_pid()";
