//! The configuration files of a PostgreSQL server.

use crate::sql::{Durability, Options, Start};
use crate::tls::ClientCertificate;

/// Returns the text of the configuration file.
pub(super) fn text(start: &Start<'_>) -> String {
    let (folder, options) = (start.folder.display().to_string(), start.options);
    let mut lines: Vec<(&str, String)> = vec![
        ("listen_addresses", "127.0.0.1".into()),
        ("port", start.port.to_string()),
        ("unix_socket_directories", folder.clone()),
        ("hba_file", format!("{folder}/{ACCESS}")),
        // Uses files in the data directory, because other kinds of memory would be left behind when
        // the server is killed.
        ("dynamic_shared_memory_type", "mmap".into()),
    ];
    let (fsync, confirm) = match options.durability {
        Durability::Delayed => ("off", "off"),
        Durability::Flushed => ("on", "on"),
        Durability::Written => ("off", "on"),
    };
    lines.push(("fsync", fsync.into()));
    lines.push(("synchronous_commit", confirm.into()));
    if options.is_in_memory() {
        lines.push(("max_wal_size", "128MB".into()));
    }
    if let Some(level) = &options.isolation {
        let level = level.to_lowercase().replace('-', " ");
        lines.push(("default_transaction_isolation", level));
    }
    if let Some(count) = options.max_connections {
        lines.push(("max_connections", count.to_string()));
    }
    if let Some(tls) = start.tls {
        lines.push(("ssl", "on".into()));
        lines.push(("ssl_ca_file", tls.ca().display().to_string()));
        let certificate = tls.server_certificate().display().to_string();
        lines.push(("ssl_cert_file", certificate));
        lines.push(("ssl_key_file", tls.server_key().display().to_string()));
    }
    let settings = options.settings.iter();
    lines.extend(settings.map(|(name, value)| (name.as_str(), value.clone())));
    let lines = lines.iter().map(|(name, value)| {
        let value = value.replace('\\', "\\\\").replace('\'', "''");
        format!("{name} = '{value}'\n")
    });
    lines.collect()
}

/// Returns the text of the file that controls access: all users need a password.
pub(super) fn access(options: &Options) -> String {
    let (host, certificate) = match options.tls {
        None => ("host", ""),
        Some((_, ClientCertificate::NotAsked)) => ("hostssl", ""),
        Some((_, ClientCertificate::Required)) => ("hostssl", "clientcert=verify-ca"),
    };
    format!(
        "local all,replication all scram-sha-256\n\
         {host} all,replication postgres 127.0.0.1/32 scram-sha-256\n\
         {host} all all 127.0.0.1/32 scram-sha-256 {certificate}\n"
    )
}

/// The name of the file that controls access.
pub(super) const ACCESS: &str = "pg_hba.conf";
