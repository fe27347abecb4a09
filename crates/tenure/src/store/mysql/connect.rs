//! How a connection is made and prepared, and the table with it.

use std::time::Duration;

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, OptsBuilder};
use tokio::time::Instant;

use crate::error::Result;
use crate::random::random_u128;
use crate::schemes;
use crate::store::mysql::connection::MysqlId;
use crate::store::mysql::{Mysql, doorbell, fault};
use crate::store::sql::FORMAT;
use crate::store::sql::fault::{Fault, FaultKind, Outcome};
use crate::store::sql::settings::Settings;
use crate::url::invalid;

/// Refuses settings that this database or this build has not the means for.
pub(super) fn refuse_what_is_missing(settings: &Settings) -> Result<()> {
    if settings.schema.is_some() {
        return Err(invalid(
            "a schema is a database here: write it behind the host",
        ));
    }
    match settings.tls.is_some() && cfg!(not(feature = "mysql-tls")) {
        true => Err(schemes::missing("mysql", "mysql-tls")),
        false => Ok(()),
    }
}

impl Mysql {
    /// Connects and logs in.
    pub(super) async fn session(&self) -> Outcome<Conn> {
        let settings = &self.settings;
        let socket = settings.socket.as_ref();
        let options = OptsBuilder::default()
            .ip_or_hostname(settings.host.name.clone())
            .tcp_port(settings.host.port)
            .user(settings.user.clone())
            .pass(settings.password.clone())
            .db_name(Some(settings.database.clone()))
            .socket(socket.map(|path| path.to_string_lossy().into_owned()))
            // Otherwise a server on this machine is asked for its socket first.
            .prefer_socket(false)
            .tcp_nodelay(true)
            .stmt_cache_size(64)
            .setup(SETUP.to_vec());
        #[cfg(feature = "mysql-tls")]
        let options = options.ssl_opts(settings.tls.as_ref().map(tls));
        Conn::new(options).await.map_err(fault::of)
    }

    /// Finds the table, and makes it if need be; returns when the server started.
    pub(super) async fn prepare(&self, connection: &mut Conn) -> Outcome<Instant> {
        let uptime = connection.query_first("SHOW GLOBAL STATUS LIKE 'Uptime'");
        let uptime: Option<(String, u64)> = uptime.await.map_err(fault::of)?;
        let uptime = Duration::from_secs(uptime.map_or(0, |(_, seconds)| seconds));
        let now = Instant::now();
        let started = now.checked_sub(uptime).unwrap_or(now);
        for _ in 0..TRIES {
            let found: Option<(String, Option<String>)> = connection
                .exec_first(FIND_TABLE, (self.statements.table.as_ref(),))
                .await
                .map_err(fault::of)?;
            match found {
                Some((comment, engine)) => {
                    self.check_table(&comment, engine.as_deref())?;
                    return Ok(started);
                }
                None => self.make_table(connection).await?,
            }
        }
        let why = format!(
            "the table {} is made and deleted again and again",
            self.statements.table
        );
        Err(Fault::new(FaultKind::Refused, why))
    }

    fn check_table(&self, comment: &str, engine: Option<&str>) -> Outcome<()> {
        let table = &self.statements.table;
        let format = comment.strip_prefix("tenure ");
        let why = match format.and_then(|format| format.parse().ok()) {
            Some(FORMAT) if engine == Some("InnoDB") => return Ok(()),
            Some(FORMAT) => format!(
                "the table {table} forgets locks in a crash: ALTER TABLE {table} ENGINE = InnoDB"
            ),
            Some(newer) => return Err(Fault::new(FaultKind::Version(newer), "another format")),
            None => format!("the table {table} is not tenure's: choose another prefix="),
        };
        Err(Fault::new(FaultKind::Lasting, why))
    }

