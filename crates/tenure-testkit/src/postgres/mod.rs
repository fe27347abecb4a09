//! PostgreSQL servers.

mod bouncer;
mod config;
mod programs;
mod replica;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::Signal;

pub use self::bouncer::{PgBouncer, PoolMode};
use self::programs::Programs;
use crate::clock::MovableClock;
use crate::error::Result;
use crate::process;
use crate::server::{Launch, Server};
use crate::sql::{
    Account, DATABASE, Kind, Options, SqlBuilder, SqlServer, Start, Way, run, unpack,
};
use crate::user::User;

/// A private PostgreSQL server.
///
/// Its URLs are like `postgres://tenure:secret@127.0.0.1:12345/test`; its admin is `postgres`. The
/// user `tenure` owns the database, which is the only one besides `template1`. If this process runs
/// as root, the server runs as the user `postgres`, or as `nobody` if there is none, because it
/// refuses to run as root.
pub type PostgresServer = SqlServer<Postgres>;

/// The options of a [`PostgresServer`].
pub type PostgresBuilder = SqlBuilder<Postgres>;

/// The kind of a [`PostgresServer`].
#[derive(Debug)]
pub struct Postgres;

impl PostgresServer {
    /// Returns the directory of the Unix socket, which is what clients need.
    pub fn socket(&self) -> PathBuf {
        self.folder().to_owned()
    }
}

impl Kind for Postgres {
    const NAME: &'static str = "postgres";
    const SCHEME: &'static str = "postgres";
    const ADMIN: &'static str = "postgres";
    const CLOCK: &'static str =
        "SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint";

    fn prepare(start: &Start<'_>) -> Result<Launch> {
        let programs = Programs::find()?;
        let user = User::instead_of_root(Self::NAME)?;
        make_data(&programs, &start.folder.join(DATA), user)?;
        launch(&programs, user, start)
    }

    fn check_ready(server: &Server) -> Result<(), String> {
        let lines = lock_file(server);
        match &lines[..] {
            [pid, .., status] if *pid == server.pid().to_string() => match status.trim() {
                "ready" | "standby" => Ok(()),
                status => Err(format!("it is {status}")),
            },
            _ => Err("it does not say so".into()),
        }
    }

    fn after_start(server: &Server) -> Result<()> {
        // A killed server would leave a shared memory segment behind. Now the segment disappears
        // with the last process that uses it.
        let memory = lock_file(server);
        let memory = memory
            .get(6)
            .and_then(|line| line.split_whitespace().nth(1));
        let Some(id) = memory else {
            return Err(server.failed("its lock file does not name its shared memory"));
        };
        let ipcrm = process::find("ipcrm", "util-linux")?;
        run(Command::new(ipcrm).args(["--shmem-id", id]), "").map(drop)
    }

    fn client(folder: &Path, port: u16, way: Way<'_>) -> Result<Command> {
        let mut client = Command::new(Programs::find()?.psql());
        client
            .args(["--no-psqlrc", "--quiet", "--no-password"])
            .args(["--tuples-only", "--no-align", "--field-separator=\t"])
            .args(["--pset=null=NULL", "--set=ON_ERROR_STOP=1"])
            .args(["--port", &port.to_string(), "--dbname", DATABASE])
            .env_clear();
        match way {
            Way::Admin => {
                client.args(["--username", Self::ADMIN, "--host"]);
                client.arg(folder);
                client.env("PGPASSWORD", PostgresServer::ADMIN_PASSWORD);
            }
            Way::User {
                name,
                password,
                tls,
            } => {
                client.args(["--username", name, "--host", "127.0.0.1"]);
                client.env("PGPASSWORD", password);
                if let Some(tls) = tls {
                    client
                        .env("PGSSLMODE", "verify-full")
                        .env("PGSSLROOTCERT", tls.ca())
                        .env("PGSSLCERT", tls.client_certificate())
                        .env("PGSSLKEY", tls.client_key());
                }
            }
        }
        Ok(client)
    }

