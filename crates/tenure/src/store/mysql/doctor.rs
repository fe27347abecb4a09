//! What in a server of MySQL or MariaDB endangers locks.

use async_trait::async_trait;
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Row, Value};
use tokio::time::timeout;

use crate::doctor::{Check, Finding, RIGHTS, Verdict};
use crate::error::{Error, Result};
use crate::random::random_u128;
use crate::store::mysql::{Mysql, fault};
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
/// Cancel safe: it changes nothing but that it makes the table.
pub async fn doctor(url: &str) -> Result<Vec<Finding>> {
    let settings = Settings::parse(url)?;
    let mysql = Mysql::new(settings.clone())?;
    let connection = timeout(settings.connect_timeout, mysql.session()).await;
    let late = |_| {
        let why = format!(
            "no connection to {} in {:?}",
            settings.place(),
            settings.connect_timeout
        );
        Err(Fault::new(FaultKind::Refused, why))
    };
    let connection = connection.unwrap_or_else(late).map_err(unavailable)?;
    let mut server = Patient::new(connection, &settings);
    let facts = server.facts(&[VARIABLES, LIMITS, STATUS, VERSION]).await?;
    let follows = server.rows("SHOW SLAVE STATUS").await?;
    let mut findings = vec![version(&facts), primary(&facts, &follows)];
    findings.push(durability(&facts));
    findings.extend(binary_log(&facts));
    findings.extend(cluster(&facts));
    let (table, is_there) = mysql.table(&mut server, is_read_only(&facts)).await?;
    findings.extend(table);
    if is_there {
        findings.push(mysql.rights(&mut server).await?);
    }
    let dumps = server.row(DUMPS).await?;
    findings.push(replicas(&facts, &dumps));
    findings.push(mysql.news(&facts).await);
    findings.push(connections(
        &settings,
        pair(&facts, "max_connections", "Threads_connected"),
        of_user(&facts, &server.row(OWN_CONNECTIONS).await?),
    ));
    findings.push(timeouts(&facts));
    if is_there {
        let idle = format!(
            "SELECT COUNT(*) FROM (SELECT 1 FROM {} WHERE ends < UTC_TIMESTAMP(6) - INTERVAL {} MICROSECOND \
             LIMIT {MANY_ROWS}) AS idle",
            mysql.statements.table,
            settings.fence_memory.as_micros(),
        );
        findings.push(rows(&settings, server.row(&idle).await?));
    }
    Ok(findings)
}

#[async_trait]
impl Ask for Conn {
    const KIND: &'static str = Mysql::KIND;

    async fn rows(&mut self, statement: &str) -> Outcome<Vec<Texts>> {
        let rows: Vec<Row> = self.query(statement).await.map_err(fault::of)?;
        let text = |value: Value| match value {
            Value::Bytes(bytes) => Some(String::from_utf8_lossy(&bytes).into_owned()),
            _ => None,
        };
        let texts = rows.into_iter();
        Ok(texts
            .map(|row| row.unwrap().into_iter().map(text).collect())
            .collect())
    }
}

/// Which server it is, and its version.
fn version(facts: &Facts) -> Finding {
    const CHECK: Check = Check("version");
    let Some(text) = facts.get("version") else {
        return not_shown(CHECK, "VARIABLES LIKE 'version'");
    };
    let mut numbers = text
        .split(|letter: char| !letter.is_ascii_digit())
        .map_while(|number| number.parse::<u32>().ok());
    let mut next = || numbers.next().unwrap_or(0);
    let number = (next(), next(), next());
    if text.contains("MariaDB") {
        let found = format!("MariaDB {text}");
        return match number < (10, 6, 0) {
            true => CHECK.problem(found, "update: locks need MariaDB 10.6 or newer"),
            false => CHECK.fine(found),
        };
    }
    let found = format!("MySQL {text}");
    match number < (8, 0, 17) {
        true => CHECK.problem(found, "update: locks need MySQL 8.0.17 or newer"),
        false => CHECK.warning(
            format!("{found}: tenure is tested with MariaDB, not with MySQL"),
            "run your own tests before you rely on it",
        ),
    }
}