    async fn make_table(&self, connection: &mut Conn) -> Outcome<()> {
        let version = connection.query_first("SELECT VERSION()").await;
        let version: Option<String> = version.map_err(fault::of)?;
        let is_mariadb = version.is_some_and(|version| version.contains("MariaDB"));
        let create = self.statements.create(is_mariadb);
        let made = connection.query_drop(&create).await.map_err(fault::of);
        match made {
            Ok(()) => Ok(()),
            // Somebody else makes it at this moment.
            Err(fault) if fault.kind == FaultKind::Conflict => Ok(()),
            Err(fault) if fault.kind == FaultKind::Lasting => {
                let (table, user) = (&self.statements.table, self.settings.user.as_deref());
                let user = user.unwrap_or("the user");
                let why = format!(
                    "the table {table} is missing, and {user} may not make it ({}); run as one who may:\n\n{create};\n\
                     GRANT SELECT, INSERT, UPDATE, DELETE ON {table} TO '{user}'@'%';",
                    fault.source,
                );
                Err(Fault::new(FaultKind::Lasting, why))
            }
            Err(fault) => Err(fault),
        }
    }
}

/// Sets how long statements may take, if their client waits for less than the shortest lock wait timeout of the server.
///
/// A statement that is ended because of it has changed nothing: a commit that has begun goes on. MySQL has no such limit, and
/// takes it for a comment.
pub(super) async fn limit_statements(connection: &mut Conn, timeout: Duration) -> Outcome<()> {
    if timeout >= 2 * SHORTEST_LOCK_WAIT {
        return Ok(());
    }
    let seconds = (timeout / 2).max(Duration::from_millis(1)).as_secs_f64();
    let set = format!("SET SESSION autocommit = 1 /*M! , max_statement_time = {seconds:.3} */");
    connection.query_drop(set).await.map_err(fault::of)
}

/// Marks a connection so that others of this client can end it; `None` behind a proxy, whose connections others use too, and
/// where the server has no named locks.
pub(super) async fn id(connection: &mut Conn) -> Outcome<Option<MysqlId>> {
    // A proxy may answer a bare CONNECTION_ID() itself.
    let number: Option<u32> = connection
        .query_first("SELECT id FROM information_schema.processlist WHERE id = CONNECTION_ID()")
        .await
        .map_err(fault::of)?;
    let own = connection.id();
    if number != Some(own) {
        return Ok(None);
    }
    let lock = format!("tenure:connection:{:032x}", random_u128());
    match doorbell::take(connection, &lock, 0).await {
        Ok(taken) => Ok((taken == Some((1, own))).then_some(MysqlId { lock })),
        Err(fault) if fault.kind == FaultKind::Unknown => Err(fault),
        Err(fault) => {
            tracing::debug!(error = %fault.source, "a connection cannot be marked");
            Ok(None)
        }
    }
}

#[cfg(feature = "mysql-tls")]
fn tls(settings: &crate::store::tls::Tls) -> mysql_async::SslOpts {
    use mysql_async::{ClientIdentity, SslOpts};

    let mut options = SslOpts::default();
    if let Some(ca) = &settings.ca {
        options = options.with_root_certs(vec![ca.clone().into()]);
        options = options.with_disable_built_in_roots(true);
    }
    if let (Some(certificate), Some(key)) = (&settings.certificate, &settings.key) {
        let identity = ClientIdentity::new(certificate.clone().into(), key.clone().into());
        options = options.with_client_identity(Some(identity));
    }
    options
}

/// What statements rely on. None waits for a lock of the server for longer than its client waits for it, since it would take
/// effect when nobody expects it any more; see also [`limit_statements`].
const SETUP: [&str; 2] = [
    "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
    "SET SESSION autocommit = 1, sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION', \
     innodb_lock_wait_timeout = 1, lock_wait_timeout = 1, time_zone = '+00:00', wait_timeout = 28800",
];

/// The shortest time for which the server waits for a lock.
const SHORTEST_LOCK_WAIT: Duration = Duration::from_secs(1);

/// The table's comment, which has its format, and its engine.
const FIND_TABLE: &str = "SELECT table_comment, engine FROM information_schema.tables \
    WHERE table_schema = DATABASE() AND table_name = ?";

/// How often the table is looked for.
const TRIES: usize = 5;
