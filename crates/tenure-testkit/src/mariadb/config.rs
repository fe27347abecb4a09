//! The configuration file of a MariaDB server.

use rustix::process::geteuid;

use super::{DATA, LIKE, SOCKET};
use crate::sql::{Durability, Start};

/// Returns the text of the configuration file.
pub(super) fn text(start: &Start<'_>) -> String {
    let (folder, options) = (start.folder.display(), start.options);
    let mut lines = vec![
        "[mariadbd]".to_owned(),
        format!("datadir={folder}/{DATA}"),
        format!("socket={folder}/{SOCKET}"),
        format!("pid-file={folder}/mariadb.pid"),
        format!("tmpdir={folder}"),
        format!("port={}", start.port),
        // Different for each server, because a replica ignores what seems to come from itself.
        format!("server-id={}", start.port),
        "bind-address=127.0.0.1".to_owned(),
        "skip-name-resolve".to_owned(),
        // Neither is worth its time here.
        "innodb-buffer-pool-load-at-startup=OFF".to_owned(),
        "innodb-temp-data-file-path=ibtmp1:1M:autoextend".to_owned(),
    ];
    lines.extend(LIKE.map(|option| option.trim_start_matches("--").to_owned()));
    if geteuid().is_root() {
        lines.push("user=root".to_owned());
    }
    lines.push(match options.durability {
        Durability::Delayed => "innodb-flush-log-at-trx-commit=0".to_owned(),
        Durability::Flushed => "innodb-flush-log-at-trx-commit=1\nsync-binlog=1".to_owned(),
        Durability::Written => "innodb-flush-log-at-trx-commit=2".to_owned(),
    });
    if let Some(level) = &options.isolation {
        lines.push(format!("transaction-isolation={level}"));
    }
    if let Some(count) = options.max_connections {
        lines.push(format!("max-connections={count}"));
    }
    if let Some(tls) = start.tls {
        lines.push(format!("ssl-ca={}", tls.ca().display()));
        lines.push(format!("ssl-cert={}", tls.server_certificate().display()));
        lines.push(format!("ssl-key={}", tls.server_key().display()));
        lines.push("require-secure-transport=ON".to_owned());
    }
    let settings = options.settings.iter();
    lines.extend(settings.map(|(name, value)| format!("{name}={value}")));
    lines.join("\n") + "\n"
}
