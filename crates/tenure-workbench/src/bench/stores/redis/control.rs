//! A connection that inspects the server: its CPU time and its clients.

use std::cell::RefCell;
use std::fmt;
use std::time::Duration;

use redis::{Client, Cmd, Connection, FromRedisValue, RedisResult};

use crate::bench::stores::redis::bare::PATIENCE;

/// A blocking connection, like everything in the process that only starts the others.
pub(super) struct Control(RefCell<Connection>);

impl Control {
    pub(super) fn open(client: &Client) -> RedisResult<Self> {
        let connection = client.get_connection_with_timeout(PATIENCE)?;
        connection.set_read_timeout(Some(PATIENCE))?;
        connection.set_write_timeout(Some(PATIENCE))?;
        Ok(Self(RefCell::new(connection)))
    }

    pub(super) fn ask<T: FromRedisValue>(&self, command: &Cmd) -> RedisResult<T> {
        command.query(&mut *self.0.borrow_mut())
    }

    /// Returns the CPU time that the server has used, if it reports it.
    pub(super) fn server_time(&self) -> RedisResult<Option<Duration>> {
        let info: String = self.ask(redis::cmd("INFO").arg("cpu"))?;
        Ok(processor_time(&info))
    }

    /// Returns the server's list of clients, one per line.
    pub(super) fn clients(&self) -> RedisResult<String> {
        self.ask(redis::cmd("CLIENT").arg("LIST"))
    }

    pub(super) fn into_inner(self) -> Connection {
        self.0.into_inner()
    }
}

impl fmt::Debug for Control {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Control").finish_non_exhaustive()
    }
}

/// Parses the CPU time of the server from its `INFO`.
fn processor_time(info: &str) -> Option<Duration> {
    let seconds = |name: &str| {
        let mut lines = info.lines().filter_map(|line| line.split_once(':'));
        let (_, value) = lines.find(|(found, _)| *found == name)?;
        value.trim().parse::<f64>().ok()
    };
    let used = seconds("used_cpu_user")? + seconds("used_cpu_sys")?;
    Duration::try_from_secs_f64(used).ok()
}

/// Returns whether the client with this name is blocked, according to the server's list.
pub(super) fn is_blocked(clients: &str, name: &str) -> bool {
    let is_it = |line: &&str| field(line, "name=") == Some(name);
    let mut named = clients.lines().filter(is_it);
    named.any(|line| field(line, "flags=").is_some_and(|flags| flags.contains('b')))
}

/// Returns the addresses of all clients in the server's list.
pub(super) fn addresses(clients: &str) -> Vec<String> {
    let addresses = clients.lines().filter_map(|line| field(line, "addr="));
    addresses.map(str::to_owned).collect()
}

fn field<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let mut words = line.split(' ');
    words.find_map(|word| word.strip_prefix(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLIENTS: &str = "\
id=5 addr=127.0.0.1:50001 laddr=127.0.0.1:6379 name=tenure-bench-7 flags=b cmd=blpop
id=6 addr=127.0.0.1:50002 laddr=127.0.0.1:6379 name=tenure-bench-8 flags=N cmd=lpush
id=7 addr=[::1]:50003 laddr=[::1]:6379 name= flags=b cmd=blpop
";

    #[test]
    fn the_servers_time_is_read_from_its_info() {
        let info =
            "# CPU\r\nused_cpu_sys:0.25\r\nused_cpu_user:1.5\r\nused_cpu_user_children:7\r\n";
        assert_eq!(processor_time(info), Some(Duration::from_millis(1750)));
        assert_eq!(processor_time("# CPU\r\n"), None);
    }

    #[test]
    fn a_client_that_waits_is_found_by_its_name() {
        assert!(is_blocked(CLIENTS, "tenure-bench-7"));
        assert!(!is_blocked(CLIENTS, "tenure-bench-8"));
        assert!(!is_blocked(CLIENTS, "tenure-bench"));
    }

    #[test]
    fn clients_have_addresses() {
        let found = ["127.0.0.1:50001", "127.0.0.1:50002", "[::1]:50003"];
        assert_eq!(addresses(CLIENTS), found);
    }
}