    fn users(options: &Options) -> String {
        let create = |account: &Account| {
            let user = format!("\"{}\"", account.name.replace('"', "\"\""));
            let password = quoted(&account.password);
            let grants = account.grants.iter();
            let grants = grants.map(|grant| format!("GRANT {grant} TO {user};\n"));
            format!("CREATE ROLE {user} LOGIN PASSWORD {password};\n") + &grants.collect::<String>()
        };
        options.accounts.iter().map(create).collect()
    }
}

/// Writes all files except the data, and returns how to start the server.
fn launch(programs: &Programs, user: Option<User>, start: &Start<'_>) -> Result<Launch> {
    let (folder, data) = (start.folder, start.folder.join(DATA));
    let config = folder.join("postgresql.conf");
    User::give(user, folder)?;
    User::write(user, &config, &config::text(start))?;
    let access = folder.join(config::ACCESS);
    User::write(user, &access, &config::access(start.options))?;
    if let Some(tls) = start.tls {
        User::give(user, &tls.server_key())?;
    }
    let clock = match start.options.movable_clock {
        true => Some(MovableClock::make(folder)?),
        false => None,
    };
    Ok(Launch {
        program: programs.postgres(),
        args: vec![
            "-D".into(),
            data.display().to_string(),
            "-c".into(),
            format!("config_file={}", config.display()),
        ],
        log: "postgres.log",
        // This makes it end without waiting for its clients.
        shutdown: Signal::INT,
        user,
        clock,
        leftovers: vec![LOCK_FILE.into(), format!(".s.PGSQL.{}.lock", start.port)],
    })
}

/// Returns the lines of the lock file, in which the server describes itself.
fn lock_file(server: &Server) -> Vec<String> {
    let text = fs::read_to_string(server.folder().join(LOCK_FILE)).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

fn make_data(programs: &Programs, data: &Path, user: Option<User>) -> Result<()> {
    let version = run(Command::new(programs.postgres()).arg("--version"), "")?;
    // Without a server, each line is a statement. There are no more databases than needed, because
    // all are copied.
    let users = format!(
        "ALTER ROLE {admin} PASSWORD '{admin_password}'\n\
         CREATE ROLE {owner} LOGIN PASSWORD '{password}'\n\
         ALTER DATABASE postgres RENAME TO {DATABASE}\n\
         ALTER DATABASE {DATABASE} OWNER TO {owner}\n\
         UPDATE pg_database SET datistemplate = false WHERE datname = 'template0'\n\
         DROP DATABASE template0\n",
        admin = Postgres::ADMIN,
        admin_password = PostgresServer::ADMIN_PASSWORD,
        owner = PostgresServer::USER,
        password = PostgresServer::PASSWORD,
    );
    let recipe = format!("{version}{users}{INIT:?}");
    unpack(Postgres::NAME, &recipe, data, user, |data| {
        let mut init = User::command(user, &programs.initdb());
        let init = init.args(INIT).args(["--username", Postgres::ADMIN]);
        run(init.arg("--pgdata").arg(data), "")?;
        let mut alone = User::command(user, &programs.postgres());
        let alone = alone.args(["--single", "-c", "fsync=off", "-c", "exit_on_error=on"]);
        run(alone.arg("-D").arg(data).arg("template1"), &users)?;
        // This makes the log empty and short.
        let mut reset = User::command(user, &programs.pg_resetwal());
        run(reset.arg("--pgdata").arg(data), "").map(drop)
    })
}

/// Quotes any string for a statement.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// How data is created: without a flush, and with small log files, because they are copied.
const INIT: [&str; 5] = [
    "--no-sync",
    "--no-locale",
    "--encoding=UTF8",
    "--auth=trust",
    "--wal-segsize=1",
];

/// The data directory in the server's directory.
const DATA: &str = "data";

const LOCK_FILE: &str = "data/postmaster.pid";