/// Whether the server can write, and whether it is the only one that should.
fn primary(facts: &Facts, follows: &Told<Vec<Texts>>) -> Finding {
    const CHECK: Check = Check("primary");
    if is_read_only(facts) {
        return CHECK.problem(
            "the server is read-only, where no lock can be taken",
            "name the primary in the URL",
        );
    }
    let follows = follows.as_ref().is_ok_and(|sources| !sources.is_empty());
    match (follows, facts.get("read_only")) {
        (_, None) => not_shown(CHECK, "VARIABLES LIKE 'read_only'"),
        (true, _) => CHECK.warning(
            "the server is a replica that accepts writes: whoever locks at its primary does not see its locks",
            "name the primary in the URL of all clients, and set read_only on replicas",
        ),
        (false, _) => CHECK.fine("the server accepts writes"),
    }
}

fn is_read_only(facts: &Facts) -> bool {
    let is_on = |name| {
        let value = facts.get(name);
        value.is_some_and(|value| !matches!(value, "OFF" | "0" | "NO_LOCK"))
    };
    is_on("read_only") || is_on("super_read_only") || is_on("innodb_read_only")
}

/// What a crash makes the server forget.
fn durability(facts: &Facts) -> Finding {
    const CHECK: Check = Check("durability");
    let advice = "set innodb_flush_log_at_trx_commit to 1";
    match facts.get(FLUSH) {
        Some("0") => CHECK.problem(
            format!("a crash of the server forgets the locks of the last second ({FLUSH} is 0)"),
            advice,
        ),
        Some("2") => CHECK.warning(
            format!("a power cut forgets the locks of the last second, a killed process none ({FLUSH} is 2)"),
            advice,
        ),
        Some(how) => CHECK.fine(format!("every lock is on disk before its answer ({FLUSH} is {how})")),
        None => not_shown(CHECK, "VARIABLES LIKE 'innodb_flush_log_at_trx_commit'"),
    }
}

/// Whether replicas may lack what the server has after a power cut.
fn binary_log(facts: &Facts) -> Option<Finding> {
    const CHECK: Check = Check("binary-log");
    if facts.get("log_bin")? != "ON" {
        return None;
    }
    Some(match facts.get("sync_binlog") {
        Some("1") => CHECK.fine("the binary log is on disk before each answer (sync_binlog is 1)"),
        Some(every) => CHECK.warning(
            format!("after a power cut the binary log, and with it the replicas, may lack the last locks (sync_binlog is {every})"),
            "set sync_binlog to 1",
        ),
        None => not_shown(CHECK, "VARIABLES LIKE 'sync_binlog'"),
    })
}

/// Whether other nodes accept writes as well.
fn cluster(facts: &Facts) -> Option<Finding> {
    const CHECK: Check = Check("cluster");
    let kind = if has_galera(facts) {
        "Galera"
    } else if facts
        .get("group_replication_group_name")
        .is_some_and(|group| !group.is_empty())
    {
        "group replication"
    } else {
        return None;
    };
    Some(CHECK.warning(
        format!("the server is a node of a cluster ({kind})"),
        "send all lock traffic to one node: a node that was cut off, or is behind, may grant what another has granted",
    ))
}

fn has_galera(facts: &Facts) -> bool {
    facts.get("wsrep_on") == Some("ON")
}

/// Whether a failover may forget a lock.
fn replicas(facts: &Facts, dumps: &Told<Texts>) -> Finding {
    const CHECK: Check = Check("replicas");
    if facts.get("log_bin").is_some_and(|log| log != "ON") {
        return CHECK.fine(
            "no replica is possible without a binary log: while the server is away nobody can lock",
        );
    }
    let dumps = || {
        dumps
            .as_ref()
            .ok()
            .and_then(|row| column(row, 0)?.parse().ok())
    };
    let attached = match facts.number("Slaves_connected").or_else(dumps) {
        Some(0) => {
            return CHECK.fine("no replica is attached: while the server is away nobody can lock");
        }
        Some(1) => "1 replica is attached".to_owned(),
        Some(some) => format!("{some} replicas are attached"),
        None => {
            return CHECK.unknown(
                "not checked: the server does not show its replicas to this user",
                "run as an administrator: SHOW REPLICA HOSTS; SHOW STATUS LIKE 'Rpl_semi_sync%'",
            );
        }
    };
    let is_confirmed = ["Rpl_semi_sync_master_status", "Rpl_semi_sync_source_status"];
    let is_confirmed = is_confirmed
        .iter()
        .any(|name| facts.get(name) == Some("ON"));
    match is_confirmed {
        true => CHECK
            .fine(format!(
                "{attached}, and one has each lock before its answer (semi-synchronous)"
            ))
            .but(
                Verdict::Fine,
                "raise rpl_semi_sync_master_timeout: once it has passed, locks are not waited for; \
                 promote only a replica that was semi-synchronous",
            ),
        false => CHECK.warning(
            format!("{attached}, asynchronously: a failover may forget a lock that is held"),
            "turn on semi-synchronous replication, or let the resource check fences",
        ),
    }
}

