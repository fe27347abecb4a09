//! MariaDB servers.

mod config;
mod replica;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::{Signal, geteuid};

use crate::clock::MovableClock;
use crate::error::{Error, Result};
use crate::process;
use crate::server::{Launch, Server};
use crate::sql::{
    Account, DATABASE, Kind, Options, SqlBuilder, SqlServer, Start, Way, run, unpack,
};
use crate::tls::ClientCertificate;

/// A private MariaDB server.
///
/// Its URLs are like `mysql://tenure:secret@127.0.0.1:12345/test`; its admin is `root`.
pub type MariaDbServer = SqlServer<MariaDb>;

/// The options of a [`MariaDbServer`].
pub type MariaDbBuilder = SqlBuilder<MariaDb>;

/// The kind of a [`MariaDbServer`].
#[derive(Debug)]
pub struct MariaDb;

impl MariaDbServer {
    /// Returns the path of the Unix socket.
    pub fn socket(&self) -> PathBuf {
        self.folder().join(SOCKET)
    }
}

impl Kind for MariaDb {
    const NAME: &'static str = "mariadb";
    const SCHEME: &'static str = "mysql";
    const ADMIN: &'static str = "root";
    const CLOCK: &'static str = "SELECT FLOOR(UNIX_TIMESTAMP(SYSDATE(3)) * 1000)";

    fn prepare(start: &Start<'_>) -> Result<Launch> {
        let program = process::find("mariadbd", PACKAGE)?;
        make_data(&program, &start.folder.join(DATA))?;
        let config = start.folder.join(CONFIG);
        fs::write(&config, config::text(start)).map_err(Error::io("write my.cnf"))?;
        Ok(Launch {
            program,
            args: vec![format!("--defaults-file={}", config.display())],
            log: "mariadb.log",
            shutdown: Signal::TERM,
            user: None,
            clock: match start.options.movable_clock {
                true => Some(MovableClock::make(start.folder)?),
                false => None,
            },
            leftovers: vec![],
        })
    }

    fn check_ready(server: &Server) -> Result<(), String> {
        match server.log_since_start().contains("ready for connections") {
            true => Ok(()),
            false => Err("it does not say so".into()),
        }
    }

    fn after_start(_: &Server) -> Result<()> {
        Ok(())
    }

    fn client(folder: &Path, port: u16, way: Way<'_>) -> Result<Command> {
        let mut client = Command::new(process::find("mariadb", PACKAGE)?);
        client.args(["--no-defaults", "--batch", "--raw", "--skip-column-names"]);
        client.args(["--default-character-set=utf8mb4", "--database", DATABASE]);
        let (name, password) = match way {
            Way::Admin => {
                client.arg("--socket").arg(folder.join(SOCKET));
                (Self::ADMIN, MariaDbServer::ADMIN_PASSWORD)
            }
            Way::User {
                name,
                password,
                tls,
            } => {
                let port = port.to_string();
                client.args(["--protocol=tcp", "--host=127.0.0.1", "--port", &port]);
                if let Some(tls) = tls {
                    client.arg("--ssl-verify-server-cert");
                    client.arg("--ssl-ca").arg(tls.ca());
                    client.arg("--ssl-cert").arg(tls.client_certificate());
                    client.arg("--ssl-key").arg(tls.client_key());
                }
                (name, password)
            }
        };
        client.args(["--user", name]).env("MYSQL_PWD", password);
        Ok(client)
    }

    fn users(options: &Options) -> String {
        let create = |account: &Account| {
            let user = format!("{}@'%'", quoted(&account.name));
            let password = quoted(&account.password);
            let grants = account.grants.iter();
            let grants = grants.map(|grant| format!("GRANT {grant} TO {user};\n"));
            format!("CREATE USER {user} IDENTIFIED BY {password};\n") + &grants.collect::<String>()
        };
        let certificate = |user: &str| format!("ALTER USER {}@'%' REQUIRE X509;\n", quoted(user));
        let created = options.accounts.iter().map(create).collect();
        let Some((_, ClientCertificate::Required)) = options.tls else {
            return created;
        };
        let names = options.accounts.iter().map(|account| account.name.as_str());
        let all = names.chain([MariaDbServer::USER]);
        created + &all.map(certificate).collect::<String>()
    }
}

fn make_data(server: &Path, data: &Path) -> Result<()> {
    let install = process::find("mariadb-install-db", PACKAGE)?;
    let version = run(
        Command::new(server).args(["--no-defaults", "--version"]),
        "",
    )?;
    // While data is created, each line is a statement, and users can be changed only after
    // privileges are loaded.
    let users = format!(
        "FLUSH PRIVILEGES;\n\
         CREATE DATABASE {DATABASE};\n\
         GRANT ALL ON *.* TO root@localhost IDENTIFIED BY '{admin}' WITH GRANT OPTION;\n\
         GRANT ALL ON *.* TO root@127.0.0.1 IDENTIFIED BY '{admin}' WITH GRANT OPTION;\n\
         GRANT ALL ON {DATABASE}.* TO {user}@'%' IDENTIFIED BY '{password}';\n\
         DELETE FROM mysql.global_priv WHERE Host NOT IN ('%', 'localhost', '127.0.0.1');\n",
        admin = MariaDbServer::ADMIN_PASSWORD,
        user = MariaDbServer::USER,
        password = MariaDbServer::PASSWORD,
    );
    let recipe = format!("{version}{users}{LIKE:?}");
    unpack(MariaDb::NAME, &recipe, data, None, |data| {
        let with_data = |program: &Path| {
            let mut command = Command::new(program);
            command.arg("--no-defaults").args(LIKE);
            command.arg(format!("--datadir={}", data.display()));
            if geteuid().is_root() {
                command.arg("--user=root");
            }
            command
        };
        let mut install = with_data(&install);
        let install = install.args(["--skip-test-db", "--skip-name-resolve"]);
        run(install.arg("--auth-root-authentication-method=normal"), "")?;
        run(with_data(server).arg("--bootstrap"), &users).map(drop)
    })
}

/// Quotes any string for a statement.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
}

/// Settings that must be the same at the start of the server as when the data was created. The log
/// is small because it is copied.
const LIKE: [&str; 3] = [
    "--innodb-log-file-size=8M",
    "--character-set-server=utf8mb4",
    "--collation-server=utf8mb4_general_ci",
];

/// The name of the configuration file in the server's directory.
const CONFIG: &str = "my.cnf";

/// The data directory in the server's directory.
const DATA: &str = "data";

/// The name of the Unix socket in the server's directory.
const SOCKET: &str = "mariadb.sock";

/// The package that contains all of its programs.
const PACKAGE: &str = "mariadb-server";
