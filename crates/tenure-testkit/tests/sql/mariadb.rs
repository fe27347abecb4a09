//! What only a MariaDB server can do.

use std::os::unix::net::UnixStream;

use tenure_testkit::{Certificate, ClientCertificate, MariaDbServer};

#[test]
fn a_unix_socket_is_there() {
    let server = MariaDbServer::start().unwrap();
    assert!(UnixStream::connect(server.socket()).is_ok());
}

#[test]
fn a_replica_follows_lags_behind_and_takes_over() {
    let mut primary = MariaDbServer::builder()
        .binary_log()
        .user("ann", "secret", &["SELECT, INSERT ON test.*"])
        .start()
        .unwrap();
    primary.sql("CREATE TABLE a (b INT); INSERT INTO a VALUES (1)");
    let mut replica = MariaDbServer::replica_of(&primary).unwrap();
    let insert = "INSERT INTO a VALUES (9)";
    let refused = replica.query_as("ann", "secret", insert).unwrap_err();
    assert!(refused.to_string().contains("--read-only"), "{refused}");
    assert_eq!(replica.sql("SELECT b FROM a"), "1");
    replica.pause_replay().unwrap();
    primary.sql("INSERT INTO a VALUES (2)");
    assert_eq!(replica.sql("SELECT b FROM a"), "1", "it is stale");
    replica.resume_replay().unwrap();
    replica.wait_until_caught_up(&primary).unwrap();
    assert_eq!(replica.sql("SELECT b FROM a ORDER BY b"), "1\n2");
    replica.start_again().unwrap();
    primary.start_again().unwrap();
    primary.sql("INSERT INTO a VALUES (3)");
    replica.wait_until_caught_up(&primary).unwrap();
    primary.kill().unwrap();
    replica.promote().unwrap();
    for _ in 0..2 {
        replica.query_as("ann", "secret", insert).unwrap();
        replica.start_again().unwrap();
    }
    assert_eq!(replica.sql("SELECT b FROM a ORDER BY b"), "1\n2\n3\n9\n9");
}

#[test]
fn a_replica_follows_by_tls() {
    let primary = MariaDbServer::builder()
        .binary_log()
        .tls(Certificate::Valid, ClientCertificate::Required)
        .start()
        .unwrap();
    primary.sql("CREATE TABLE a (b INT); INSERT INTO a VALUES (1)");
    let replica = MariaDbServer::replica_of(&primary).unwrap();
    assert_eq!(replica.sql("SELECT b FROM a"), "1");
}

#[test]
fn a_server_without_a_binary_log_has_no_replica() {
    let primary = MariaDbServer::start().unwrap();
    let error = MariaDbServer::replica_of(&primary).unwrap_err();
    assert!(error.to_string().contains("binary_log()"), "{error}");
}