/// Whether connections and the sleep of waiters last as long as they should.
fn timeouts(facts: &Facts) -> Finding {
    const CHECK: Check = Check("timeouts");
    let limit = facts.get("max_statement_time");
    let limit = limit.and_then(|limit| limit.parse::<f64>().ok());
    if let Some(limit) = limit.filter(|limit| *limit > 0.0 && *limit < LONGEST_STATEMENT) {
        return CHECK.warning(
            format!("the server ends statements after {limit} s (max_statement_time): waiters, who sleep in one, connect again each time"),
            "set max_statement_time to 0 for this user: ALTER USER … WITH MAX_STATEMENT_TIME 0",
        );
    }
    match facts.number("wait_timeout") {
        Some(seconds) if seconds < SHORT_TIMEOUT => CHECK.warning(
            format!("the server closes idle connections after {seconds} s (wait_timeout): the first request after a pause may fail"),
            format!("set wait_timeout to {SHORT_TIMEOUT} or more: the request is tried again, but takes longer"),
        ),
        Some(seconds) => CHECK.fine(format!("idle connections last for {seconds} s (wait_timeout)")),
        None => not_shown(CHECK, "VARIABLES LIKE 'wait_timeout'"),
    }
}

fn pair(facts: &Facts, limit: &str, used: &str) -> Option<(u64, u64)> {
    Some((facts.number(limit)?, facts.number(used)?))
}

/// The user's own limit, unless it has none. A user sees its own connections at least.
fn of_user(facts: &Facts, used: &Told<Texts>) -> Option<(u64, u64)> {
    let limit = facts
        .number("max_user_connections")
        .filter(|limit| *limit > 0)?;
    let used = used
        .as_ref()
        .ok()
        .and_then(|row| column(row, 0)?.parse().ok());
    Some((limit, used?))
}

impl Mysql {
    /// Looks at the table, and makes it if need be; returns also whether it is there.
    async fn table(
        &self,
        server: &mut Patient<Conn>,
        is_read_only: bool,
    ) -> Result<(Vec<Finding>, bool)> {
        const CHECK: Check = Check("table");
        let table = &self.statements.table;
        let mut found = self.table_found(server).await?;
        if found.is_empty() && is_read_only {
            let found = format!("not checked: {table} is not here");
            return Ok((
                vec![CHECK.unknown(found, "name the primary in the URL")],
                false,
            ));
        }
        if found.is_empty() {
            let made = timeout(self.settings.timeout, self.prepare(&mut server.asked)).await;
            match made {
                Ok(Ok(_)) => {}
                Ok(Err(fault)) if fault.kind == FaultKind::Lasting => {
                    return Ok((vec![self.create_by_hand(server).await?], false));
                }
                Ok(Err(fault)) => return Err(unavailable(fault)),
                Err(late) => return Err(unavailable(Fault::new(FaultKind::Refused, late))),
            }
            found = self.table_found(server).await?;
        }
        Ok((vec![self.judge(CHECK, &found)], true))
    }

    /// The comment and engine of the table and the collation of its names; empty if there is none.
    async fn table_found(&self, server: &mut Patient<Conn>) -> Result<Texts> {
        let find = format!(
            "SELECT t.table_comment, t.engine, c.collation_name FROM information_schema.tables AS t \
             LEFT JOIN information_schema.columns AS c ON c.table_schema = t.table_schema \
             AND c.table_name = t.table_name AND c.column_name = 'name' \
             WHERE t.table_schema = DATABASE() AND t.table_name = '{}'",
            self.statements.table
        );
        server.row(&find).await?.map_err(refused)
    }

