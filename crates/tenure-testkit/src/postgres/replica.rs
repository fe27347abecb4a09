//! A PostgreSQL server that follows another.

use super::programs::Programs;
use super::{DATA, Postgres, PostgresServer, launch};
use crate::error::Result;
use crate::sql::{Kind, run};
use crate::user::User;
use crate::wait;

impl PostgresServer {
    /// Starts a replica of a running server, with the same options and a copy of its data.
    ///
    /// It follows the server by streaming replication and answers queries; it continues after a
    /// restart of either. The server does not wait for it, so it can lag behind:
    /// [`wait_until_caught_up`](Self::wait_until_caught_up) waits until it does not.
    ///
    /// # Errors
    ///
    /// If the data cannot be copied; otherwise those of [`PostgresBuilder::start`](crate::PostgresBuilder::start).
    pub fn replica_of(primary: &Self) -> Result<Self> {
        let mut options = primary.options.clone();
        let source = format!(
            "host=127.0.0.1 port={} user={} password={}",
            primary.port(),
            Postgres::ADMIN,
            Self::ADMIN_PASSWORD
        );
        options.settings.push(("primary_conninfo".into(), source));
        // Reconnects soon after a restart of the primary.
        let pause = ("wal_retrieve_retry_interval".into(), "100ms".into());
        options.settings.push(pause);
        Self::start_prepared(options, |start| {
            let programs = Programs::find()?;
            let user = User::instead_of_root(Postgres::NAME)?;
            User::give(user, start.folder)?;
            let data = start.folder.join(DATA);
            let mut copy = User::command(user, &programs.pg_basebackup());
            copy.args(["--no-sync", "--checkpoint=fast", "--wal-method=stream"])
                .args(["--no-password", "--username", Postgres::ADMIN])
                .args(["--port", &primary.port().to_string(), "--host"])
                .arg(primary.socket())
                .arg("--pgdata")
                .arg(&data)
                .env_clear()
                .env("PGPASSWORD", Self::ADMIN_PASSWORD);
            run(&mut copy, "")?;
            let signal = data.join("standby.signal");
            User::write(user, &signal, "")?;
            launch(&programs, user, start)
        })
    }

    /// Waits until the replica has replayed everything that its primary has written so far.
    ///
    /// # Errors
    ///
    /// If a server does not reply, or if it takes too long, for example because replay is
    /// [paused](Self::pause_replay).
    pub fn wait_until_caught_up(&self, primary: &Self) -> Result<()> {
        let end = primary.query("SELECT pg_current_wal_flush_lsn()")?;
        let question = format!("SELECT pg_last_wal_replay_lsn() >= '{end}'");
        wait::until("the replica has caught up", || {
            self.expect(&question, "t", &format!("it has not replayed {end}"))
        })
    }

    /// Pauses a replica's replay, so that it returns stale data from then on; returns once nothing
    /// changes any more.
    ///
    /// # Errors
    ///
    /// If it does not answer or is not a replica.
    pub fn pause_replay(&self) -> Result<()> {
        self.query("SELECT pg_wal_replay_pause()")?;
        wait::until("the replay is paused", || {
            let question = "SELECT pg_get_wal_replay_pause_state()";
            self.expect(question, "paused", "it is not paused")
        })
    }

    /// Resumes the replay of a replica.
    ///
    /// # Errors
    ///
    /// If it does not answer or is not a replica.
    pub fn resume_replay(&self) -> Result<()> {
        self.query("SELECT pg_wal_replay_resume()").map(drop)
    }

    /// Promotes a replica to a primary, with everything that it has received so far; returns once
    /// it accepts writes.
    ///
    /// The old primary does not learn of it.
    ///
    /// # Errors
    ///
    /// If it does not answer or is not a replica.
    pub fn promote(&self) -> Result<()> {
        // A paused replay would never finish.
        self.resume_replay()?;
        self.query("SELECT pg_promote()")?;
        wait::until("the replica is promoted", || {
            self.expect("SELECT pg_is_in_recovery()", "f", "it is still a replica")
        })
    }

    fn expect(&self, question: &str, wanted: &str, otherwise: &str) -> Result<(), String> {
        match self.query(question) {
            Ok(answer) if answer == wanted => Ok(()),
            Ok(answer) => Err(format!("{otherwise}: {answer}\n{}", self.log())),
            Err(error) => Err(format!("{error:?}")),
        }
    }
}
