//! Counts the commands that the server receives, with `MONITOR`.
//!
//! The counters in `INFO` include the commands that scripts call (in Redis 7.0,
//! `total_commands_processed` as well as `commandstats`), and do not distinguish a `SET` of a
//! script from one of a client. `MONITOR` does, but costs the server about as much as the commands
//! themselves.

use std::sync::mpsc::{self, Receiver, Sender};

use redis::{Client, Connection, RedisResult, Value};

use crate::bench::stores::Counter;
use crate::bench::stores::redis::bare::PATIENCE;
use crate::bench::stores::redis::control::{Control, addresses};
use crate::bench::stores::redis::failed;
use tenure_cli::{Failure, Result};

/// Counts in a separate thread, which ends with this value.
#[derive(Debug)]
pub(super) struct Monitor {
    control: Control,
    /// The counts up to each mark.
    counts: Receiver<u64>,
}

impl Monitor {
    /// Starts to count the commands of clients that connect after this call.
    ///
    /// Clients that are already connected are unrelated, or belong to this process, which only
    /// inspects.
    pub(super) fn start(client: &Client) -> RedisResult<Self> {
        let control = Control::open(client)?;
        let strangers = addresses(&control.clients()?);
        let watching = Control::open(client)?;
        watching.ask::<()>(&redis::cmd("MONITOR"))?;
        let watching = watching.into_inner();
        // There may be no command for a long time; the mark in `drop` ends the thread.
        watching.set_read_timeout(None)?;
        let (sender, counts) = mpsc::channel();
        let count = Count {
            strangers,
            commands: 0,
        };
        std::thread::spawn(move || watch(watching, count, &sender));
        Ok(Self { control, counts })
    }

    fn mark(&self, mark: &str) -> RedisResult<()> {
        self.control.ask(redis::cmd("ECHO").arg(mark))
    }
}

impl Counter for Monitor {
    /// Puts a mark into the stream, and waits until the mark is read: the count is exact at that
    /// point.
    fn commands(&self) -> Result<u64> {
        self.mark(&mark()).map_err(|error| failed(&error))?;
        self.counts
            .recv_timeout(PATIENCE)
            .map_err(|_| Failure::unavailable("the Redis server stopped reporting its commands"))
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        // If this fails, the server is gone, and the thread has ended.
        let _ = self.mark(&end());
    }
}

/// Reads the stream until the end mark, or until the server closes it.
fn watch(mut watching: Connection, mut count: Count, counts: &Sender<u64>) {
    let (mark, end) = (mark(), end());
    while let Ok(told) = watching.recv_response() {
        let Value::SimpleString(line) = told else {
            continue;
        };
        if line.ends_with(&format!("\"{end}\"")) {
            return;
        }
        if line.ends_with(&format!("\"{mark}\"")) {
            // Nobody may be waiting for it any more.
            let _ = counts.send(count.commands);
        }
        count.hear(&line);
    }
}

/// Counts the commands of all clients that were not connected before.
#[derive(Debug)]
struct Count {
    strangers: Vec<String>,
    commands: u64,
}

impl Count {
    fn hear(&mut self, line: &str) {
        let Some(from) = sender_of(line) else {
            return;
        };
        if from != SCRIPT && !self.strangers.iter().any(|stranger| stranger == from) {
            self.commands += 1;
        }
    }
}

/// Returns the sender of a command, from a line such as `1700000000.123456 [0 127.0.0.1:50001]
/// "SET" "a" "b"`.
fn sender_of(line: &str) -> Option<&str> {
    let (_, rest) = line.split_once(" [")?;
    let (from, _) = rest.split_once("] \"")?;
    let (_database, from) = from.split_once(' ')?;
    Some(from)
}

fn mark() -> String {
    format!("tenure-bench-{}-mark", std::process::id())
}

fn end() -> String {
    format!("tenure-bench-{}-end", std::process::id())
}

/// The sender of commands that a script calls.
const SCRIPT: &str = "lua";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_clients_send_is_counted() {
        let mut count = Count {
            strangers: vec!["127.0.0.1:50000".to_owned()],
            commands: 0,
        };
        let lines = [
            r#"1700000000.000001 [0 127.0.0.1:50001] "EVALSHA" "abc" "1" "key [0 lua] \"x\"""#,
            r#"1700000000.000002 [0 lua] "GET" "key""#,
            r#"1700000000.000003 [0 lua] "DEL" "key""#,
            r#"1700000000.000004 [0 127.0.0.1:50000] "ECHO" "mark""#,
            r#"1700000000.000005 [3 [::1]:50001] "SET" "key" "value""#,
            "OK",
        ];
        for line in lines {
            count.hear(line);
        }
        assert_eq!(count.commands, 2);
    }
}