    fn judge(&self, check: Check, found: &Texts) -> Finding {
        let table = &self.statements.table;
        let format = column(found, 0)
            .and_then(|comment| comment.strip_prefix("tenure ")?.parse::<u32>().ok());
        match format {
            Some(FORMAT) => {}
            Some(newer) => {
                return check.problem(
                    format!("{table} has format {newer}, and this version knows {FORMAT}"),
                    "use the version of tenure that wrote it, or another prefix=",
                );
            }
            None => {
                return check.problem(format!("{table} is not tenure's"), "choose another prefix=");
            }
        }
        let engine = column(found, 1).unwrap_or("none");
        if engine != "InnoDB" {
            return check.problem(
                format!("{table} has the engine {engine}, which forgets locks in a crash"),
                format!("ALTER TABLE {table} ENGINE = InnoDB"),
            );
        }
        let collation = column(found, 2).unwrap_or("none");
        match COLLATIONS.contains(&collation) {
            true => check.fine(format!("{table} has format {FORMAT} (InnoDB, {collation})")),
            false => check.problem(
                format!("{table} has the collation {collation}, which takes different names for the same"),
                format!("DROP TABLE {table} while nobody holds a lock: it is made again as it should be"),
            ),
        }
    }

    /// What to run for a user who may not make the table.
    async fn create_by_hand(&self, server: &mut Patient<Conn>) -> Result<Finding> {
        let version = server.row("SELECT VERSION()").await?.unwrap_or_default();
        let is_mariadb = column(&version, 0).is_some_and(|version| version.contains("MariaDB"));
        let user = account(server).await?;
        let table = &self.statements.table;
        Ok(RIGHTS.problem(
            format!("the table {table} is missing, and {user} may not make it"),
            format!(
                "run as one who may, in the database {}: {}; {}",
                self.settings.database,
                one_line(&self.statements.create(is_mariadb)),
                self.grant(&user),
            ),
        ))
    }

    fn grant(&self, user: &str) -> String {
        format!(
            "GRANT SELECT, INSERT, UPDATE, DELETE ON `{}`.{} TO {user};",
            self.settings.database, self.statements.table
        )
    }

    /// What the user may not do: tried with statements that find no row.
    async fn rights(&self, server: &mut Patient<Conn>) -> Result<Finding> {
        let table = &self.statements.table;
        let tries = [
            ("SELECT", format!("SELECT version FROM {table} WHERE FALSE")),
            (
                "INSERT",
                format!(
                    "INSERT INTO {table} (name, since, ends, top, version) SELECT '', NULL, NULL, 0, 0 FROM DUAL WHERE FALSE"
                ),
            ),
            (
                "UPDATE",
                format!("UPDATE {table} SET version = 0 WHERE FALSE"),
            ),
            ("DELETE", format!("DELETE FROM {table} WHERE FALSE")),
        ];
        let mut missing = Vec::new();
        for (right, statement) in tries {
            let refused = self.refusal(server, &statement).await?;
            if matches!(refused, Some(1142 | 1143)) {
                missing.push(right.to_owned());
            }
        }
        let user = account(server).await?;
        Ok(lacks(&missing, &self.grant(&user)))
    }

    /// The number of the error that a statement gives.
    async fn refusal(&self, server: &mut Patient<Conn>, statement: &str) -> Result<Option<u16>> {
        let ran = timeout(self.settings.timeout, server.asked.query_drop(statement)).await;
        match ran {
            Ok(Ok(())) => Ok(None),
            Ok(Err(mysql_async::Error::Server(error))) => Ok(Some(error.code)),
            Ok(Err(error)) => Err(unavailable(fault::of(error))),
            Err(late) => Err(unavailable(Fault::new(FaultKind::Refused, late))),
        }
    }

    /// How waiters learn that their turn has come.
    async fn news(&self, facts: &Facts) -> Finding {
        const CHECK: Check = Check("news");
        let session = random_u128();
        match timeout(self.settings.connect_timeout, self.listen(session)).await {
            Ok(Ok(Some(_))) => CHECK.fine(
                "waiters sleep in a query that others interrupt (KILL QUERY), on one more connection while they wait",
            ),
            Ok(Ok(None)) if has_galera(facts) => CHECK.warning(
                "waiters poll every 1 to 100 ms, because nodes of a Galera cluster do not know each other's clients",
                "use a server of its own for locks if that is too slow or too much traffic",
            ),
            Ok(Ok(None)) => CHECK.warning(
                "waiters poll every 1 to 100 ms, because a proxy shares connections between clients",
                "connect to the server itself",
            ),
            Ok(Err(fault)) => CHECK.unknown(
                format!("not checked: {}", fault.source),
                "see that there is a connection left, and that GET_LOCK works for this user",
            ),
            Err(_) => CHECK.unknown("not checked: no answer to GET_LOCK", "run this again"),
        }
    }
}

