//! How a connection is made and prepared, and the table with it.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio::time::timeout;
use tokio_postgres::config::SslMode;
use tokio_postgres::tls::{MakeTlsConnect, TlsConnect};
use tokio_postgres::{AsyncMessage, Client, Config, NoTls, SimpleQueryMessage, SimpleQueryRow};

use crate::error::Result;
use crate::random::random_u128;
use crate::schemes;
use crate::store::postgres::connection::{PostgresId, application_name};
use crate::store::postgres::{Postgres, fault};
use crate::store::sql::FORMAT;
use crate::store::sql::fault::{Fault, FaultKind, Outcome};
use crate::store::sql::settings::Settings;

/// A connection, and what it hears of its own accord.
#[derive(Debug)]
pub(super) struct PostgresSession {
    pub(super) client: Client,
    pub(super) notifications: mpsc::UnboundedReceiver<String>,
    /// The port of this end, if it has one.
    port: Option<u16>,
    task: AbortHandle,
}

impl Drop for PostgresSession {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Refuses settings that this build has not the means for.
pub(super) fn refuse_what_is_missing(settings: &Settings) -> Result<()> {
    match settings.tls.is_some() && cfg!(not(feature = "postgres-tls")) {
        true => Err(schemes::missing("postgres", "postgres-tls")),
        false => Ok(()),
    }
}

impl Postgres {
    /// Connects and logs in.
    pub(super) async fn session(&self) -> Outcome<PostgresSession> {
        let settings = &self.settings;
        let mut config = Config::new();
        config.dbname(&settings.database).application_name("tenure");
        config.user(settings.user.as_deref().unwrap_or("postgres"));
        if let Some(password) = &settings.password {
            config.password(password);
        }
        let host = settings.host.name.as_str();
        if let Some(path) = &settings.socket {
            let socket = UnixStream::connect(path).await.map_err(refused)?;
            return self.log_in(config, socket, None).await;
        }
        let tcp = TcpStream::connect((host, settings.host.port)).await;
        let tcp = tcp.map_err(refused)?;
        tcp.set_nodelay(true).map_err(refused)?;
        let port = tcp.local_addr().ok().as_ref().map(SocketAddr::port);
        self.log_in(config, tcp, port).await
    }

    async fn log_in<S: Stream>(
        &self,
        mut config: Config,
        stream: S,
        port: Option<u16>,
    ) -> Outcome<PostgresSession> {
        let host = self.settings.host.name.as_str();
        #[cfg(feature = "postgres-tls")]
        if let Some(tls) = &self.settings.tls {
            config.ssl_mode(SslMode::Require);
            let connector = super::tls::connector(tls)?;
            return log_in(config, stream, port, connector, host).await;
        }
        config.ssl_mode(SslMode::Disable);
        log_in(config, stream, port, NoTls, host).await
    }

    /// Sets what statements rely on, and returns what the server calls the connection. Not where others get the same connection
    /// afterwards: they would get the settings too.
    pub(super) async fn set_up(&self, client: &Client) -> Outcome<PostgresId> {
        let mark = u64::try_from(random_u128() >> 64).unwrap_or_default();
        let set = format!(
            "SELECT set_config(s.name, w.value, false) \
             FROM (VALUES ('default_transaction_isolation', 'read committed'), ('plan_cache_mode', 'force_generic_plan'), \
                   ('enable_seqscan', 'off'), ('jit', 'off'), ('lock_timeout', '{}ms'), ('idle_session_timeout', '0'), \
                   ('statement_timeout', '0'), ('synchronous_commit', 'on'), ('application_name', '{}')) AS w (name, value) \
             JOIN pg_settings AS s USING (name) \
             WHERE s.name <> 'synchronous_commit' OR s.setting = 'off'; \
             SELECT pg_backend_pid()",
            lock_wait(&self.settings).as_millis(),
            application_name(mark),
        );
        let answer = client.simple_query(&set).await.map_err(fault::of)?;
        let last = last_row(&answer)?;
        let process = last.get(0).and_then(|process| process.parse().ok());
        let process =
            process.ok_or_else(|| Fault::damaged("the server has no number for a session"))?;
        Ok(PostgresId { process, mark })
    }

    /// Finds the table, and makes it if need be.
    pub(super) async fn find_or_make_table(&self, client: &Client) -> Outcome<()> {
        for _ in 0..TRIES {
            let found = self.look(client).await?;
            if found.is_standby {
                let why = "the server is a standby, and locks need the primary";
                return Err(Fault::new(FaultKind::Refused, why).on_a_broken_connection());
            }
            match found.table {
                Some(Table {
                    is_unlogged: true, ..
                }) => {
                    let why = format!(
                        "{} is UNLOGGED and so forgets all locks in a crash: ALTER TABLE {} SET LOGGED",
                        self.table, self.table
                    );
                    return Err(Fault::new(FaultKind::Lasting, why));
                }
                Some(Table { comment, .. }) => return self.check_format(comment.as_deref()),
                None => self.make_table(client).await?,
            }
        }
        let why = format!(
            "the table {} is made and deleted again and again",
            self.table
        );
        Err(Fault::new(FaultKind::Refused, why))
    }

    async fn look(&self, client: &Client) -> Outcome<Found> {
        let look = format!(
            "SELECT pg_is_in_recovery(), c.relpersistence, obj_description(c.oid, 'pg_class') \
             FROM (SELECT) AS one LEFT JOIN pg_class AS c ON c.oid = to_regclass('{}')",
            self.table
        );
        let answer = client.simple_query(&look).await.map_err(fault::of)?;
        let last = last_row(&answer)?;
        Ok(Found {
            is_standby: last.get(0) == Some("t"),
            table: last.get(1).map(|persistence| Table {
                is_unlogged: persistence == "u",
                comment: last.get(2).map(ToOwned::to_owned),
            }),
        })
    }

