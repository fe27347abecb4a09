//! A client whose connection stays open.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use tenure_testkit::{Kind, MariaDb, SqlServer};

/// A client program as the user `tenure`, queried line by line; killed on drop.
pub(crate) struct Session {
    program: Child,
    input: ChildStdin,
    output: Receiver<String>,
}

impl Session {
    /// Connects to a port: the server's, or that of something in front of it.
    pub(crate) fn open<K: Kind>(port: u16) -> Self {
        let mut command = match K::NAME == MariaDb::NAME {
            true => {
                let mut command = Command::new("mariadb");
                command
                    .args(["--no-defaults", "--batch", "--skip-column-names"])
                    .args(["--unbuffered", "--protocol=tcp", "--host=127.0.0.1"])
                    .args(["--user", SqlServer::<K>::USER, "--database=test"])
                    .arg(format!("--port={port}"))
                    .env("MYSQL_PWD", SqlServer::<K>::PASSWORD);
                command
            }
            false => {
                let mut command = Command::new("psql");
                command
                    .args(["--no-psqlrc", "--quiet", "--tuples-only", "--no-align"])
                    .args(["--host=127.0.0.1", "--username", SqlServer::<K>::USER])
                    .args(["--dbname=test", &format!("--port={port}")])
                    .env("PGPASSWORD", SqlServer::<K>::PASSWORD);
                command
            }
        };
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut program = command.spawn().unwrap();
        let lines = BufReader::new(program.stdout.take().unwrap()).lines();
        let (sender, output) = mpsc::channel();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                // Nobody receives the rows of a session that was dropped.
                let _ = sender.send(line);
            }
        });
        Self {
            input: program.stdin.take().unwrap(),
            program,
            output,
        }
    }

    /// Sends a statement.
    pub(crate) fn send(&mut self, statement: &str) {
        writeln!(self.input, "{statement};").unwrap();
    }

    /// Returns the next row.
    pub(crate) fn receive(&self) -> String {
        self.output.recv_timeout(Duration::from_secs(30)).unwrap()
    }

    /// Checks that nothing arrives for a while. A test that something does not happen cannot be
    /// certain any sooner.
    pub(crate) fn assert_silent(&self) {
        let row = self.output.recv_timeout(Duration::from_millis(100));
        assert_eq!(row, Err(mpsc::RecvTimeoutError::Timeout));
    }

    /// Sends a statement and returns its row.
    pub(crate) fn ask(&mut self, statement: &str) -> String {
        self.send(statement);
        self.receive()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // This fails only if there is nothing left to kill.
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}