/// The account of the user, as `GRANT` wants it.
async fn account(server: &mut Patient<Conn>) -> Result<String> {
    let user = server
        .row("SELECT CURRENT_USER()")
        .await?
        .unwrap_or_default();
    let user = column(&user, 0).unwrap_or("the_user@%");
    let (name, host) = user.rsplit_once('@').unwrap_or((user, "%"));
    Ok(format!("'{name}'@'{host}'"))
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
    .error(Mysql::KIND)
}

const FLUSH: &str = "innodb_flush_log_at_trx_commit";

/// How many seconds an idle connection should last.
const SHORT_TIMEOUT: u64 = 60;

/// How many seconds a statement must be allowed: a little longer than a waiter sleeps.
const LONGEST_STATEMENT: f64 = 3.0;

/// The collations that tell names apart byte by byte.
const COLLATIONS: [&str; 2] = ["utf8mb4_nopad_bin", "utf8mb4_0900_bin"];

const VARIABLES: &str = "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('group_replication_group_name', \
    'innodb_flush_log_at_trx_commit', 'innodb_read_only', 'log_bin', 'max_connections', 'max_user_connections', \
    'read_only', 'super_read_only', 'sync_binlog', 'wait_timeout', 'wsrep_on')";

/// Limits that each user may have for itself.
const LIMITS: &str = "SHOW SESSION VARIABLES LIKE 'max_statement_time'";

const STATUS: &str = "SHOW GLOBAL STATUS WHERE Variable_name IN ('Rpl_semi_sync_master_status', \
    'Rpl_semi_sync_source_status', 'Slaves_connected', 'Threads_connected')";

const VERSION: &str = "SELECT 'version', VERSION()";

/// Replicas that read the binary log; NULL for a user that does not see the processes of others.
const DUMPS: &str = "SELECT IF(SUM(user <> SUBSTRING_INDEX(CURRENT_USER(), '@', 1)) > 0, SUM(command LIKE 'Binlog Dump%'), NULL) \
    FROM information_schema.processlist";

const OWN_CONNECTIONS: &str = "SELECT COUNT(*) FROM information_schema.processlist \
    WHERE user = SUBSTRING_INDEX(CURRENT_USER(), '@', 1)";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_tested_untested_or_too_old() {
        let cases = [
            ("10.5.28-MariaDB-1", Verdict::Problem),
            ("10.6.0-MariaDB", Verdict::Fine),
            ("10.11.19-MariaDB-0+deb12u1", Verdict::Fine),
            ("11.4.2-MariaDB", Verdict::Fine),
            ("5.7.44", Verdict::Problem),
            ("8.0.16", Verdict::Problem),
            ("8.0.17", Verdict::Warning),
            ("8.4.3-commercial", Verdict::Warning),
        ];
        for (text, verdict) in cases {
            let found = version(&Facts::of(&[("version", text)]));
            assert_eq!(found.verdict, verdict, "{text}: {found:?}");
        }
        assert_eq!(version(&Facts::default()).verdict, Verdict::Unknown);
    }

    #[test]
    fn replicas_of_mysql_are_counted_by_their_connections() {
        let log = ("log_bin", "ON");
        let told = |count: &str| Ok(vec![Some(count.to_owned())]);
        let found = |facts: &[(&str, &str)], dumps: &Told<Texts>| {
            replicas(&Facts::of(facts), dumps).verdict
        };
        assert_eq!(found(&[log], &told("2")), Verdict::Warning);
        assert_eq!(found(&[log], &told("0")), Verdict::Fine);
        assert_eq!(found(&[log], &Ok(vec![None])), Verdict::Unknown);
        assert_eq!(found(&[log], &Err("no".to_owned())), Verdict::Unknown);
        let confirmed = [log, ("Rpl_semi_sync_source_status", "ON")];
        assert_eq!(found(&confirmed, &told("1")), Verdict::Fine);
    }

    #[test]
    fn a_node_of_a_group_is_called_one() {
        let group = Facts::of(&[("group_replication_group_name", "a-uuid")]);
        assert!(cluster(&group).is_some_and(|found| found.found.contains("group replication")));
        let none = Facts::of(&[("group_replication_group_name", ""), ("wsrep_on", "OFF")]);
        assert_eq!(cluster(&none), None);
    }
}