    fn check_format(&self, comment: Option<&str>) -> Outcome<()> {
        let format = comment.and_then(|comment| comment.strip_prefix("tenure ")?.parse().ok());
        match format {
            Some(FORMAT) => Ok(()),
            Some(newer) => Err(Fault::new(FaultKind::Version(newer), "another format")),
            None => {
                let why = format!(
                    "the table {} is not tenure's: choose another prefix=",
                    self.table
                );
                Err(Fault::new(FaultKind::Lasting, why))
            }
        }
    }

    async fn make_table(&self, client: &Client) -> Outcome<()> {
        let made = client.batch_execute(&self.statements.create).await;
        match made.map_err(fault::of) {
            Ok(()) => Ok(()),
            // Somebody else makes it at this moment.
            Err(fault) if fault.kind == FaultKind::Conflict => Ok(()),
            Err(fault) if fault.kind == FaultKind::Lasting => {
                let user = self.settings.user.as_deref().unwrap_or("postgres");
                let why = format!(
                    "the table {table} is missing, and {user} may not make it ({}); run as one who may:\n\n{}\n\
                     GRANT SELECT, INSERT, UPDATE, DELETE ON {table} TO {user};",
                    fault.source,
                    self.statements.create,
                    table = self.table,
                );
                Err(Fault::new(FaultKind::Lasting, why))
            }
            Err(fault) => Err(fault),
        }
    }

    /// Finds out whether something between client and server gives each transaction any connection:
    /// then nothing is heard, and no statement can be prepared.
    pub(super) async fn is_pooled(&self, session: &mut PostgresSession) -> Outcome<bool> {
        let is_known = self.is_pooled.get_or_try_init(|| async {
            let port = session
                .client
                .simple_query("SELECT inet_client_port()")
                .await;
            let port = port.map_err(fault::of)?;
            let port = port.iter().find_map(|message| match message {
                SimpleQueryMessage::Row(row) => row.get(0)?.parse::<u16>().ok(),
                _ => None,
            });
            // The server sees the very connection that this client has made.
            if port.is_some() && port == session.port {
                return Ok(false);
            }
            let word = format!("{:032x}", random_u128());
            let channel = format!("tenure_test_{word}");
            // By another connection: a pooler may have the same one listen and tell, and pass that on.
            let other = self.session().await?;
            run(&session.client, &format!("LISTEN {channel}")).await?;
            run(&other.client, &format!("NOTIFY {channel}, '{word}'")).await?;
            // A pooler also passes on what is meant for others.
            let heard = timeout(ECHO, async {
                while let Some(heard) = session.notifications.recv().await {
                    if heard == word {
                        return true;
                    }
                }
                false
            });
            let heard = heard.await.unwrap_or(false);
            run(&session.client, &format!("UNLISTEN {channel}")).await?;
            Ok(!heard)
        });
        is_known.await.copied()
    }
}

/// How long a statement waits for a row that somebody else has locked: in time for a sentence about it.
pub(super) fn lock_wait(settings: &Settings) -> Duration {
    let wait = (settings.timeout / 2).min(LONGEST_LOCK_WAIT);
    wait.max(Duration::from_millis(1))
}

/// What is there.
struct Found {
    is_standby: bool,
    table: Option<Table>,
}

struct Table {
    is_unlogged: bool,
    comment: Option<String>,
}

/// Any kind of connection.
trait Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send + 'static> Stream for T {}

async fn log_in<S, T>(
    config: Config,
    stream: S,
    port: Option<u16>,
    mut tls: T,
    host: &str,
) -> Outcome<PostgresSession>
where
    S: Stream,
    T: MakeTlsConnect<S> + Send,
    T::TlsConnect: Send,
    T::Stream: Send + 'static,
    <T::TlsConnect as TlsConnect<S>>::Future: Send,
{
    let tls = tls.make_tls_connect(host).map_err(|error| {
        let error: crate::BoxError = error.into();
        Fault::new(FaultKind::Lasting, error)
    })?;
    let (client, mut connection) = config.connect_raw(stream, tls).await.map_err(fault::of)?;
    // Unbounded in type only: a client is told once of each of its claims and leases.
    let (hear, notifications) = mpsc::unbounded_channel();
    let task = tokio::spawn(async move {
        while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
            if let AsyncMessage::Notification(notification) = message {
                // Nobody listens on a connection that is about to be dropped.
                let _ = hear.send(notification.payload().to_owned());
            }
        }
    });
    Ok(PostgresSession {
        client,
        notifications,
        port,
        task: task.abort_handle(),
    })
}

fn last_row(answer: &[SimpleQueryMessage]) -> Outcome<&SimpleQueryRow> {
    let last = answer.iter().rev().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    });
    last.ok_or_else(|| Fault::damaged("the server did not answer"))
}

async fn run(client: &Client, statement: &str) -> Outcome<()> {
    client.batch_execute(statement).await.map_err(fault::of)
}

fn refused(error: std::io::Error) -> Fault {
    Fault::new(FaultKind::Refused, error)
}

/// How often the table is looked for.
const TRIES: usize = 5;

/// How long a statement waits for a row that somebody else has locked, at most.
const LONGEST_LOCK_WAIT: Duration = Duration::from_secs(1);

/// How long the echo of a message may take before it is known that there is none.
const ECHO: Duration = Duration::from_secs(1);
