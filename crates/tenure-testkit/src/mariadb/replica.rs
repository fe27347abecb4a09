//! A MariaDB server that follows another.

use std::fs;

use super::{CONFIG, MariaDb, MariaDbBuilder, MariaDbServer};
use crate::error::{Error, Result};
use crate::sql::Kind;

impl MariaDbBuilder {
    /// Enables the binary log, which [replicas](MariaDbServer::replica_of) need.
    pub fn binary_log(self) -> Self {
        self.setting("log-bin", "binlog")
    }
}

impl MariaDbServer {
    /// Starts a replica of a running server, with the same options; the server must have a [binary
    /// log](MariaDbBuilder::binary_log).
    ///
    /// It follows the server asynchronously, from the first transaction on. It answers queries, and
    /// refuses writes of all users except the admin. It can lag behind:
    /// [`wait_until_caught_up`](Self::wait_until_caught_up) waits until it does not.
    ///
    /// # Errors
    ///
    /// If the server has no binary log; otherwise those of [`MariaDbBuilder::start`].
    pub fn replica_of(primary: &Self) -> Result<Self> {
        // Without a log, it would wait for the first transaction for ever.
        if primary.query("SELECT @@log_bin")? != "1" {
            let reason = "it has no binary log: start it with binary_log()";
            return Err(primary.server.failed(reason));
        }
        let mut options = primary.options.clone();
        let (name, value) = READ_ONLY;
        options.settings.push((name.into(), value.into()));
        let replica = Self::start_prepared(options, MariaDb::prepare)?;
        replica.query(&format!(
            "CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = {}, MASTER_USER = '{}', MASTER_PASSWORD = '{}',
                 MASTER_SSL = {}, MASTER_CONNECT_RETRY = 1, MASTER_USE_GTID = slave_pos;
             START SLAVE",
            primary.port(),
            MariaDb::ADMIN,
            Self::ADMIN_PASSWORD,
            u8::from(primary.tls().is_some()),
        ))?;
        replica.wait_until_caught_up(primary)?;
        Ok(replica)
    }

    /// Waits until the replica has replayed everything that its primary has written so far.
    ///
    /// # Errors
    ///
    /// If a server does not reply, or if it takes too long, for example because replay is
    /// [paused](Self::pause_replay).
    pub fn wait_until_caught_up(&self, primary: &Self) -> Result<()> {
        let end = primary.query("SELECT @@gtid_binlog_pos")?;
        let question = format!("SELECT MASTER_GTID_WAIT('{end}', {PATIENCE_SECONDS})");
        match self.query(&question)?.as_str() {
            "0" => Ok(()),
            _ => Err(Error::Answer {
                command: question,
                text: self.query("SHOW SLAVE STATUS\\G")?,
            }),
        }
    }

    /// Pauses a replica's replay, so that it returns stale data from then on; returns once nothing
    /// changes any more.
    ///
    /// # Errors
    ///
    /// If it does not answer.
    pub fn pause_replay(&self) -> Result<()> {
        self.query("STOP SLAVE SQL_THREAD").map(drop)
    }

    /// Resumes the replay of a replica.
    ///
    /// # Errors
    ///
    /// If it does not answer.
    pub fn resume_replay(&self) -> Result<()> {
        self.query("START SLAVE SQL_THREAD").map(drop)
    }

    /// Promotes a replica to a primary, with everything that it has replayed so far.
    ///
    /// The old primary does not learn of it.
    ///
    /// # Errors
    ///
    /// If it does not answer, or its configuration cannot be changed.
    pub fn promote(&self) -> Result<()> {
        let (name, value) = READ_ONLY;
        let config = self.folder().join(CONFIG);
        let text = fs::read_to_string(&config).map_err(Error::io("read my.cnf"))?;
        // For its next start.
        let text = text.replace(&format!("\n{name}={value}\n"), "\n");
        fs::write(&config, text).map_err(Error::io("write my.cnf"))?;
        self.query("STOP SLAVE; RESET SLAVE ALL; SET GLOBAL read_only = OFF")
            .map(drop)
    }
}

const READ_ONLY: (&str, &str) = ("read-only", "ON");

/// How long the server waits for its primary's transactions; less than we wait for the server.
const PATIENCE_SECONDS: u32 = 15;
